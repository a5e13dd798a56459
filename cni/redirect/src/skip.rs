// SPDX-License-Identifier: Apache-2.0
//! Why a pod is left alone, and the part of that decision that needs nothing but the call's arguments.

use std::collections::BTreeMap;
use std::fmt;

use protocol::netconf::NetConf;
use protocol::pod::Metadata;

/// The injector's mark on a pod.
pub(crate) const STATUS: &str = "sidecar.istio.io/status";

/// Reason to skip a pod. None of these is an error.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// The node agent's own pod, which must start before anything can be asked about it.
    OwnAgentPod,
    /// The runtime named no pod.
    NotKubernetes,
    /// The pod's namespace is excluded by the node's configuration.
    ExcludedNamespace {
        /// The namespace.
        namespace: String,
    },
    /// The pod lives in the node's network namespace, where a pod's rules must never go.
    HostNetwork,
    /// The pod programs its rules itself.
    IstioInit,
    /// `DISABLE_ENVOY` is true.
    EnvoyDisabled,
    /// No container is called `istio-proxy`.
    NoProxy {
        /// The names that there are, sorted.
        containers: Vec<String>,
    },
    /// The proxy is no sidecar.
    ProxyType {
        /// `router`, `waypoint`, `ztunnel`, …
        kind: String,
    },
    /// `sidecar.istio.io/inject` says no.
    InjectionOff,
    /// The injector has not seen the pod: the annotation `sidecar.istio.io/status` is absent.
    NotInjected,
    /// `sidecar.istio.io/interceptionMode` is `NONE`, and the node's configuration skips such pods.
    NoInterception,
}

impl SkipReason {
    /// A stable name for logs, metrics and tests.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::OwnAgentPod => "own-agent-pod",
            Self::NotKubernetes => "not-kubernetes",
            Self::ExcludedNamespace { .. } => "excluded-namespace",
            Self::HostNetwork => "host-network",
            Self::IstioInit => "istio-init",
            Self::EnvoyDisabled => "envoy-disabled",
            Self::NoProxy { .. } => "no-proxy",
            Self::ProxyType { .. } => "proxy-type",
            Self::InjectionOff => "injection-off",
            Self::NotInjected => "not-injected",
            Self::NoInterception => "no-interception",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnAgentPod => out.write_str("the node agent's own pod"),
            Self::NotKubernetes => out.write_str("not a Kubernetes pod"),
            Self::ExcludedNamespace { namespace } => write!(out, "namespace {namespace} is excluded"),
            Self::HostNetwork => out.write_str("the pod is on the host network"),
            Self::IstioInit => out.write_str("container istio-init programs the rules itself"),
            Self::EnvoyDisabled => out.write_str("DISABLE_ENVOY is true"),
            Self::NoProxy { containers } => {
                write!(out, "no container is called istio-proxy (found: {})", containers.join(", "))
            }
            Self::ProxyType { kind } => write!(out, "the proxy is a {kind}, not a sidecar"),
            Self::InjectionOff => out.write_str("sidecar.istio.io/inject is false"),
            Self::NotInjected => out.write_str("annotation sidecar.istio.io/status is absent"),
            Self::NoInterception => out.write_str("annotation sidecar.istio.io/interceptionMode is NONE"),
        }
    }
}

/// The name prefix of the node agent's pods; its `DaemonSet` has a fixed name.
const AGENT_POD_PREFIX: &str = "istio-cni-node-";

/// A pod as `CNI_ARGS` names it; either may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedPod<'a> {
    /// `K8S_POD_NAME`
    pub name: &'a str,
    /// `K8S_POD_NAMESPACE`
    pub namespace: &'a str,
}

impl<'a> From<&'a Metadata> for NamedPod<'a> {
    /// The pod of an object. A template's may have no name yet, and a manifest no namespace; that does not make it less of a pod.
    fn from(metadata: &'a Metadata) -> Self {
        let or = |text: &'a str, default| if text.is_empty() { default } else { text };
        Self { name: or(&metadata.name, "pod"), namespace: or(&metadata.namespace, "default") }
    }
}

