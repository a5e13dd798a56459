// SPDX-License-Identifier: Apache-2.0
//! The network configuration on stdin: what every command needs ([`Header`]) and the whole of it ([`NetConf`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::env::Command;
use crate::error::CniError;
use crate::result::{CniResult, Dns};
use crate::version::CniVersion;

/// What each command but VERSION checks of its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// `name`
    pub name: String,
    /// `cniVersion`
    pub version: CniVersion,
}

impl Header {
    /// Decodes and checks `name` and `cniVersion`.
    ///
    /// # Errors
    /// Code 6: not a JSON object, or a wrong type; 7: no name or a malformed one; 1: a version that we do not speak.
    pub fn parse(stdin: &[u8]) -> Result<Self, CniError> {
        let _ = stdin;
        Err(CniError::new(crate::error::Code::INTERNAL, "not there yet"))
    }

    /// Whether the configuration's version knows `command`: CHECK from 0.4.0, STATUS and GC from 1.1.0.
    ///
    /// # Errors
    /// Code 1.
    pub fn allow(&self, command: Command) -> Result<(), CniError> {
        let _ = command;
        Ok(())
    }
}

/// The lowest level that is logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// The default.
    #[default]
    Info,
    /// Warnings and worse.
    Warn,
    /// Errors and worse.
    Error,
    /// What ends the process.
    Fatal,
    /// Nothing.
    None,
}

/// Whether STATUS depends on the agent (`millrace_status_gate`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatusGate {
    /// STATUS fails only for a configuration that does not parse.
    #[default]
    Config,
    /// STATUS fails with 50 or 51 while the agent is not ready. Only together with an agent on the host's network: the node
    /// counts as not ready until then.
    Agent,
    /// A gate that this build does not know, from a newer installer: the same as [`Self::Config`], to be logged.
    Unrecognised,
}

/// One attachment that GC must leave alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attachment {
    /// `containerID`
    pub container_id: String,
    /// `ifname`
    pub ifname: String,
}

/// A label selector of Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector {
    /// `matchLabels`
    pub match_labels: BTreeMap<String, String>,
    /// `matchExpressions`
    pub match_expressions: Vec<LabelRequirement>,
}

/// One expression of a [`LabelSelector`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelRequirement {
    /// `key`
    pub key: String,
    /// `operator`: `In`, `NotIn`, `Exists`, `DoesNotExist`.
    pub operator: String,
    /// `values`
    pub values: Vec<String>,
}

/// Which pods are ambient; only that mode uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnablementSelector {
    /// `podSelector`
    pub pod: LabelSelector,
    /// `namespaceSelector`
    pub namespace: LabelSelector,
}

/// Keys that installers before 1.24 wrote. Where a key of today says the same, that one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OldKeys {
    /// `log_uds_address`
    pub log_uds_address: String,
    /// `cni_event_address`
    pub cni_event_address: String,
    /// `kubernetes.k8s_api_root`
    pub k8s_api_root: String,
    /// `kubernetes.kubeconfig`
    pub kubeconfig: String,
    /// `kubernetes.node_name`
    pub node_name: String,
    /// `kubernetes.cni_bin_dir`
    pub cni_bin_dir: String,
    /// `kubernetes.intercept_type`
    pub intercept_type: String,
}

/// The plugin's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct NetConf {
    /// `name` and `cniVersion`, checked.
    pub header: Header,
    /// `type`
    pub plugin_type: String,
    /// `capabilities`
    pub capabilities: BTreeMap<String, bool>,
    /// `ipam.type`
    pub ipam_type: String,
    /// `dns`
    pub dns: Dns,
    /// `prevResult`, of the family of `cniVersion`.
    pub prev_result: Option<CniResult>,
    /// `cni.dev/valid-attachments`, given to GC. Missing and `null` are `None`: nothing is known of what is valid.
    pub valid_attachments: Option<Vec<Attachment>>,
    /// `plugin_log_level`, else the old `log_level`.
    pub log_level: LogLevel,
    /// `cni_agent_run_dir`, as given; empty if not. Use the methods for paths.
    pub run_dir: String,
    /// `ambient_enabled`
    pub ambient_enabled: bool,
    /// `enablement_selectors`
    pub enablement_selectors: Vec<EnablementSelector>,
    /// `exclude_namespaces`, else the old `kubernetes.exclude_namespaces`.
    pub exclude_namespaces: Vec<String>,
    /// `pod_namespace`: where the agent lives.
    pub pod_namespace: String,
    /// `native_nftables`
    pub native_nftables: bool,
    /// `enable_ambient_detection_retry`
    pub enable_ambient_detection_retry: bool,
    /// `millrace_status_gate`
    pub status_gate: StatusGate,
    /// What older installers wrote.
    pub old: OldKeys,
}

impl NetConf {
    /// Decodes the whole configuration, the [`Header`] included. Unknown keys are ignored, `null` means the same as leaving a key out,
    /// and of a key that is there twice the last counts.
    ///
    /// # Errors
    /// Those of [`Header::parse`]; code 6 for a value of a wrong type, and for a `prevResult` that is not one of the
    /// configuration's version.
    pub fn parse(stdin: &[u8]) -> Result<Self, CniError> {
        let header = Header::parse(stdin)?;
        Err(CniError::new(crate::error::Code::INTERNAL, header.name))
    }

    /// The credentials for the API server.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        PathBuf::new()
    }

    /// Where the agent takes log lines.
    #[must_use]
    pub fn log_socket(&self) -> PathBuf {
        PathBuf::new()
    }

    /// Where the agent answers ([`crate::agent`]).
    #[must_use]
    pub fn agent_socket(&self) -> PathBuf {
        PathBuf::new()
    }

    /// Where an agent in ambient mode takes events.
    #[must_use]
    pub fn event_socket(&self) -> PathBuf {
        PathBuf::new()
    }

    /// The rolling log file.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        PathBuf::new()
    }
}
