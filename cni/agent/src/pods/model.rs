// SPDX-License-Identifier: Apache-2.0
//! A pod as the agent keeps it: what the plugin is told of it, and what repair looks at. Decoded straight from the API's JSON; the
//! part that decides about redirection is [`protocol::pod`]'s own, so that the two cannot drift apart.

use std::collections::BTreeMap;
use std::net::IpAddr;

use protocol::pod::{Container, MIRROR_ANNOTATION, Metadata, PodFacts, Spec};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::selector::FIELDS;

/// The container whose arguments and environment say how traffic is redirected. Of the others the name and the user matter.
const PROXY: &str = "istio-proxy";

/// A pod of the node. Times are RFC 3339 as the API sends them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodePod {
    pub metadata: NodeMetadata,
    pub spec: NodeSpec,
    pub status: PodStatus,
    /// [`Self::facts`] as compact JSON: what the plugin is told. Written when the pod becomes known, since its ADD is what must not wait.
    pub facts_json: Box<str>,
}

/// Subset of `metadata`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeMetadata {
    /// Shared with the plugin; of foreign annotations only the keys.
    pub facts: Metadata,
    pub resource_version: String,
    pub deletion_timestamp: Option<String>,
    /// UID of the controller among `ownerReferences`; empty if there is none.
    pub controller: String,
}

/// Subset of `spec`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSpec {
    /// Shared with the plugin; of containers other than the proxy only names, users and groups.
    pub facts: Spec,
    /// `restartPolicy`; the API fills it in.
    pub restart_policy: String,
    pub node_name: String,
    pub scheduler_name: String,
    pub service_account_name: String,
}

impl<'de> Deserialize<'de> for NodePod {
    /// Reads the pod twice, once with the plugin's own decoder: `#[serde(flatten)]` would build a tree of everything first.
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(decoder)?;
        let facts: PodFacts = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let rest: Rest = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let mut pod = Self::slim(facts, rest);
        pod.facts_json = serde_json::to_string(&pod.facts()).map_err(D::Error::custom)?.into();
        Ok(pod)
    }
}

