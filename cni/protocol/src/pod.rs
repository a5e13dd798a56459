// SPDX-License-Identifier: Apache-2.0
//! What we read of a pod: the one decoder of pods in production, used on API responses and on agent messages alike.
//! The shape is Kubernetes' own (`v1/Pod`), reduced; unknown fields are skipped while parsing.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// A pod, as far as redirection depends on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodFacts {
    /// `metadata`
    #[serde(default)]
    pub metadata: Metadata,
    /// `spec`
    #[serde(default)]
    pub spec: Spec,
}

/// The part of `metadata` that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The pod's name.
    #[serde(default)]
    pub name: String,
    /// The pod's namespace.
    #[serde(default)]
    pub namespace: String,
    /// The pod's UID; a static pod's mirror has another than the kubelet uses (see [`PodFacts::has_uid`]).
    #[serde(default)]
    pub uid: String,
    /// Labels.
    #[serde(default, deserialize_with = "null_is_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, deserialize_with = "null_is_default")]
    pub annotations: BTreeMap<String, String>,
}

/// The part of `spec` that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Whether the pod shares the node's network namespace.
    #[serde(default)]
    pub host_network: bool,
    /// Init containers, native sidecars included.
    #[serde(default, deserialize_with = "null_is_default")]
    pub init_containers: Vec<Container>,
    /// Containers.
    #[serde(default, deserialize_with = "null_is_default")]
    pub containers: Vec<Container>,
}

/// The part of a container that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// The container's name.
    #[serde(default)]
    pub name: String,
    /// `args`
    #[serde(default, deserialize_with = "null_is_default")]
    pub args: Vec<String>,
    /// `env`
    #[serde(default, deserialize_with = "null_is_default")]
    pub env: Vec<EnvVar>,
    /// `securityContext`, of the container only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
}

/// An environment variable; one with `valueFrom` reads as the empty string.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// The variable's name.
    #[serde(default)]
    pub name: String,
    /// Its literal value.
    #[serde(default)]
    pub value: String,
}

/// The part of a container's security context that we read.
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
    /// Whether the kubelet's `K8S_POD_UID` names this pod: by `metadata.uid`, or for a static pod's mirror by the annotation
    /// [`MIRROR_ANNOTATION`]. An empty `uid` (old kubelets) matches any pod.
    #[must_use]
    pub fn has_uid(&self, uid: &str) -> bool {
        uid.is_empty()
            || self.metadata.uid == uid
            || self.metadata.annotations.get(MIRROR_ANNOTATION).is_some_and(|mirror| mirror == uid)
    }
}

/// Go's encoders write `null` for an empty list or map; it means the same as leaving it out.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(de: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(de)?.unwrap_or_default())
}
