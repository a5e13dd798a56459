// SPDX-License-Identifier: Apache-2.0
//! The plugin's entry.

use manifests::table;
use netfilter::Wish;

use super::build::Reader;
use super::{LogSettings, OwnPod, kind, selectors};

/// The newest version of the specification that runtimes and plugins are known to agree about.
pub const NEWEST: &str = "1.1.0";
/// The `type` of our entry: the name of the plugin's binary.
pub const OUR_TYPE: &str = "istio-cni";

/// Content of our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntrySettings {
    /// `plugin_log_level`
    pub log_level: String,
    /// `exclude_namespaces`, in the given order.
    pub exclude_namespaces: Vec<String>,
    /// `pod_namespace`
    pub pod_namespace: String,
    /// `ambient_enabled`
    pub ambient_enabled: bool,
    /// `enablement_selectors` as JSON text.
    pub enablement_selectors: String,
    /// `native_nftables`
    pub native_nftables: bool,
    /// `enable_ambient_detection_retry`
    pub ambient_detection_retry: bool,
    /// `millrace_status_gate: agent`
    pub status_gate: bool,
    /// `millrace_backend`; [`Wish::Auto`] is left out.
    pub backend: Wish,
    /// `millrace_sandboxed_runtimes: refuse`; left out otherwise.
    pub refuses_sandboxed: bool,
    /// `millrace_interception_mode_none: skip`; left out otherwise.
    pub skips_no_interception: bool,
    /// The runtime hands a pod's annotations to the plugin.
    pub runtime_annotations: bool,
}

impl Reader<'_> {
    pub(super) fn entry(&mut self, own: &OwnPod, log: &LogSettings) -> EntrySettings {
        EntrySettings {
            log_level: kind::level_name(log.levels.of_plugin()).to_owned(),
            exclude_namespaces: kind::list(&self.text(&table::EXCLUDE_NAMESPACES)),
            pod_namespace: own.namespace.clone(),
            ambient_enabled: self.boolean(&table::AMBIENT),
            enablement_selectors: self.read(&table::SELECTORS, selectors::to_json, "[]".to_owned()),
            native_nftables: self.boolean(&table::NATIVE_NFTABLES),
            ambient_detection_retry: self.boolean(&table::AMBIENT_RETRY),
            status_gate: self.read(&table::STATUS_GATE, kind::gate, false),
            backend: self.read(&table::BACKEND, kind::backend, netfilter::Wish::Auto),
            refuses_sandboxed: self.read(&table::SANDBOXED_RUNTIMES, kind::sandboxed, false),
            skips_no_interception: self.read(&table::NO_INTERCEPTION, kind::no_interception, false),
            runtime_annotations: self.boolean(&table::RUNTIME_ANNOTATIONS),
        }
    }
}