/// Fields that [`PodFacts`] lacks.
#[derive(Deserialize)]
struct Rest {
    #[serde(default)]
    metadata: RestOfMetadata,
    #[serde(default)]
    spec: RestOfSpec,
    #[serde(default)]
    status: Option<PodStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RestOfMetadata {
    resource_version: String,
    deletion_timestamp: Option<String>,
    owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Owner {
    uid: String,
    controller: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RestOfSpec {
    restart_policy: String,
    node_name: String,
    scheduler_name: String,
    service_account_name: String,
}

impl NodePod {
    fn slim(facts: PodFacts, rest: Rest) -> Self {
        let PodFacts { mut metadata, mut spec } = facts;
        for (key, value) in &mut metadata.annotations {
            if !is_read(key) {
                *value = String::new();
            }
        }
        for container in spec.init_containers.iter_mut().chain(&mut spec.containers) {
            if container.name != PROXY {
                *container = Container { args: Vec::new(), env: Vec::new(), ..std::mem::take(container) };
            }
        }
        // Its absence would mean that this agent does not know it.
        spec.security_context.get_or_insert_default();
        Self {
            metadata: NodeMetadata {
                facts: metadata,
                resource_version: rest.metadata.resource_version,
                deletion_timestamp: rest.metadata.deletion_timestamp,
                controller: rest
                    .metadata
                    .owner_references
                    .into_iter()
                    .find(|owner| owner.controller)
                    .unwrap_or_default()
                    .uid,
            },
            spec: NodeSpec {
                facts: spec,
                restart_policy: rest.spec.restart_policy,
                node_name: rest.spec.node_name,
                scheduler_name: rest.spec.scheduler_name,
                service_account_name: rest.spec.service_account_name,
            },
            status: rest.status.unwrap_or_default(),
            facts_json: Box::default(),
        }
    }
}

/// True if an annotation's value is kept: all of Istio's, since the plugin may be newer than the agent.
fn is_read(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    domain == "istio.io" || domain.ends_with(".istio.io") || key == MIRROR_ANNOTATION
}

/// Subset of `status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`
    pub phase: String,
    pub nominated_node_name: String,
    pub start_time: Option<String>,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    pub init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PodIp {
    pub ip: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
    pub last_state: ContainerState,
    pub restart_count: i32,
}

/// State; only `terminated` is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub terminated: Option<Terminated>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: String,
    pub message: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
}

impl NodePod {
    /// Answer for the plugin.
    #[must_use]
    pub fn facts(&self) -> PodFacts {
        let mut metadata = self.metadata.facts.clone();
        metadata.annotations.retain(|key, _| is_read(key));
        PodFacts { metadata, spec: self.spec.facts.clone() }
    }

    /// [`FIELDS`], as the API server writes them.
    #[must_use]
    pub fn fields(&self) -> BTreeMap<String, String> {
        let (facts, spec, status) = (&self.metadata.facts, &self.spec, &self.status);
        let values: [&str; FIELDS.len()] = [
            &facts.name,
            &facts.namespace,
            if spec.facts.host_network { "true" } else { "false" },
            &spec.node_name,
            &spec.restart_policy,
            &spec.scheduler_name,
            &spec.service_account_name,
            &status.nominated_node_name,
            &status.phase,
            &status.pod_ip,
        ];
        FIELDS.into_iter().zip(values).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Addresses, the primary first.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let all = self.status.pod_ips.iter().map(|one| one.ip.as_str()).chain([self.status.pod_ip.as_str()]);
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in all.filter_map(|text| text.parse().ok()) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }
}

#[cfg(test)]
mod tests {
    use protocol::pod::SecurityContext;
    use serde_json::json;

    use super::*;

    #[test]
    fn of_others_annotations_and_containers_only_names_and_users_are_kept() {
        let pod: NodePod = serde_json::from_value(json!({
            "metadata": {
                "ownerReferences": [{"uid": "u-1", "kind": "X"}, {"uid": "u-2", "controller": true}],
                "name": "cart", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "x"}],
                "annotations": {"sidecar.istio.io/status": "{}", "istio.io/rev": "a", "notistio.io/x": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            },
            "spec": {
                "nodeName": "n", "restartPolicy": "Never", "runtimeClassName": "kata-qemu", "securityContext": {"runAsUser": 6, "fsGroup": 7},
                "containers": [
                    {"name": "app", "args": ["a"], "env": [{"name": "A", "value": "1"}], "securityContext": {"runAsUser": 5}},
                    {"name": "istio-proxy", "args": ["proxy", "sidecar"], "env": [{"name": "A", "value": "1"}]},
                ],
            },
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        }))
        .unwrap();
        assert_eq!(
            (pod.metadata.resource_version.as_str(), pod.spec.restart_policy.as_str()),
            ("7", "Never")
        );
        assert!(pod.metadata.deletion_timestamp.is_some());
        assert_eq!(pod.metadata.controller, "u-2");
        assert_eq!(
            pod.spec.facts.containers[0],
            Container {
                name: "app".to_owned(),
                security_context: Some(SecurityContext { run_as_user: Some(5), run_as_group: None }),
                ..Container::default()
            }
        );
        let facts = serde_json::from_str::<PodFacts>(&pod.facts_json).unwrap();
        assert_eq!(facts, pod.facts());
        assert_eq!(facts.spec.runtime_class_name.as_deref(), Some("kata-qemu"));
        assert_eq!(facts.spec.security_context.and_then(|context| context.run_as_user), Some(6));
        assert_eq!(pod.spec.facts.containers[1].env.len(), 1);
        let annotations = &pod.metadata.facts.annotations;
        assert_eq!(annotations["kubectl.kubernetes.io/last-applied-configuration"], "");
        assert_eq!(annotations["sidecar.istio.io/status"], "{}");
        let annotations = pod.facts().metadata.annotations;
        assert_eq!(annotations.keys().collect::<Vec<_>>(), ["istio.io/rev", "sidecar.istio.io/status"]);
        assert_eq!(pod.addresses(), ["10.0.0.1".parse::<IpAddr>().unwrap(), "fd00::1".parse().unwrap()]);
    }

    #[test]
    fn a_pod_without_status_is_a_pod() {
        let pod: NodePod =
            serde_json::from_value(json!({"metadata": {"name": "a"}, "status": null})).unwrap();
        assert_eq!(pod.status, PodStatus::default());
        assert!(
            pod.facts_json.contains(r#""securityContext":{}"#),
            "the plugin reads that it is known: {}",
            pod.facts_json
        );
    }
}
