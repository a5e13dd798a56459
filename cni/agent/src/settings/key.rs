// SPDX-License-Identifier: Apache-2.0
//! Every key that can be set: its names, its kind, its default, and whether it can change while the agent runs. Upstream's come
//! first, in upstream's order; ours begin with `millrace-`.

use super::kind::Kind;

/// Layers that may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// A flag, the watched `ConfigMap`, the environment.
    Anyone,
    /// Flag or environment: names of the process itself.
    Start,
    /// Environment alone: facts of the cluster about this pod.
    Environment,
}

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// In the running agent.
    Live,
    /// Another pod: the value belongs with the volumes that the pod was made with, and a `ConfigMap` that changes before the DaemonSet rolls
    /// would pair it with the former ones.
    Mount,
    /// In a new pod: the process is bound to the value.
    Pod,
    /// Never read: accepted for upstream's sake.
    Unread,
}

/// A key. Equality is by name.
#[derive(Debug)]
pub struct Key {
    /// Name of its flag.
    pub name: &'static str,
    /// Alternative name of its variable; the ordinary one wins.
    pub spelling: Option<&'static str>,
    /// Kind of its value.
    pub kind: Kind,
    /// Default.
    pub default: &'static str,
    /// Layers that may set it.
    pub from: From,
    /// When a change takes effect.
    pub change: Change,
    pub help: &'static str,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.name.cmp(other.name)
    }
}

impl Key {
    /// The names of its variable, and of its key in the `ConfigMap`; the one that counts first.
    pub fn variables(&self) -> impl Iterator<Item = String> {
        let own = self.name.to_ascii_uppercase().replace('-', "_");
        std::iter::once(own).chain(self.spelling.map(str::to_owned))
    }

    /// Name of its variable.
    #[must_use]
    pub fn variable(&self) -> String {
        self.variables().next().unwrap_or_default()
    }
}

const fn text(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { name, spelling: None, kind: Kind::Text, default, from: From::Anyone, change: Change::Live, help }
}

const fn switch(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { kind: Kind::Bool, ..text(name, default, help) }
}

const fn mounted(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { change: Change::Mount, ..text(name, default, help) }
}

const fn cluster(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { from: From::Environment, change: Change::Pod, ..text(name, default, help) }
}

const fn unread(name: &'static str) -> Key {
    Key { change: Change::Unread, ..text(name, "", "Accepted, without effect") }
}

