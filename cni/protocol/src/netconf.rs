// SPDX-License-Identifier: Apache-2.0
//! The network configuration on stdin: what every command needs ([`Header`]) and the whole of it ([`NetConf`]).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::env::Command;
use crate::error::CniError;
use crate::json::{Fields, JsonError};
use crate::result::{CniResult, ResultError};

mod header;
mod paths;
mod unread;

pub use header::Header;
pub use paths::BACKEND_RECORD;

use header::undecodable;

/// The capability by which containerd and CRI-O hand a pod's annotations to a plugin whose `capabilities` have it, in `runtimeConfig`.
pub const POD_ANNOTATIONS: &str = "io.kubernetes.cri.pod-annotations";

/// Log threshold.
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
    /// Fatal errors.
    Fatal,
    /// Nothing.
    None,
}

/// Makes STATUS depend on the agent (`millrace_status_gate`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatusGate {
    /// STATUS fails only for a configuration that does not parse.
    #[default]
    Config,
    /// STATUS fails with 50 while the agent is not ready. Only together with an agent on the host's network: the node
    /// counts as not ready until then.
    Agent,
    /// A gate that this build does not know, from a newer installer: the same as [`Self::Config`], to be logged.
    Unrecognised,
}

/// Treatment of pods of sandboxed runtimes, whose packets meet no rules (`millrace_sandboxed_runtimes`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxedRuntimes {
    /// ADD writes the rules and logs a warning.
    #[default]
    Warn,
    /// ADD fails.
    Refuse,
}

/// Treatment of pods whose annotation `sidecar.istio.io/interceptionMode` is `NONE` (`millrace_interception_mode_none`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NoInterception {
    /// ADD fails, as upstream's does.
    #[default]
    Refuse,
    /// The pod is left alone.
    Skip,
}

/// Keys that installers before 1.24 wrote. Where a key of today says the same, that one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OldKeys {
    /// `log_uds_address`
    pub log_uds_address: String,
    /// `cni_event_address`
    pub cni_event_address: String,
    /// `kubernetes.kubeconfig`
    pub kubeconfig: String,
}

/// The plugin's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetConf {
    /// `name` and `cniVersion`, checked.
    pub header: Header,
    /// `prevResult`, of the family of `cniVersion`.
    pub prev_result: Option<CniResult>,
    /// `plugin_log_level`, else the old `log_level`.
    pub log_level: LogLevel,
    /// The level's text where it is none that we know: [`LogLevel::Info`] holds, and somebody should be told.
    pub unknown_log_level: Option<String>,
    /// `cni_agent_run_dir`, as given; empty if not. Use the methods for paths.
    pub run_dir: String,
    /// `ambient_enabled`
    pub ambient_enabled: bool,
    /// `exclude_namespaces`, else the old `kubernetes.exclude_namespaces`.
    pub exclude_namespaces: Vec<String>,
    /// `pod_namespace`: where the agent lives.
    pub pod_namespace: String,
    /// `native_nftables`
    pub native_nftables: bool,
    /// `millrace_backend`: the back end that writes rules; empty if not given.
    pub backend: String,
    /// `millrace_iptables_deadline_seconds`: how long the iptables tools may take together, where they are needed at all. None if not
    /// given, or not positive.
    pub iptables_deadline: Option<Duration>,
    /// `millrace_status_gate`
    pub status_gate: StatusGate,
    /// `millrace_sandboxed_runtimes`; a value that this build does not know is [`SandboxedRuntimes::Warn`].
    pub sandboxed_runtimes: SandboxedRuntimes,
    /// `millrace_interception_mode_none`; a value that this build does not know is [`NoInterception::Refuse`].
    pub no_interception: NoInterception,
    /// Annotations of the pod, as the runtime has them from the kubelet ([`POD_ANNOTATIONS`]); None if it hands none, or anything but texts.
    pub pod_annotations: Option<BTreeMap<String, String>>,
    /// Keys of older installers.
    pub old: OldKeys,
}