/// The part of the node's configuration that can exclude a pod by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exclusions<'a> {
    /// The node agent's namespace (`pod_namespace`).
    pub agent_namespace: &'a str,
    /// `exclude_namespaces`
    pub namespaces: &'a [String],
}

impl<'a> From<&'a NetConf> for Exclusions<'a> {
    fn from(conf: &'a NetConf) -> Self {
        Self { agent_namespace: &conf.pod_namespace, namespaces: &conf.exclude_namespaces }
    }
}

/// Decides what can be decided before the pod is looked up, so that none of these pods depends on an agent or an API
/// server: the agent's own pod first, then calls without a pod, then excluded namespaces.
#[must_use]
pub fn precheck(pod: NamedPod<'_>, exclusions: Exclusions<'_>) -> Option<SkipReason> {
    if pod.name.starts_with(AGENT_POD_PREFIX) && pod.namespace == exclusions.agent_namespace {
        return Some(SkipReason::OwnAgentPod);
    }
    if pod.name.is_empty() || pod.namespace.is_empty() {
        return Some(SkipReason::NotKubernetes);
    }
    exclusions
        .namespaces
        .iter()
        .any(|excluded| excluded == pod.namespace)
        .then(|| SkipReason::ExcludedNamespace { namespace: pod.namespace.to_owned() })
}

/// Decides by what the call alone says, the pod's annotations included where the runtime hands them over: no pod that was not injected needs an agent or an
/// API server to start. With both away that is what lets an admission webhook start without which no agent's pod is admitted.
#[must_use]
pub fn by_call(pod: NamedPod<'_>, conf: &NetConf) -> Option<SkipReason> {
    precheck(pod, conf.into()).or_else(|| conf.pod_annotations.as_ref().and_then(uninjected))
}

/// The kubelet's mark on each pod that it runs, whoever told it of the pod (`ConfigSourceAnnotationKey`).
const OF_KUBELET: &str = "kubernetes.io/config.source";

/// Annotations that are the kubelet's have the injector's mark or the pod is none of the mesh. Others prove nothing: `crictl` hands what its user wrote.
fn uninjected(annotations: &BTreeMap<String, String>) -> Option<SkipReason> {
    let is_whole = annotations.contains_key(OF_KUBELET);
    (is_whole && !annotations.contains_key(STATUS)).then_some(SkipReason::NotInjected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_the_injector_s_mark_is_told_by_the_kubelet_s_annotations_alone() {
        let of = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), String::new())).collect();
        for (keys, skipped) in [
            (&["kubernetes.io/config.source"][..], true),
            (&["kubernetes.io/config.source", "sidecar.istio.io/status"], false),
            (&["sidecar.istio.io/status"], false),
            (&["app"], false),
            (&[], false),
        ] {
            assert_eq!(uninjected(&of(keys)).is_some(), skipped, "{keys:?}");
        }
    }

    fn code(name: &str, namespace: &str) -> Option<&'static str> {
        let namespaces = ["kube-system".to_owned(), "istio-system".to_owned()];
        let exclusions = Exclusions { agent_namespace: "istio-system", namespaces: &namespaces };
        precheck(NamedPod { name, namespace }, exclusions).map(|reason| reason.code())
    }

    #[test]
    fn the_agent_s_own_pod_comes_first() {
        assert_eq!(code("istio-cni-node-x7k2p", "istio-system"), Some("own-agent-pod"));
        assert_eq!(code("istio-cni-node-x7k2p", "shop"), None);
        assert_eq!(code("istiod-1", "istio-system"), Some("excluded-namespace"));
    }

    #[test]
    fn a_call_without_a_pod_is_not_for_us() {
        assert_eq!(code("", "shop"), Some("not-kubernetes"));
        assert_eq!(code("cart", ""), Some("not-kubernetes"));
    }

    #[test]
    fn namespaces_are_compared_whole() {
        assert_eq!(code("cart", "kube-system"), Some("excluded-namespace"));
        assert_eq!(code("cart", "kube-system-2"), None);
        assert_eq!(code("cart", "shop"), None);
    }
}
