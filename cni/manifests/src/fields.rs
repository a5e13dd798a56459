// SPDX-License-Identifier: Apache-2.0
//! Every value, in the order of the documents. A new one is a line here and a field of [`crate::Values`].

use crate::field::{Field, Kind};

const fn field(path: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Field {
    Field { path, kind, default, help }
}

const fn text(path: &'static str, default: &'static str, help: &'static str) -> Field {
    field(path, Kind::Text, default, help)
}

const fn switch(path: &'static str, default: &'static str, help: &'static str) -> Field {
    field(path, Kind::Bool, default, help)
}

const fn elsewhere(path: &'static str) -> Field {
    field(path, Kind::Elsewhere, "", "Values of another chart: accepted, not read")
}

const SELECTORS: &str = r#"[{"podSelector":{"matchLabels":{"istio.io/dataplane-mode":"ambient"}}},{"podSelector":{"matchExpressions":[{"key":"istio.io/dataplane-mode","operator":"NotIn","values":["none"]}]},"namespaceSelector":{"matchLabels":{"istio.io/dataplane-mode":"ambient"}}}]"#;

const TOLERATIONS: &str = r#"[{"effect":"NoSchedule","operator":"Exists"},{"key":"CriticalAddonsOnly","operator":"Exists"},{"effect":"NoExecute","operator":"Exists"}]"#;

const CONTROLLER_TOLERATIONS: &str = r#"[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists","effect":"NoSchedule"},{"key":"CriticalAddonsOnly","operator":"Exists"},{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":30},{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}]"#;

/// Every value.
pub static ALL: &[Field] = &[
    switch("enabled", "true", "false: nothing is rendered, as the condition of a parent chart has it"),
    text("platform", "", "Where the cluster runs; sets paths. Known ones are in files/platform-*.yaml"),
    text("profile", "", "A set of values for a purpose. Known ones are in files/profile-*.yaml"),
    text(
        "compatibilityVersion",
        "",
        "Behave as this release did, such as 1.28. Known ones are in files/compat-*.yaml",
    ),
    text("hub", "", "Registry and path of the image (default: global.hub); there is none of ours"),
    text("tag", "", "Tag of the image (default: global.tag)"),
    text("variant", "", "Suffix of the tag (default: global.variant)"),
    text(
        "image",
        "install-cni",
        "Name of the image; with a / in it the whole reference, with its tag or digest",
    ),
    text(
        "pullPolicy",
        "",
        "When the image is pulled: Always, IfNotPresent, Never (default: global.imagePullPolicy)",
    ),
    text("logging.level", "", "LEVEL or SCOPE:LEVEL,… (default: global.logging.level)"),
    field(
        "cniBinDir",
        Kind::AutoDirectory,
        "/opt/cni/bin",
        "Where the runtime looks for CNI plugins on the node. \"\": /home/kubernetes/bin if the server's version has -gke in it, else /opt/cni/bin",
    ),
    field(
        "cniConfDir",
        Kind::Directory,
        "/etc/cni/net.d",
        "Where the runtime looks for CNI configuration on the node",
    ),
    field(
        "cniConfFileName",
        Kind::FileName,
        "",
        "File that the plugin's entry goes to (default: the first valid one)",
    ),
    field(
        "cniNetnsDir",
        Kind::Directory,
        "/var/run/netns",
        "Where the runtime keeps network namespaces on the node; repair reaches it by way of the node's first process",
    ),
    field(
        "cniCacheDir",
        Kind::Directory,
        "/var/lib/cni",
        "Where the runtime keeps CNI results on the node; read by repair and when the node is left",
    ),
    switch("chained", "true", "Add the plugin to the primary CNI plugin's list; false: a file of its own"),
    field(
        "provider",
        Kind::OneOf(&["default", "multus"]),
        "default",
        "multus: pods name the plugin's network, which Multus runs; needs chained: false",
    ),
    switch(
        "istioOwnedCNIConfig",
        "false",
        "Leave the primary plugin's file alone and write a merged one that sorts before it",
    ),
    field(
        "istioOwnedCNIConfigFileName",
        Kind::FileName,
        "",
        "Name of the merged file (default: 02-istio-cni.conflist)",
    ),
    field("excludeNamespaces", Kind::Texts, r#"["kube-system"]"#, "Namespaces whose pods are left alone"),
    field("kubeconfigMode", Kind::Mode, "0600", "Mode of the plugin's credentials"),
    switch("cniConfGroupRead", "false", "Files of ours in the CNI directory have mode 0640 instead of 0600"),
    switch(
        "raiseCniVersion",
        "false",
        "Raise the list's cniVersion to 1.1.0 where every plugin of it can do that",
    ),
    field(
        "backend",
        Kind::OneOf(&["auto", "nft-compat", "nft", "iptables-nft", "iptables-legacy"]),
        "auto",
        "What writes the rules; iptables-nft and iptables-legacy need iptablesTools: true",
    ),
    switch(
        "iptablesTools",
        "false",
        "The image has the iptables tools, as one of your own may; ours has no program but its own",
    ),
    switch("hostNetwork", "false", "The agent is on the node's network"),
    field(
        "statusGate",
        Kind::OneOf(&["", "agent"]),
        "",
        "agent: the node is not ready while the agent is not; needs hostNetwork: true",
    ),
    switch("ambient.enabled", "false", "Written into the plugin's entry; this agent serves sidecars only"),
    text("ambient.configDir", "", "Accepted for upstream's sake, not read"),
    switch("ambient.dnsCapture", "true", "Written into the ConfigMap"),
    switch("ambient.ipv6", "true", "Written into the ConfigMap"),
    switch("ambient.reconcileIptablesOnStartup", "true", "Written into the ConfigMap"),
    switch("ambient.shareHostNetworkNamespace", "false", "With ambient.enabled: the same as hostNetwork"),
    switch("ambient.enableAmbientDetectionRetry", "false", "Written into the plugin's entry"),
    field(
        "ambient.enablementSelectors",
        Kind::OpenList,
        SELECTORS,
        "Which pods are ambient; written into the plugin's entry",
    ),
    switch("repair.enabled", "true", "Look for pods that came up without redirection"),
    switch(
        "repair.repairPods",
        "true",
        "Write the missing rules of a broken pod; goes before deletePods and labelPods",
    ),
    switch("repair.deletePods", "false", "Delete a broken pod; goes before labelPods"),
    switch("repair.labelPods", "false", "Label a broken pod"),
    field(
        "repair.fallback",
        Kind::OneOf(&["none", "delete", "label"]),
        "none",
        "What happens to a broken pod that repairPods cannot repair; none: an event",
    ),
    switch(
        "repair.unredirected",
        "false",
        "Act on pods that lack rules although no init container complains",
    ),
    text("repair.initContainerName", "istio-validation", "Init container that fails without redirection"),
    text("repair.brokenPodLabelKey", "cni.istio.io/uninitialized", "Key of the label of labelPods"),
    text("repair.brokenPodLabelValue", "true", "Its value"),
    text("repair.hub", "", "Accepted for upstream's sake, not read"),
    text("repair.tag", "", "Accepted for upstream's sake, not read"),
    field(
        "taint.mode",
        Kind::OneOf(&["", "node", "readiness", "untaint"]),
        "",
        "Keep pods away from nodes that are not set up. node: the agent removes and restores the taint of its own node; readiness: a controller taints and untaints; untaint: a controller removes the taint only",
    ),
    text(
        "taint.name",
        "",
        "Key of the taint (default: NodeReadiness for readiness, else cni.istio.io/not-ready)",
    ),
    field(
        "taint.config",
        Kind::Selectors,
        "[]",
        "Pods that must be ready on a node before readiness calls it ready (default: the agent's)",
    ),
    field(
        "taint.replicas",
        Kind::Count,
        "2",
        "Pods of the controller, on different nodes if there are any; one leads",
    ),
    field(
        "taint.tolerations",
        Kind::OpenList,
        CONTROLLER_TOLERATIONS,
        "The controller's, beside one of its own taint; a node that does not answer loses it after 30 s",
    ),
    switch(
        "admissionPolicy.enabled",
        "true",
        "The API server keeps each agent to the pods and the taint of its own node",
    ),
    field("seccompProfile", Kind::Open, "{}", "The pod's"),
    field("seLinuxOptions", Kind::Open, "{}", "The container's; type is spc_t if anything is given"),
    switch(
        "useAppArmorAnnotation",
        "null",
        "Unconfined by the annotation instead of the field (default: by the field, which Kubernetes has since 1.30, and by the annotation on older servers)",
    ),
    field("resources", Kind::Open, r#"{"requests":{"cpu":"100m","memory":"100Mi"}}"#, "The container's"),
    switch(
        "resourceQuotas.enabled",
        "false",
        "Allow critical pods in the namespace, as GKE needs it outside of kube-system",
    ),
    field("resourceQuotas.pods", Kind::Count, "5000", "How many"),
    field("tolerations", Kind::OpenList, TOLERATIONS, "The pod's; the agent belongs on every node"),
    field(
        "updateStrategy",
        Kind::Open,
        r#"{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1}}"#,
        "The DaemonSet's; maxSurge must be 0: one node has one agent",
    ),
    field("terminationGracePeriodSeconds", Kind::Count, "30", "The pod's"),
    field("affinity", Kind::Open, "{}", "The pod's"),
    field("podAnnotations", Kind::TextMap, "{}", "More annotations of the pod"),
    field("podLabels", Kind::TextMap, "{}", "More labels of the pod"),
    field("daemonSetLabels", Kind::TextMap, "{}", "More labels of the DaemonSet"),
    field("env", Kind::TextMap, "{}", "More settings of the agent, in its environment and its ConfigMap"),
    text("revision", "", "Label istio.io/rev; the agent itself is one per cluster"),
    text("ownerName", "", "Label install.operator.istio.io/owning-resource"),
    text("global.hub", "", "Where hub says nothing: a registry and the path in it"),
    text("global.tag", "", "Where tag says nothing"),
    text("global.variant", "", "Where variant says nothing"),
    text("global.imagePullPolicy", "", "Where pullPolicy says nothing"),
    field("global.imagePullSecrets", Kind::Texts, "[]", "Names of secrets, for the service account"),
    text("global.logging.level", "info", "Where logging.level says nothing"),
    switch("global.logAsJson", "false", "Log JSON"),
    switch("global.nativeNftables", "false", "Redirect with tables inet istio-proxy-* instead of iptables'"),
    switch("global.networkPolicy.enabled", "false", "Render a NetworkPolicy for the agent"),
    field(
        "global.resourceScope",
        Kind::OneOf(&["all", "cluster", "namespace"]),
        "all",
        "Which objects are rendered",
    ),
    text("global.platform", "", "Where platform says nothing"),
    text("global.profile", "", "Where profile says nothing"),
    text("global.compatibilityVersion", "", "Where compatibilityVersion says nothing"),
    elsewhere("pilot"),
    elsewhere("istio_cni"),
    elsewhere("sidecarInjectorWebhook"),
    elsewhere("meshConfig"),
    elsewhere("gateways"),
    elsewhere("base"),
    elsewhere("telemetry"),
];

/// The value at this path.
#[must_use]
pub fn find(path: &str) -> Option<&'static Field> {
    ALL.iter().find(|field| field.path == path)
}