/// Every key that is read or checked; others are skipped.
const KEYS: &[&str] = &[
    "cniVersion",
    "name",
    "type",
    "capabilities",
    "ipam",
    "dns",
    "prevResult",
    "runtimeConfig",
    "cni.dev/valid-attachments",
    "plugin_log_level",
    "log_level",
    "cni_agent_run_dir",
    "ambient_enabled",
    "enablement_selectors",
    "exclude_namespaces",
    "pod_namespace",
    "native_nftables",
    "enable_ambient_detection_retry",
    "millrace_backend",
    "millrace_iptables_deadline_seconds",
    "millrace_status_gate",
    "millrace_sandboxed_runtimes",
    "millrace_interception_mode_none",
    "log_uds_address",
    "cni_event_address",
    "kubernetes",
];

impl NetConf {
    /// Decodes the whole configuration, the [`Header`] included. Unknown keys are ignored, `null` means the same as leaving
    /// a key out, and of a key that is there twice the last counts.
    ///
    /// # Errors
    /// Those of [`Header::parse`] for ADD; code 6 for a value of a wrong type or a `prevResult` that can not be read, 1 for one of
    /// another family of versions than the configuration.
    pub fn parse(stdin: &[u8]) -> Result<Self, CniError> {
        let mut fields = Fields::parse(stdin, KEYS).map_err(|error| undecodable(&error))?;
        let header = Header::from_fields(&mut fields, Command::Add)?;
        let prev_result = fields.take("prevResult");
        let mut conf = Self::from_fields(header, &mut fields).map_err(|error| undecodable(&error))?;
        if !prev_result.is_null() {
            let unusable =
                |error: ResultError| CniError::caused(error.code(), "could not parse prevResult", &error);
            conf.prev_result = Some(CniResult::decode(prev_result, conf.header.version).map_err(unusable)?);
        }
        Ok(conf)
    }

    fn from_fields(header: Header, fields: &mut Fields) -> Result<Self, JsonError> {
        let (old, old_excluded) = OldKeys::from_fields(fields)?;
        let old_level = fields.string("log_level")?;
        let level =
            Some(fields.string("plugin_log_level")?).filter(|text| !text.is_empty()).unwrap_or(old_level);
        let log_level = LogLevel::from_text(&level);
        unread::check_specified(fields)?;
        let run_dir = fields.string("cni_agent_run_dir")?;
        let ambient_enabled = fields.boolean("ambient_enabled")?;
        unread::check_selectors(fields)?;
        let exclude_namespaces = fields.strings("exclude_namespaces")?.or(old_excluded).unwrap_or_default();
        let pod_namespace = fields.string("pod_namespace")?;
        let native_nftables = fields.boolean("native_nftables")?;
        fields.boolean("enable_ambient_detection_retry")?;
        let pod_annotations = annotations(fields.take("runtimeConfig"));
        Ok(Self {
            header,
            prev_result: None,
            log_level: log_level.unwrap_or_default(),
            unknown_log_level: (log_level.is_none() && !level.is_empty()).then_some(level),
            run_dir,
            ambient_enabled,
            exclude_namespaces,
            pod_namespace,
            native_nftables,
            backend: fields.string("millrace_backend")?,
            iptables_deadline: fields
                .integer("millrace_iptables_deadline_seconds")?
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
            status_gate: StatusGate::from_text(&fields.string("millrace_status_gate")?),
            sandboxed_runtimes: match fields.string("millrace_sandboxed_runtimes")?.as_str() {
                "refuse" => SandboxedRuntimes::Refuse,
                _ => SandboxedRuntimes::Warn,
            },
            no_interception: match fields.string("millrace_interception_mode_none")?.as_str() {
                "skip" => NoInterception::Skip,
                _ => NoInterception::Refuse,
            },
            pod_annotations,
            old,
        })
    }
}

/// Nothing in `runtimeConfig` is an error: upstream's plugin does not read it.
fn annotations(mut runtime: Value) -> Option<BTreeMap<String, String>> {
    serde_json::from_value(runtime.get_mut(POD_ANNOTATIONS)?.take()).ok()
}

impl OldKeys {
    /// The keys, and the old list of excluded namespaces.
    fn from_fields(fields: &mut Fields) -> Result<(Self, Option<Vec<String>>), JsonError> {
        let mut nested = fields.object("kubernetes")?.unwrap_or_default();
        let log_uds_address = fields.string("log_uds_address")?;
        let cni_event_address = fields.string("cni_event_address")?;
        nested.string("k8s_api_root")?;
        let kubeconfig = nested.string("kubeconfig")?;
        for unread in ["node_name", "cni_bin_dir", "intercept_type"] {
            nested.string(unread)?;
        }
        let keys = Self { log_uds_address, cni_event_address, kubeconfig };
        Ok((keys, nested.strings("exclude_namespaces")?))
    }
}

