// SPDX-License-Identifier: Apache-2.0
//! Nodes and pods, as far as taints depend on them. Decoded straight from the API's JSON; of taints everything is kept, as what is compared
//! with the server must be what the server has.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::runtime::RuntimeKind;

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawNode")]
pub struct Node {
    pub name: String,
    /// UID: one that registers anew under its name is another node.
    pub uid: String,
    /// `resourceVersion`, if it is a number, as it is of every API server that stores in etcd: larger ones are later.
    pub version: Option<u64>,
    /// Registration.
    pub created: Option<Timestamp>,
    /// `bootID`.
    pub boot: String,
    /// Its container runtime.
    pub runtime: RuntimeKind,
    /// `Ready` condition.
    pub ready: bool,
    /// Its last transition.
    pub said_since: Option<Timestamp>,
    /// Why no pod of the plugin can run there, whatever anybody configures.
    pub agentless: Option<Agentless>,
    /// `spec.taints`, absent or not.
    pub taints: Option<Vec<Value>>,
}

/// Why a node never gets an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Agentless {
    NotLinux,
    Virtual,
}

impl fmt::Display for Agentless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotLinux => "its operating system is not Linux",
            Self::Virtual => "it is a virtual node",
        })
    }
}

/// A pod of the plugin, or another one that a node requires.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPod")]
pub struct Pod {
    /// `namespace/name`, for messages.
    pub name: String,
    pub uid: String,
    /// Its node; empty before it is scheduled.
    pub node: String,
    /// Its `Ready` condition, if true.
    pub word: Option<Word>,
}

/// A kubelet's word that a pod is ready. Another one is another word: the pod was not ready in between, or its containers are others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// Last transition of the condition.
    pub since: Option<Timestamp>,
    /// Start of the youngest of its containers.
    pub started: Option<Timestamp>,
    /// Sum of its containers' restarts.
    pub restarts: i64,
}

impl Word {
    /// Latest of its times.
    #[must_use]
    pub fn latest(&self) -> Option<Timestamp> {
        self.since.max(self.started)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    labels: BTreeMap<String, String>,
    resource_version: String,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<Time>,
}

fn ready(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|one| one.kind == "Ready")
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNode {
    metadata: Metadata,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeStatus {
    conditions: Vec<Condition>,
    node_info: NodeInfo,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    #[serde(rename = "bootID")]
    boot: String,
    container_runtime_version: String,
}

/// Labels of nodes without a Linux of their own: Windows pools, and nodes that are an account with a provider (Virtual Kubelet, of which AKS' virtual nodes are one;
/// EKS on Fargate).
const VIRTUAL: [(&str, &str); 2] =
    [("type", "virtual-kubelet"), ("eks.amazonaws.com/compute-type", "fargate")];

fn agentless(labels: &BTreeMap<String, String>) -> Option<Agentless> {
    if labels.get("kubernetes.io/os").is_some_and(|os| os != "linux") {
        return Some(Agentless::NotLinux);
    }
    let is_virtual = VIRTUAL.iter().any(|(key, value)| labels.get(*key).is_some_and(|found| found == value));
    is_virtual.then_some(Agentless::Virtual)
}

impl From<RawNode> for Node {
    fn from(RawNode { metadata, spec, status }: RawNode) -> Self {
        let ready = ready(&status.conditions);
        Self {
            name: metadata.name,
            uid: metadata.uid,
            version: metadata.resource_version.parse().ok(),
            created: metadata.creation_timestamp.map(|time| time.0),
            boot: status.node_info.boot,
            runtime: RuntimeKind::of(&status.node_info.container_runtime_version),
            ready: ready.is_some_and(|one| one.status == "True"),
            said_since: ready.and_then(|one| one.last_transition_time.as_ref()).map(|time| time.0),
            agentless: agentless(&metadata.labels),
            taints: spec.taints,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    conditions: Vec<Condition>,
    container_statuses: Vec<Container>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    restart_count: i64,
    state: State,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    running: Option<Running>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Time>,
}

impl From<RawPod> for Pod {
    fn from(RawPod { metadata, spec, status }: RawPod) -> Self {
        let ready = ready(&status.conditions).filter(|one| one.status == "True");
        let started = |one: &Container| one.state.running.as_ref()?.started_at.as_ref().map(|time| time.0);
        // One that is being deleted is about to be unready, or is already and its node cannot say so.
        let word = ready.filter(|_| metadata.deletion_timestamp.is_none()).map(|ready| Word {
            since: ready.last_transition_time.as_ref().map(|time| time.0),
            started: status.container_statuses.iter().filter_map(started).max(),
            restarts: status.container_statuses.iter().map(|one| one.restart_count).sum(),
        });
        let name = format!("{}/{}", metadata.namespace, metadata.name);
        Self { name, uid: metadata.uid, node: spec.node_name, word }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_keeps_its_taints_as_they_are() {
        let taints =
            json!([{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z", "x": 1}]);
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"taints": taints, "podCIDR": "10.0.0.0/24"},
            "status": {
                "conditions": [{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}],
                "nodeInfo": {"bootID": "b"},
            },
        }))
        .unwrap();
        assert_eq!(Value::from(node.taints.clone().unwrap()), taints);
        assert!(node.ready && node.created < node.said_since && node.boot == "b");
        let bare: Node = serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {}})).unwrap();
        assert_eq!((bare.taints, bare.ready), (None, false));
    }

    #[test]
    fn a_pods_word_is_another_when_a_container_is() {
        let pod = |restarts: u32, status: &str, deletion: Value| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "p", "namespace": "s", "uid": "u", "deletionTimestamp": deletion},
                "spec": {"nodeName": "n"},
                "status": {
                    "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:05Z"}],
                    "containerStatuses": [
                        {"restartCount": restarts, "state": {"running": {"startedAt": "2026-01-01T00:00:03Z"}}},
                        {"restartCount": 0, "state": {"waiting": {}}},
                    ],
                },
            }))
            .unwrap()
        };
        let first = pod(0, "True", Value::Null);
        assert_eq!((first.name.as_str(), first.node.as_str()), ("s/p", "n"));
        assert_eq!(first.word.clone().unwrap().latest(), "2026-01-01T00:00:05Z".parse().ok());
        assert_ne!(first.word, pod(1, "True", Value::Null).word);
        assert_eq!(pod(0, "False", Value::Null).word, None);
        assert_eq!(pod(0, "True", json!("2026-01-01T00:00:09Z")).word, None);
    }
}