macro_rules! keys {
    ($($(#[$meta:meta])* $name:ident = $key:expr;)*) => {
        $($(#[$meta])* pub static $name: Key = $key;)*
        /// Every key, in the order of `--help`.
        pub static ALL: &[&Key] = &[$(&$name),*];
    };
}

keys! {
    /// `--cni-conf-name`
    CONF_NAME = Key { kind: Kind::FileName, ..mounted("cni-conf-name", "", "File that our entry goes to (default: the first valid one; standalone: YYY-istio-cni.conf)") };
    /// `--chained-cni-plugin`
    CHAINED = Key { change: Change::Mount, ..switch("chained-cni-plugin", "true", "Chain the plugin into the primary CNI plugin's list instead of a file of its own") };
    /// `--cni-network-config`
    TEMPLATE = Key { kind: Kind::Template, ..text("cni-network-config", "", "Template of our entry, as JSON; what it lacks is filled in") };
    /// `--cni-network-config-file`
    TEMPLATE_FILE = mounted("cni-network-config-file", "", "File with that template; it wins over the text");
    /// `--istio-owned-cni-config`
    OWNED = switch("istio-owned-cni-config", "false", "Leave the primary's file alone and write a merged one that sorts before it");
    /// `--istio-owned-cni-config-filename`
    OWNED_NAME = Key { spelling: Some("ISTIO_OWNED_CNI_CONF_FILENAME"), kind: Kind::FileName, ..text("istio-owned-cni-config-filename", "02-istio-cni.conflist", "Name of the merged file") };
    /// `--log-level`
    LOG_LEVEL = unread("log-level");
    /// `--mounted-cni-net-dir`
    NET_DIR = mounted("mounted-cni-net-dir", "/host/etc/cni/net.d", "Where the runtime's CNI configuration is mounted");
    /// `--cni-agent-run-dir`
    RUN_DIR = mounted("cni-agent-run-dir", "/var/run/istio-cni", "Sockets and credentials; the same path inside and on the node");
    /// `--kubeconfig-mode`
    KUBECONFIG_MODE = Key { kind: Kind::Mode, ..text("kubeconfig-mode", "0600", "Mode of the plugin's credentials; octal with a leading 0, else decimal") };
    /// `--cni-conf-group-read`
    GROUP_READ = switch("cni-conf-group-read", "false", "Files of ours in the CNI directory have mode 0640 instead of 0600");
    /// `--kube-ca-file`
    CA_FILE = mounted("kube-ca-file", "", "CA of the API server for the plugin (default: the service account's)");
    /// `--skip-tls-verify`
    SKIP_VERIFY = switch("skip-tls-verify", "false", "The plugin does not check the API server's certificate");
    /// `--monitoring-port`
    MONITORING_PORT = Key { kind: Kind::Port, change: Change::Pod, ..text("monitoring-port", "15014", "Port of /metrics; 0 for none") };
    /// `--ztunnel-uds-address`
    ZTUNNEL = unread("ztunnel-uds-address");
    /// `--ambient-enabled`
    AMBIENT = Key { change: Change::Mount, ..switch("ambient-enabled", "false", "Written into our entry; this agent serves sidecars only") };
    /// `--enable-ambient-detection-retry`
    AMBIENT_RETRY = switch("enable-ambient-detection-retry", "false", "Written into our entry");
    /// `--exclude-namespaces`
    EXCLUDE_NAMESPACES = text("exclude-namespaces", "", "Namespaces whose pods are left alone, by comma");
    /// `--pod-namespace`
    POD_NAMESPACE = Key { from: From::Start, change: Change::Pod, ..text("pod-namespace", "", "The agent's own namespace (default: the service account's)") };
    /// `--ambient-enablement-selector`
    SELECTORS = Key { kind: Kind::Selectors, ..text("ambient-enablement-selector", "", "YAML list of {podSelector, namespaceSelector}, written into our entry") };
    /// `--ambient-dns-capture`
    AMBIENT_DNS = unread("ambient-dns-capture");
    /// `--ambient-ipv6`
    AMBIENT_IPV6 = unread("ambient-ipv6");
    /// `--ambient-disable-safe-upgrade`
    ALWAYS_UNINSTALL = switch("ambient-disable-safe-upgrade", "false", "Uninstall whenever the agent stops, upgrades and reboots included");
    /// `--ambient-reconcile-pod-rules-on-startup`
    AMBIENT_RECONCILE = unread("ambient-reconcile-pod-rules-on-startup");
    /// `--native-nftables`
    NATIVE_NFTABLES = switch("native-nftables", "false", "Redirect with tables inet istio-proxy-* instead of iptables'");

    /// `--repair-enabled`
    REPAIR = switch("repair-enabled", "true", "Look for pods that came up without redirection");
    /// `--repair-repair-pods`
    REPAIR_PODS = switch("repair-repair-pods", "false", "Write the missing rules of a broken pod; goes before deleting and labelling");
    /// `--repair-delete-pods`
    DELETE_PODS = switch("repair-delete-pods", "false", "Delete a broken pod; goes before labelling");
    /// `--repair-label-pods`
    LABEL_PODS = switch("repair-label-pods", "false", "Label a broken pod");
    /// `--repair-run-as-daemon`
    RUN_AS_DAEMON = unread("repair-run-as-daemon");
    /// `--repair-broken-pod-label-key`
    LABEL_KEY = text("repair-broken-pod-label-key", "cni.istio.io/uninitialized", "Key of that label");
    /// `--repair-broken-pod-label-value`
    LABEL_VALUE = text("repair-broken-pod-label-value", "true", "Value of that label");
    /// `--repair-node-name`
    REPAIR_NODE = Key { from: From::Start, change: Change::Pod, ..text("repair-node-name", "", "The node whose pods are looked after") };
    /// `--repair-sidecar-annotation`
    SIDECAR_ANNOTATION = text("repair-sidecar-annotation", "sidecar.istio.io/status", "Only pods with this annotation are looked at");
    /// `--repair-init-container-name`
    INIT_CONTAINER = text("repair-init-container-name", "istio-validation", "Init container that fails without redirection");
    /// `--repair-init-container-termination-message`
    TERMINATION_MESSAGE = text("repair-init-container-termination-message", "", "Its last words; nothing for any");
    /// `--repair-init-container-exit-code`
    EXIT_CODE = Key { kind: Kind::Number, ..text("repair-init-container-exit-code", "126", "Its exit code; 0 for any") };
    /// `--repair-label-selectors`
    LABEL_SELECTORS = text("repair-label-selectors", "", "Label selector that goes into the list of pods");
    /// `--repair-field-selectors`
    FIELD_SELECTORS = text("repair-field-selectors", "", "Field selector that goes into the list of pods");

    /// `--log_output_level`
    LOG_OUTPUT_LEVEL = Key { kind: Kind::Levels, ..text("log_output_level", "default:info", "SCOPE:LEVEL,…; scope cni-plugin is the plugin, default and all are everything else") };
    /// `--log_as_json`
    LOG_AS_JSON = Key { change: Change::Pod, ..switch("log_as_json", "false", "Log JSON") };
    /// `--log_target`
    LOG_TARGET = unread("log_target");
    /// `--log_stacktrace_level`
    LOG_STACKTRACE_LEVEL = unread("log_stacktrace_level");
    /// `--log_caller`
    LOG_CALLER = unread("log_caller");
    /// `--log_rotate`
    LOG_ROTATE = unread("log_rotate");
    /// `--log_rotate_max_age`
    LOG_ROTATE_MAX_AGE = unread("log_rotate_max_age");
    /// `--log_rotate_max_backups`
    LOG_ROTATE_MAX_BACKUPS = unread("log_rotate_max_backups");
    /// `--log_rotate_max_size`
    LOG_ROTATE_MAX_SIZE = unread("log_rotate_max_size");
    /// `--vklog`
    VKLOG = unread("vklog");
    /// `--ctrlz_address`
    CTRLZ_ADDRESS = unread("ctrlz_address");
    /// `--ctrlz_port`
    CTRLZ_PORT = unread("ctrlz_port");

    /// `--millrace-status-gate`
    STATUS_GATE = Key { kind: Kind::Gate, ..text("millrace-status-gate", "", "agent: the node is not ready while the agent is not; only for an agent on the node's network") };
    /// `--millrace-backend`
    BACKEND = Key { kind: Kind::Backend, ..text("millrace-backend", "auto", "What writes rules: auto, nft-compat, nft, iptables-nft or iptables-legacy") };
    /// `--millrace-repair-fallback`
    REPAIR_FALLBACK = Key { kind: Kind::Fallback, ..text("millrace-repair-fallback", "none", "What happens to a broken pod that cannot be repaired: none (an event), delete or label") };
    /// `--millrace-repair-unredirected`
    REPAIR_UNREDIRECTED = switch("millrace-repair-unredirected", "false", "Act on pods that lack rules although no init container complains");
    /// `--millrace-raise-cni-version`
    RAISE_VERSION = switch("millrace-raise-cni-version", "false", "Raise the list's cniVersion to 1.1.0 where every plugin of it can do that");
    /// `--millrace-netns-dir`
    NETNS_DIR = Key { from: From::Start, change: Change::Pod, ..text("millrace-netns-dir", "/var/run/netns", "Where the runtime keeps network namespaces on the node; looked into by way of the node's first process") };
    /// `--millrace-daemonset-name`
    DAEMONSET = Key { from: From::Start, change: Change::Pod, ..text("millrace-daemonset-name", "istio-cni-node", "The DaemonSet that the agent belongs to") };
    /// `--millrace-taint-own-node`
    TAINT_OWN_NODE = Key { change: Change::Pod, ..switch("millrace-taint-own-node", "false", "Take the taint off the own node once everything is ready, and put it back when that is lost or uninstalled") };
    /// `--millrace-taint-name`
    TAINT_NAME = Key { change: Change::Pod, ..text("millrace-taint-name", "cni.istio.io/not-ready", "Key of that taint") };

    /// `KUBERNETES_SERVICE_PROTOCOL`
    SERVICE_PROTOCOL = cluster("kubernetes-service-protocol", "", "Of the API server (default: https)");
    /// `KUBERNETES_SERVICE_HOST`
    SERVICE_HOST = cluster("kubernetes-service-host", "", "Of the API server");
    /// `KUBERNETES_SERVICE_PORT`
    SERVICE_PORT = cluster("kubernetes-service-port", "", "Of the API server");
    /// `KUBERNETES_NODE_NAME`
    KUBERNETES_NODE = cluster("kubernetes-node-name", "", "The node (default: NODE_NAME, REPAIR_NODE_NAME, the host's name)");
    /// `NODE_NAME`
    NODE = cluster("node-name", "", "The node");
    /// `POD_NAME`
    POD_NAME = cluster("pod-name", "", "The agent's own pod");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_in_every_spelling() {
        let mut seen = std::collections::BTreeSet::new();
        for key in ALL {
            for name in key.variables() {
                assert!(seen.insert(name.clone()), "{name}");
            }
        }
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for key in ALL {
            assert_eq!(key.kind.check(key.default).err().map(|e| e.to_string()), None, "{}", key.name);
        }
    }

    #[test]
    fn the_charts_spelling_is_known() {
        let names: Vec<_> = OWNED_NAME.variables().collect();
        assert_eq!(names, ["ISTIO_OWNED_CNI_CONFIG_FILENAME", "ISTIO_OWNED_CNI_CONF_FILENAME"]);
    }
}