impl LogLevel {
    /// The level of that name.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        Some(match text {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "warn" => Self::Warn,
            "error" => Self::Error,
            "fatal" => Self::Fatal,
            "none" => Self::None,
            _ => return None,
        })
    }
}

impl StatusGate {
    fn from_text(text: &str) -> Self {
        match text {
            "" => Self::Config,
            "agent" => Self::Agent,
            _ => Self::Unrecognised,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::Code;
    use crate::version::CniVersion;

    fn parse(keys: &Value) -> Result<NetConf, CniError> {
        let mut conf = json!({"name": "n", "cniVersion": "1.0.0"});
        for (key, value) in keys.as_object().into_iter().flatten() {
            conf[key] = value.clone();
        }
        NetConf::parse(conf.to_string().as_bytes())
    }

    #[test]
    fn every_key_of_today_is_read() {
        let conf = parse(&json!({
            "type": "istio-cni", "capabilities": {"portMappings": true, "x": null}, "ipam": {"type": "host-local"},
            "dns": {"domain": "d"}, "plugin_log_level": "debug", "cni_agent_run_dir": "/run/x", "ambient_enabled": true,
            "enablement_selectors": [{
                "podSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
                "namespaceSelector": {},
            }],
            "exclude_namespaces": ["kube-system"], "pod_namespace": "istio-system", "native_nftables": true,
            "enable_ambient_detection_retry": true, "millrace_backend": "nft", "millrace_status_gate": "agent", "millrace_iptables_deadline_seconds": 3,
            "millrace_sandboxed_runtimes": "refuse", "millrace_interception_mode_none": "skip",
            "runtimeConfig": {"portMappings": [], "io.kubernetes.cri.pod-annotations": {"a": "b"}},
            "cni.dev/valid-attachments": [{"containerID": "c", "ifname": "eth0"}],
        }))
        .unwrap();
        let want = NetConf {
            header: Header { name: "n".to_owned(), version: CniVersion::V1_0_0 },
            prev_result: None,
            log_level: LogLevel::Debug,
            unknown_log_level: None,
            run_dir: "/run/x".to_owned(),
            ambient_enabled: true,
            exclude_namespaces: vec!["kube-system".to_owned()],
            pod_namespace: "istio-system".to_owned(),
            native_nftables: true,
            backend: "nft".to_owned(),
            iptables_deadline: Some(Duration::from_secs(3)),
            status_gate: StatusGate::Agent,
            sandboxed_runtimes: SandboxedRuntimes::Refuse,
            no_interception: NoInterception::Skip,
            pod_annotations: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])),
            old: OldKeys::default(),
        };
        assert_eq!(conf, want);
    }

    #[test]
    fn what_a_runtime_hands_that_are_no_annotations_is_nothing() {
        for runtime in [
            json!(7),
            json!({}),
            json!({"io.kubernetes.cri.pod-annotations": null}),
            json!({"io.kubernetes.cri.pod-annotations": ["a"]}),
            json!({"io.kubernetes.cri.pod-annotations": {"a": 1}}),
        ] {
            let conf = parse(&json!({"runtimeConfig": runtime})).unwrap();
            assert_eq!(conf.pod_annotations, None, "{runtime}");
        }
    }

    #[test]
    fn null_is_the_same_as_nothing() {
        let nothing = parse(&json!({})).unwrap();
        let nulls: Value =
            KEYS.iter().filter(|k| **k != "name").map(|k| ((*k).to_owned(), Value::Null)).collect();
        let mut conf = parse(&nulls).unwrap();
        assert_eq!(conf.header.version, CniVersion::V0_1_0);
        conf.header.version = nothing.header.version;
        assert_eq!(conf, nothing);
    }

    #[test]
    fn old_keys_are_honoured_until_a_new_one_speaks() {
        let old = json!({
            "log_level": "warn",
            "kubernetes": {
                "k8s_api_root": "https://k", "kubeconfig": "/k", "node_name": "node", "cni_bin_dir": "/bin",
                "intercept_type": "iptables", "exclude_namespaces": ["a", "b"],
            },
        });
        let conf = parse(&old).unwrap();
        assert_eq!((conf.log_level, conf.exclude_namespaces.len()), (LogLevel::Warn, 2));
        assert_eq!(conf.old.kubeconfig, "/k");
        let mut both = old;
        both["plugin_log_level"] = "error".into();
        both["exclude_namespaces"] = json!([]);
        let conf = parse(&both).unwrap();
        assert_eq!((conf.log_level, conf.exclude_namespaces.len()), (LogLevel::Error, 0));
    }

    #[test]
    fn a_wrong_type_is_an_error_that_names_its_key() {
        let outer = [
            ("type", json!(7)),
            ("capabilities", json!({"a": "yes"})),
            ("ipam", json!([])),
            ("dns", json!("x")),
            ("plugin_log_level", json!(1)),
            ("exclude_namespaces", json!("x")),
            ("exclude_namespaces", json!([1])),
            ("ambient_enabled", json!("yes")),
            ("native_nftables", json!(1)),
            ("enablement_selectors", json!({})),
            ("enable_ambient_detection_retry", json!("yes")),
            ("cni.dev/valid-attachments", json!(["a"])),
            ("kubernetes", json!("x")),
        ];
        let inner = [
            ("intercept_type", json!({"kubernetes": {"intercept_type": 1}})),
            ("ifname", json!({"cni.dev/valid-attachments": [{"ifname": 1}]})),
            ("matchLabels", json!({"enablement_selectors": [{"podSelector": {"matchLabels": {"a": 1}}}]})),
            (
                "values",
                json!({"enablement_selectors": [{"namespaceSelector": {"matchExpressions": [{"values": 1}]}}]}),
            ),
        ];
        for (key, keys) in outer.map(|(key, value)| (key, json!({ key: value }))).into_iter().chain(inner) {
            let error = parse(&keys).unwrap_err();
            assert_eq!(error.code, Code::DECODING);
            assert!(error.msg.starts_with("failed to parse network configuration: read "), "{error}");
            assert!(error.msg.contains(key), "{error}");
        }
    }

    #[test]
    fn prev_result_is_one_of_the_configs_family() {
        let version = |v: &str| parse(&json!({"prevResult": {"cniVersion": v}})).map(|conf| conf.prev_result);
        assert_eq!(version("1.1.0"), Ok(Some(CniResult::empty())));
        assert_eq!(version(""), Ok(Some(CniResult::empty())));
        assert_eq!(version("0.4.0").unwrap_err().code, Code::INCOMPATIBLE_VERSION);
        assert_eq!(version("9.9.9").unwrap_err().code, Code::INCOMPATIBLE_VERSION);
        assert_eq!(parse(&json!({"prevResult": {}})).unwrap().prev_result, Some(CniResult::empty()));
        assert_eq!(parse(&json!({"prevResult": null})).unwrap().prev_result, None);
        for bad in [json!(7), json!([]), json!({"ips": [{"address": "x"}]})] {
            let error = parse(&json!({"prevResult": bad})).unwrap_err();
            assert_eq!(error.code, Code::DECODING);
            assert!(error.msg.starts_with("could not parse prevResult: "), "{error}");
        }
    }

    #[test]
    fn levels_and_gates_that_are_unknown_do_no_harm() {
        let unknown = parse(&json!({"plugin_log_level": "loud"})).unwrap();
        assert_eq!((unknown.log_level, unknown.unknown_log_level.as_deref()), (LogLevel::Info, Some("loud")));
        let level = |text: &str| parse(&json!({"plugin_log_level": text})).unwrap().log_level;
        assert_eq!(
            (level("none"), level("fatal"), level("info")),
            (LogLevel::None, LogLevel::Fatal, LogLevel::Info)
        );
        assert_eq!(
            (level(""), level("Debug"), level("verbose")),
            (LogLevel::Info, LogLevel::Info, LogLevel::Info)
        );
        let gate = |text: &str| parse(&json!({"millrace_status_gate": text})).unwrap().status_gate;
        assert_eq!(
            (gate(""), gate("agent"), gate("api")),
            (StatusGate::Config, StatusGate::Agent, StatusGate::Unrecognised)
        );
    }
}
