// SPDX-License-Identifier: Apache-2.0
//! The subset of a pod that is read: the one decoder of pods in production, used on API responses and on agent messages alike. The shape is
//! Kubernetes' own (`v1/Pod`), reduced; unknown fields are skipped while parsing.

mod only;

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

pub use only::{NotOnePod, only};

/// A pod, as far as redirection depends on it. Nothing is required, so any JSON object decodes: whoever asked for a pod must
/// see that the answer carries its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodFacts {
    /// `metadata`
    #[serde(default, deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// `spec`
    #[serde(default, deserialize_with = "null_is_default")]
    pub spec: Spec,
}

/// Subset of `metadata`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The pod's name.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    /// The pod's namespace.
    #[serde(default, deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The pod's UID; a static pod's mirror has another than the kubelet uses (see [`PodFacts::has_uid`]).
    #[serde(default, deserialize_with = "null_is_default")]
    pub uid: String,
    /// Labels.
    #[serde(default, deserialize_with = "null_values_are_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, deserialize_with = "null_values_are_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Subset of `spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// `hostNetwork`
    #[serde(default, deserialize_with = "null_is_default")]
    pub host_network: bool,
    /// `runtimeClassName`; `None` also from node agents that do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// `securityContext` of the pod, which applies where a container's own leaves a field out. API servers and node agents always send it, if
    /// only as `{}`; `None` is an answer of a node agent that knows the containers' contexts only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// Init containers, native sidecars included.
    #[serde(default, deserialize_with = "null_elements_are_empty")]
    pub init_containers: Vec<Container>,
    /// Containers.
    #[serde(default, deserialize_with = "null_elements_are_empty")]
    pub containers: Vec<Container>,
}

/// Subset of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The container's name.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    /// `args`
    #[serde(default, deserialize_with = "null_elements_are_empty")]
    pub args: Vec<String>,
    /// `env`
    #[serde(default, deserialize_with = "null_elements_are_empty")]
    pub env: Vec<EnvVar>,
    /// `restartPolicy`; `Always` makes an init container a sidecar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// The container's own `securityContext`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
}

/// An environment variable; one with `valueFrom` reads as the empty string.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// The variable's name.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    /// Its literal value.
    #[serde(default, deserialize_with = "null_is_default")]
    pub value: String,
}

/// Subset of a pod's or a container's security context.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContext {
    /// `runAsUser`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<i64>,
    /// `runAsGroup`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<i64>,
}

/// The annotation that carries a static pod's UID on its mirror.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

impl PodFacts {
    /// [`Metadata::has_uid`]
    #[must_use]
    pub fn has_uid(&self, uid: &str) -> bool {
        self.metadata.has_uid(uid)
    }
}

impl Metadata {
    /// True if the kubelet's `K8S_POD_UID` identifies this pod: by `metadata.uid`, or for a static pod's mirror by the annotation
    /// [`MIRROR_ANNOTATION`]. An empty `uid` names no pod: runtimes that pass none (cri-dockerd) leave open whether a pod known from before
    /// is the one that starts now or a deleted namesake.
    #[must_use]
    pub fn has_uid(&self, uid: &str) -> bool {
        !uid.is_empty() && (self.uid == uid || self.is_mirror_of(uid))
    }

    fn is_mirror_of(&self, uid: &str) -> bool {
        self.annotations.get(MIRROR_ANNOTATION).is_some_and(|mirror| mirror == uid)
    }
}

/// Go writes `null` for an empty list or map, and reads it as nothing wherever it stands: as a field, as an element, as the value of a key.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(de: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(de)?.unwrap_or_default())
}

fn null_elements_are_empty<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    de: D,
) -> Result<Vec<T>, D::Error> {
    let elements: Vec<Option<T>> = null_is_default(de)?;
    Ok(elements.into_iter().map(Option::unwrap_or_default).collect())
}

