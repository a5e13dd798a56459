// SPDX-License-Identifier: Apache-2.0
//! Every setting, one row each: the values of the chart in the order of its documents, then what the agent alone has. A row says all there is to
//! say: the chart's value, the agent's flag, variable and key of the `ConfigMap`, kind, default, when a change takes effect, help. From it come
//! `values.yaml`, its schema, `docs/values.md`, the `ConfigMap`'s body in both renderings and the agent's flags.

use crate::setting::{Kind, Setting};

const fn value(path: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Setting {
    Setting { path, ..Setting::new(kind, default, help) }
}

const fn text(path: &'static str, default: &'static str, help: &'static str) -> Setting {
    value(path, Kind::Text, default, help)
}

const fn switch(path: &'static str, default: &'static str, help: &'static str) -> Setting {
    value(path, Kind::Bool, default, help)
}

const fn elsewhere(path: &'static str) -> Setting {
    value(path, Kind::Elsewhere, "", "Values of another chart: accepted, not read")
}

const fn flag(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Setting {
    Setting::new(kind, default, help).flag(name)
}

const DEFAULT_SELECTORS: &str = r#"[{"podSelector":{"matchLabels":{"istio.io/dataplane-mode":"ambient"}}},{"podSelector":{"matchExpressions":[{"key":"istio.io/dataplane-mode","operator":"NotIn","values":["none"]}]},"namespaceSelector":{"matchLabels":{"istio.io/dataplane-mode":"ambient"}}}]"#;

const DEFAULT_TOLERATIONS: &str = r#"[{"effect":"NoSchedule","operator":"Exists"},{"key":"CriticalAddonsOnly","operator":"Exists"},{"effect":"NoExecute","operator":"Exists"}]"#;

const DEFAULT_CONTROLLER_TOLERATIONS: &str = r#"[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists","effect":"NoSchedule"},{"key":"CriticalAddonsOnly","operator":"Exists"},{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":30},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}]"#;

macro_rules! table {
    ($($name:ident = $setting:expr;)*) => {
        $(pub static $name: Setting = $setting;)*
        /// The whole table.
        pub static ALL: &[&Setting] = &[$(&$name),*];
    };
}

table! {
    ENABLED = switch("enabled", "true", "false: nothing is rendered, as the condition of a parent chart has it");
    PLATFORM = text("platform", "", "Where the cluster runs; sets paths. Known ones are in files/platform-*.yaml");
    PROFILE = text("profile", "", "A set of values for a purpose. Known ones are in files/profile-*.yaml");
    COMPATIBILITY_VERSION = text(
        "compatibilityVersion",
        "",
        "Behave as this release did, such as 1.28. Known ones are in files/compat-*.yaml",
    );
    HUB = text("hub", "", "Registry and path of the image (default: global.hub); there is none of ours");
    TAG = text("tag", "", "Tag of the image (default: global.tag)");
    VARIANT = text("variant", "", "Suffix of the tag (default: global.variant)");
    IMAGE = text(
        "image",
        "install-cni",
        "Name of the image (\"\": install-cni); with a / in it the whole reference, with its tag or digest",
    );
    PULL_POLICY = text(
        "pullPolicy",
        "",
        "When the image is pulled: Always, IfNotPresent, Never (default: global.imagePullPolicy)",
    );
    LOGGING_LEVEL = text("logging.level", "", "LEVEL or SCOPE:LEVEL,… (default: global.logging.level)");
    PLUGIN_LEVEL = text("logging.pluginLevel", "", "Level of the plugin, as scope cni-plugin of logging.level (default: what that says)");
    CNI_BIN_DIR = value(
        "cniBinDir",
        Kind::AutoDirectory,
        "/opt/cni/bin",
        "Where the runtime looks for CNI plugins on the node. \"\": /home/kubernetes/bin if the server's version has -gke in it, else /opt/cni/bin",
    );
    CNI_CONF_DIR = value(
        "cniConfDir",
        Kind::Directory,
        "/etc/cni/net.d",
        "Where the runtime looks for CNI configuration on the node",
    );
    MORE_BIN_DIR = value(
        "cniMoreBinDir",
        Kind::AutoDirectory,
        "",
        "Another directory of plugins on the node that gets the plugin's binary: where another release of the runtime looks. \"\": none",
    );
    MULTUS_CONF_DIR = value(
        "multusConfDir",
        Kind::AutoDirectory,
        "/etc/cni/net.d",
        "With provider: multus: the directory of the node that the runtime reads, where Multus' own file has to be first. \"\": not looked at",
    );
    CONF_NAME = value(
        "cniConfFileName",
        Kind::FileName,
        "",
        "File that the plugin's entry goes to (default: the first valid one)",
    ).flag("cni-conf-name").mounted().in_config_map_when_set();
    CNI_NETNS_DIR = value(
        "cniNetnsDir",
        Kind::Directory,
        "/var/run/netns",
        "Where the runtime keeps network namespaces on the node; repair reaches it by way of the node's first process",
    );
    CNI_CACHE_DIR = value(
        "cniCacheDir",
        Kind::Directory,
        "/var/lib/cni",
        "Where the runtime keeps CNI results on the node; read by repair and when the node is left",
    );
    CRI_SOCKET_ON_NODE = value(
        "criSocket",
        Kind::AutoDirectory,
        "",
        "Socket of the container runtime on the node (/run/containerd/containerd.sock, /run/crio/crio.sock), which the agent asks what it has loaded; whoever can use it is root on the node. \"\": the agent waits a moment instead",
    );
    CHAINED = switch("chained", "true", "Add the plugin to the primary CNI plugin's list; false: a file of its own").flag("chained-cni-plugin").mounted().in_config_map();
    PROVIDER = value(
        "provider",
        Kind::OneOf(&["default", "multus"]),
        "default",
        "multus: pods name the plugin's network, which Multus runs; needs chained: false",
    );
    OWNED = switch(
        "istioOwnedCNIConfig",
        "false",
        "Leave the primary plugin's file alone and write a merged one that sorts before it",
    ).flag("istio-owned-cni-config").in_config_map();
    OWNED_NAME = value(
        "istioOwnedCNIConfigFileName",
        Kind::FileName,
        "",
        "Name of the merged file (default: 02-istio-cni.conflist)",
    ).flag("istio-owned-cni-config-filename").spelled("ISTIO_OWNED_CNI_CONF_FILENAME").starts("02-istio-cni.conflist");
    EXCLUDE_NAMESPACES = value("excludeNamespaces", Kind::Texts, r#"["kube-system"]"#, "Namespaces whose pods are left alone").flag("exclude-namespaces").starts("").in_config_map();
    KUBECONFIG_MODE = value("kubeconfigMode", Kind::Mode, "0600", "Mode of the plugin's credentials").flag("kubeconfig-mode").of_template();
    GROUP_READ = switch("cniConfGroupRead", "false", "Files of ours in the CNI directory have mode 0640 instead of 0600").flag("cni-conf-group-read").in_config_map();
    RAISE_VERSION = switch(
        "raiseCniVersion",
        "false",
        "Raise the list's cniVersion to 1.1.0 where every plugin of it can do that",
    ).flag("millrace-raise-cni-version").in_config_map();
    BACKEND = value(
        "backend",
        Kind::OneOf(&["auto", "nft-compat", "nft", "iptables-nft", "iptables-legacy"]),
        "auto",
        "What writes the rules; iptables-nft and iptables-legacy need iptablesTools: true",
    ).flag("millrace-backend").in_config_map();
    SANDBOXED_RUNTIMES = value(
        "sandboxedRuntimes",
        Kind::OneOf(&["warn", "refuse"]),
        "warn",
        "Pods of the mesh in a guest (Kata Containers, gVisor), whose packets meet no rules. warn: they start, with an event; refuse: they do not start",
    ).flag("millrace-sandboxed-runtimes").in_config_map();
    NO_INTERCEPTION = value(
        "interceptionModeNone",
        Kind::OneOf(&["refuse", "skip"]),
        "refuse",
        "Pods whose annotation sidecar.istio.io/interceptionMode is NONE. refuse: they do not start, as with upstream; skip: they start without redirection",
    ).flag("millrace-interception-mode-none").in_config_map();
    RUNTIME_ANNOTATIONS = switch(
        "runtimeAnnotations",
        "true",
        "containerd and CRI-O tell the plugin a pod's annotations: a pod without sidecar.istio.io/status starts without agent and API server",
    ).flag("millrace-runtime-annotations").starts("false").in_config_map();
    IPTABLES_TOOLS = switch(
        "iptablesTools",
        "false",
        "The image has the iptables tools, as one of your own may; ours has no program but its own",
    );
    HOST_NETWORK = switch("hostNetwork", "false", "The agent is on the node's network");
    STATUS_GATE = value(
        "statusGate",
        Kind::OneOf(&["", "agent"]),
        "",
        "agent: the node is not ready while the agent is not; needs hostNetwork: true",
    ).flag("millrace-status-gate").in_config_map_when_set();
    AMBIENT = switch("ambient.enabled", "false", "Written into the plugin's entry; this agent serves sidecars only").flag("ambient-enabled").in_config_map();
    AMBIENT_ACCEPTED = switch(
        "ambient.acceptUnredirected",
        "false",
        "Accept ambient.enabled although this agent serves sidecars only: pods of ambient mode start without redirection, past ztunnel, and each has an event and counts in millrace_ambient_pods",
    );
    AMBIENT_CONFIG_DIR = text("ambient.configDir", "", "Accepted for upstream's sake, not read");
    AMBIENT_DNS = switch("ambient.dnsCapture", "true", "Written into the ConfigMap").flag("ambient-dns-capture").unread().in_config_map();
    AMBIENT_IPV6 = switch("ambient.ipv6", "true", "Written into the ConfigMap").flag("ambient-ipv6").unread().in_config_map();
    AMBIENT_RECONCILE = switch("ambient.reconcileIptablesOnStartup", "true", "Written into the ConfigMap").flag("ambient-reconcile-pod-rules-on-startup").unread().in_config_map();
    AMBIENT_SHARE_HOST_NETWORK_NAMESPACE = switch("ambient.shareHostNetworkNamespace", "false", "With ambient.enabled: the same as hostNetwork");
    AMBIENT_RETRY = switch("ambient.enableAmbientDetectionRetry", "false", "Written into the plugin's entry").flag("enable-ambient-detection-retry").in_config_map();
    SELECTORS = value(
        "ambient.enablementSelectors",
        Kind::OpenList,
        DEFAULT_SELECTORS,
        "Which pods are ambient; written into the plugin's entry",
    ).flag("ambient-enablement-selector").starts("").in_config_map();
    REPAIR = switch("repair.enabled", "true", "Look for pods that came up without redirection").flag("repair-enabled").in_config_map();
    REPAIR_PODS = switch(
        "repair.repairPods",
        "true",
        "Write the missing rules of a broken pod; goes before deletePods and labelPods",
    ).flag("repair-repair-pods").starts("false").in_config_map();
    DELETE_PODS = switch("repair.deletePods", "false", "Delete a broken pod; goes before labelPods").flag("repair-delete-pods").in_config_map();
    LABEL_PODS = switch("repair.labelPods", "false", "Label a broken pod").flag("repair-label-pods").in_config_map();
    REPAIR_FALLBACK = value(
        "repair.fallback",
        Kind::OneOf(&["none", "delete", "label"]),
        "none",
        "What happens to a broken pod that repairPods cannot repair; none: an event",
    ).flag("millrace-repair-fallback").in_config_map();
    REPAIR_UNREDIRECTED = switch(
        "repair.unredirected",
        "false",
        "Act on pods that lack rules although no init container complains",
    ).flag("millrace-repair-unredirected").in_config_map();
    INIT_CONTAINER = text("repair.initContainerName", "istio-validation", "Init container that fails without redirection").flag("repair-init-container-name").in_config_map();
    LABEL_KEY = text("repair.brokenPodLabelKey", "cni.istio.io/uninitialized", "Key of the label of labelPods").flag("repair-broken-pod-label-key").in_config_map();
    LABEL_VALUE = text("repair.brokenPodLabelValue", "true", "Its value").flag("repair-broken-pod-label-value").in_config_map();
    REPAIR_HUB = text("repair.hub", "", "Accepted for upstream's sake, not read");
    REPAIR_TAG = text("repair.tag", "", "Accepted for upstream's sake, not read");
    TAINT_MODE = value(
        "taint.mode",
        Kind::OneOf(&["", "node", "readiness", "untaint"]),
        "",
        "Keep pods away from nodes that are not set up. node: the agent removes and restores the taint of its own node; readiness: a controller taints and untaints; untaint: a controller removes the taint only",
    );
    TAINT_NAME = text(
        "taint.name",
        "",
        "Key of the taint (default: NodeReadiness for readiness, else cni.istio.io/not-ready)",
    ).flag("millrace-taint-name").starts("cni.istio.io/not-ready").pod();
    TAINT_CONFIG = value(
        "taint.config",
        Kind::PodSelectors,
        "[]",
        "Pods that must be ready on a node before readiness calls it ready (default: the agent's)",
    );
    TAINT_REPLICAS = value(
        "taint.replicas",
        Kind::Count,
        "2",
        "Pods of the controller, on different nodes if there are any; one leads",
    );
    TAINT_TOLERATIONS = value(
        "taint.tolerations",
        Kind::OpenList,
        DEFAULT_CONTROLLER_TOLERATIONS,
        "The controller's, beside one of its own taint; a node that does not answer loses it after 30 s",
    );
    ADMISSION_POLICY_ENABLED = switch(
        "admissionPolicy.enabled",
        "true",
        "The API server keeps each agent to the pods and the taint of its own node; without effect before Kubernetes 1.30",
    );
    SECCOMP_PROFILE = value("seccompProfile", Kind::Open, "{}", "The pod's");
    SE_LINUX_OPTIONS = value("seLinuxOptions", Kind::Open, "{}", "The container's; type is spc_t if anything is given");
    USE_APP_ARMOR_ANNOTATION = switch(
        "useAppArmorAnnotation",
        "null",
        "Unconfined by the annotation instead of the field (default: by the field, which Kubernetes has since 1.30, and by the annotation on older servers)",
    );
    RESOURCES = value("resources", Kind::Open, r#"{"requests":{"cpu":"100m","memory":"100Mi"}}"#, "The container's");
    RESOURCE_QUOTAS_ENABLED = switch(
        "resourceQuotas.enabled",
        "false",
        "Allow critical pods in the namespace, as GKE needs it outside of kube-system",
    );
    RESOURCE_QUOTAS_PODS = value("resourceQuotas.pods", Kind::Count, "5000", "How many");
    TOLERATIONS = value("tolerations", Kind::OpenList, DEFAULT_TOLERATIONS, "The pod's; the agent belongs on every node. With a taint.mode a toleration of that taint is added if it is missing");
    UPDATE_STRATEGY = value(
        "updateStrategy",
        Kind::Open,
        r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}"#,
        "The DaemonSet's; maxSurge must be 0: one node has one agent",
    );
    TERMINATION_GRACE_PERIOD_SECONDS = value("terminationGracePeriodSeconds", Kind::Count, "30", "The pod's");
    AFFINITY = value("affinity", Kind::Open, "{}", "The pod's");
    POD_ANNOTATIONS = value("podAnnotations", Kind::TextMap, "{}", "More annotations of the pod");
    POD_LABELS = value("podLabels", Kind::TextMap, "{}", "More labels of the pod");
    DAEMON_SET_LABELS = value("daemonSetLabels", Kind::TextMap, "{}", "More labels of the DaemonSet");
    ENV = value("env", Kind::TextMap, "{}", "More settings of the agent, in its environment and its ConfigMap");
    REVISION = text("revision", "", "Label istio.io/rev; the agent itself is one per cluster");
    OWNER_NAME = text("ownerName", "", "Label install.operator.istio.io/owning-resource");
    GLOBAL_HUB = text("global.hub", "", "Where hub says nothing: a registry and the path in it");
    GLOBAL_TAG = text("global.tag", "", "Where tag says nothing");
    GLOBAL_VARIANT = text("global.variant", "", "Where variant says nothing");
    GLOBAL_IMAGE_PULL_POLICY = text("global.imagePullPolicy", "", "Where pullPolicy says nothing");
    GLOBAL_IMAGE_PULL_SECRETS = value("global.imagePullSecrets", Kind::Texts, "[]", "Names of secrets, for the service account");
    GLOBAL_LOGGING_LEVEL = text("global.logging.level", "info", "Where logging.level says nothing");
    LOG_AS_JSON = switch("global.logAsJson", "false", "Log JSON").flag("log_as_json").pod().in_config_map();
    NATIVE_NFTABLES = switch("global.nativeNftables", "false", "Redirect with tables inet istio-proxy-* instead of iptables'").flag("native-nftables").in_config_map();
    GLOBAL_NETWORK_POLICY_ENABLED = switch("global.networkPolicy.enabled", "false", "Render a NetworkPolicy for the agent");
    GLOBAL_RESOURCE_SCOPE = value(
        "global.resourceScope",
        Kind::OneOf(&["all", "cluster", "namespace"]),
        "all",
        "Which objects are rendered",
    );
    GLOBAL_PLATFORM = text("global.platform", "", "Where platform says nothing");
    GLOBAL_PROFILE = text("global.profile", "", "Where profile says nothing");
    GLOBAL_COMPATIBILITY_VERSION = text("global.compatibilityVersion", "", "Where compatibilityVersion says nothing");
    PILOT = elsewhere("pilot");
    ISTIO_CNI = elsewhere("istio_cni");
    SIDECAR_INJECTOR_WEBHOOK = elsewhere("sidecarInjectorWebhook");
    MESH_CONFIG = elsewhere("meshConfig");
    GATEWAYS = elsewhere("gateways");
    BASE = elsewhere("base");
    TELEMETRY = elsewhere("telemetry");
    ZTUNNEL_CHART = elsewhere("ztunnel");
    ISTIOD_REMOTE = elsewhere("istiodRemote");
    EXPERIMENTAL = elsewhere("experimental");
    REVISION_TAGS = elsewhere("revisionTags");
    DEFAULT_REVISION = elsewhere("defaultRevision");
    TRUSTED_ZTUNNEL_NAMESPACE = elsewhere("trustedZtunnelNamespace");

    // The agent's alone.
    TEMPLATE = flag("cni-network-config", Kind::Template, "", "Template of our entry, as JSON; what it lacks is filled in");
    TEMPLATE_FILE = flag("cni-network-config-file", Kind::Text, "", "File with that template; it wins over the text").mounted();
    LOG_LEVEL = flag("log-level", Kind::Text, "", "Accepted, without effect").unread();
    NET_DIR = flag("mounted-cni-net-dir", Kind::Text, "/host/etc/cni/net.d", "Where the runtime's CNI configuration is mounted").mounted();
    RUN_DIR = flag("cni-agent-run-dir", Kind::Text, "/var/run/istio-cni", "Sockets and credentials; the same path inside and on the node").mounted();
    CA_FILE = flag("kube-ca-file", Kind::Text, "", "CA of the API server for the plugin (default: the service account's)").mounted();
    SKIP_VERIFY = flag("skip-tls-verify", Kind::Bool, "false", "Neither the plugin nor the agent checks the API server's certificate").of_template();
    MONITORING_PORT = flag("monitoring-port", Kind::Port, "15014", "Port of /metrics; 0 for none").pod();
    ZTUNNEL = flag("ztunnel-uds-address", Kind::Text, "", "Accepted, without effect").unread();
    POD_NAMESPACE = flag("pod-namespace", Kind::Text, "", "The agent's own namespace (default: the service account's)").pod().at_start();
    ALWAYS_UNINSTALL = flag("ambient-disable-safe-upgrade", Kind::Bool, "false", "Uninstall whenever the agent stops, upgrades and reboots included").of_template();
    RUN_AS_DAEMON = flag("repair-run-as-daemon", Kind::Text, "", "Accepted, without effect").unread();
    REPAIR_NODE = flag("repair-node-name", Kind::Text, "", "The node whose pods are looked after").pod().at_start();
    SIDECAR_ANNOTATION = flag("repair-sidecar-annotation", Kind::Text, "sidecar.istio.io/status", "Only pods with this annotation are looked at");
    TERMINATION_MESSAGE = flag("repair-init-container-termination-message", Kind::Text, "", "Its last words; nothing for any");
    EXIT_CODE = flag("repair-init-container-exit-code", Kind::Number, "126", "Its exit code; 0 for any");
    LABEL_SELECTORS = flag("repair-label-selectors", Kind::LabelSelector, "", "Label selector that goes into the list of pods");
    FIELD_SELECTORS = flag("repair-field-selectors", Kind::FieldSelector, "", "Field selector that goes into the list of pods");
    LOG_OUTPUT_LEVEL = flag("log_output_level", Kind::Levels, "default:info", "SCOPE:LEVEL,…; scope cni-plugin is the plugin, default everything else, all both");
    LOG_TARGET = flag("log_target", Kind::Text, "", "Accepted, without effect").unread();
    LOG_STACKTRACE_LEVEL = flag("log_stacktrace_level", Kind::Text, "", "Accepted, without effect").unread();
    LOG_CALLER = flag("log_caller", Kind::Text, "", "Accepted, without effect").unread();
    LOG_ROTATE = flag("log_rotate", Kind::Text, "", "Accepted, without effect").unread();
    LOG_ROTATE_MAX_AGE = flag("log_rotate_max_age", Kind::Text, "", "Accepted, without effect").unread();
    LOG_ROTATE_MAX_BACKUPS = flag("log_rotate_max_backups", Kind::Text, "", "Accepted, without effect").unread();
    LOG_ROTATE_MAX_SIZE = flag("log_rotate_max_size", Kind::Text, "", "Accepted, without effect").unread();
    VKLOG = flag("vklog", Kind::Text, "", "Accepted, without effect").unread();
    CTRLZ_ADDRESS = flag("ctrlz_address", Kind::Text, "", "Accepted, without effect").unread();
    CTRLZ_PORT = flag("ctrlz_port", Kind::Text, "", "Accepted, without effect").unread();
    NETNS_DIR = flag("millrace-netns-dir", Kind::Text, "/var/run/netns", "Where the runtime keeps network namespaces on the node; looked into by way of the node's first process").pod().at_start();
    NODE_NET_DIR = flag("millrace-node-net-dir", Kind::Text, "", "The node's path of the directory that MOUNTED_CNI_NET_DIR has").at_start();
    NODE_BIN_DIR = flag("millrace-node-bin-dir", Kind::Text, "", "The node's path of the directory at /host/opt/cni/bin").at_start();
    NODE_MORE_BIN_DIR = flag("millrace-node-more-bin-dir", Kind::Text, "", "The node's path of the directory at /host/opt/cni/more, which gets the plugin's binary as well; nothing for none").at_start();
    NODE_MULTUS_DIR = flag("millrace-node-multus-dir", Kind::Text, "", "The node's path of the directory at /host/multus/net.d, which has Multus' own file; nothing for none").at_start();
    CRI_SOCKET = flag("millrace-cri-socket", Kind::Text, "", "Socket of the container runtime, as it is mounted; the chart sets it from criSocket").pod().at_start();
    DAEMONSET = flag("millrace-daemonset-name", Kind::Text, "istio-cni-node", "The DaemonSet that the agent belongs to").pod().at_start();
    TAINT_OWN_NODE = flag("millrace-taint-own-node", Kind::Bool, "false", "Take the taint off the own node once everything is ready, and put it back when that is lost or uninstalled").pod();
    SERVICE_PROTOCOL = flag("kubernetes-service-protocol", Kind::Text, "", "Of the API server (default: https)").only_environment();
    SERVICE_HOST = flag("kubernetes-service-host", Kind::Text, "", "Of the API server").only_environment();
    SERVICE_PORT = flag("kubernetes-service-port", Kind::Text, "", "Of the API server").only_environment();
    KUBERNETES_NODE = flag("kubernetes-node-name", Kind::Text, "", "The node, where NODE_NAME does not say (default: REPAIR_NODE_NAME)").only_environment();
    NODE = flag("node-name", Kind::Text, "", "The node").only_environment();
    POD_NAME = flag("pod-name", Kind::Text, "", "The agent's own pod").only_environment();
}

/// The rows that are values of the chart.
pub fn values() -> impl Iterator<Item = &'static Setting> {
    ALL.iter().copied().filter(|setting| !setting.path.is_empty())
}

/// The rows that the agent reads.
pub fn keys() -> impl Iterator<Item = &'static Setting> {
    ALL.iter().copied().filter(|setting| !setting.name.is_empty())
}

/// The value at this path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Setting> {
    values().find(|setting| setting.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_in_every_spelling() {
        let mut seen = std::collections::BTreeSet::new();
        for name in keys().flat_map(Setting::variables).chain(values().map(|value| value.path.to_owned())) {
            assert!(seen.insert(name.clone()), "{name}");
        }
    }

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for setting in values().filter(|setting| setting.kind != Kind::Elsewhere) {
            let default = setting.default_value();
            assert!(default.is_null() || setting.kind.holds(&default), "{}: {default}", setting.path);
        }
    }

    #[test]
    fn the_charts_spelling_is_known() {
        let names: Vec<_> = OWNED_NAME.variables().collect();
        assert_eq!(names, ["ISTIO_OWNED_CNI_CONFIG_FILENAME", "ISTIO_OWNED_CNI_CONF_FILENAME"]);
    }
}