fn null_values_are_empty<'de, D: Deserializer<'de>>(de: D) -> Result<BTreeMap<String, String>, D::Error> {
    let entries: BTreeMap<String, Option<String>> = null_is_default(de)?;
    Ok(entries.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decode(value: serde_json::Value) -> PodFacts {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_pod_of_the_api_server_is_read_without_the_rest() {
        let pod = decode(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "cart", "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "managedFields": [{"manager": "x"}],
                "labels": {"app": "cart"}, "annotations": {"sidecar.istio.io/status": "{}"},
            },
            "spec": {
                "hostNetwork": true, "volumes": [{"name": "v", "emptyDir": {}}], "securityContext": {"runAsUser": 5, "fsGroup": 7},
                "runtimeClassName": "kata-qemu",
                "initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}],
                "containers": [{
                    "name": "app", "args": ["proxy", "sidecar"], "image": "x",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                    "securityContext": {"runAsUser": 1_000_659_999_i64, "runAsGroup": 0, "privileged": false},
                }],
            },
            "status": {"phase": "Pending"},
        }));
        assert_eq!((pod.metadata.name.as_str(), pod.metadata.namespace.as_str()), ("cart", "shop"));
        assert_eq!(pod.metadata.labels["app"], "cart");
        assert!(pod.spec.host_network && pod.spec.init_containers[0].name == "istio-proxy");
        let app = &pod.spec.containers[0];
        assert_eq!(app.args, ["proxy", "sidecar"]);
        assert_eq!(app.env[1], EnvVar { name: "B".to_owned(), value: String::new() });
        let context = SecurityContext { run_as_user: Some(1_000_659_999), run_as_group: Some(0) };
        assert_eq!(app.security_context, Some(context));
        let of_pod = SecurityContext { run_as_user: Some(5), run_as_group: None };
        assert_eq!(pod.spec.security_context, Some(of_pod));
        assert_eq!(pod.spec.runtime_class_name.as_deref(), Some("kata-qemu"));
        assert_eq!(pod.spec.init_containers[0].restart_policy.as_deref(), Some("Always"));
    }

    #[test]
    fn null_is_nothing_wherever_it_stands() {
        let nothing = PodFacts::default();
        assert_eq!(decode(json!({"metadata": null, "spec": null})), nothing);
        assert_eq!(decode(json!({})), nothing);
        let metadata =
            json!({"name": null, "namespace": null, "uid": null, "labels": null, "annotations": null});
        let spec = json!({
            "hostNetwork": null, "containers": null, "initContainers": null, "securityContext": null, "runtimeClassName": null,
        });
        assert_eq!(decode(json!({"metadata": metadata, "spec": spec})), nothing);
        let container = json!({"name": null, "args": null, "env": [{"name": null, "value": null}], "securityContext": null});
        let pod = decode(json!({"spec": {"containers": [container]}}));
        assert_eq!(pod.spec.containers, [Container { env: vec![EnvVar::default()], ..Container::default() }]);
        let inside = json!({"args": [null, "x"], "env": [null]});
        let pod =
            decode(json!({"metadata": {"annotations": {"a": null}}, "spec": {"containers": [null, inside]}}));
        assert_eq!(pod.metadata.annotations["a"], "");
        let [nothing, container] = pod.spec.containers.as_slice() else { panic!("{pod:?}") };
        assert_eq!(*nothing, Container::default());
        assert_eq!(
            (container.args.as_slice(), container.env.as_slice()),
            (["".into(), "x".into()].as_slice(), [EnvVar::default()].as_slice())
        );
        let pod = decode(json!({"spec": {"containers": [{"securityContext": {"runAsUser": null}}]}}));
        assert_eq!(pod.spec.containers[0].security_context, Some(SecurityContext::default()));
    }

    #[test]
    fn a_wrong_type_is_an_error() {
        for bad in [
            json!("x"),
            json!({"spec": 7}),
            json!({"metadata": {"labels": {"a": 1}}}),
            json!({"spec": {"containers": {}}}),
        ] {
            assert!(serde_json::from_value::<PodFacts>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_static_pod_is_named_by_its_mirror_annotation() {
        let pod = decode(json!({"metadata": {"uid": "u-1", "annotations": {MIRROR_ANNOTATION: "m-1"}}}));
        assert!(pod.has_uid("u-1") && pod.has_uid("m-1"));
        assert!(!pod.has_uid("u-2"));
        assert!(!pod.has_uid(""), "without a UID nobody can tell a namesake");
        let without = PodFacts::default();
        assert!(
            !without.has_uid("u-1") && !without.has_uid(""),
            "a pod without UID is not the one that is meant"
        );
    }

    #[test]
    fn what_is_no_pod_may_decode_but_has_no_name() {
        let error_page = json!({"kind": "Status", "status": "Failure", "code": 404, "metadata": {}});
        for other in [error_page, json!({}), json!([])] {
            assert_eq!(decode(other), PodFacts::default());
        }
    }
}
