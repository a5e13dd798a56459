// SPDX-License-Identifier: Apache-2.0
//! A pod as the agent keeps it: what the plugin is told of it, and what repair looks at. Decoded straight from the API's JSON; the
//! part that decides about redirection is [`protocol::pod`]'s own, so that the two cannot drift apart.

use std::net::IpAddr;

use protocol::pod::{Metadata, PodFacts, Spec};
use serde::Deserialize;

/// A pod of the node. Times are RFC 3339 as the API sends them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct NodePod {
    /// `metadata`
    pub metadata: NodeMetadata,
    /// `spec`
    #[serde(default)]
    pub spec: NodeSpec,
    /// `status`
    #[serde(default)]
    pub status: Status,
}

/// The part of `metadata` that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeMetadata {
    /// What the plugin reads, too.
    #[serde(flatten)]
    pub facts: Metadata,
    /// `resourceVersion`
    #[serde(default)]
    pub resource_version: String,
    /// `deletionTimestamp`
    #[serde(default)]
    pub deletion_timestamp: Option<String>,
}

/// The part of `spec` that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    /// What the plugin reads, too.
    #[serde(flatten)]
    pub facts: Spec,
    /// `restartPolicy`; the API fills it in.
    #[serde(default)]
    pub restart_policy: String,
    /// `nodeName`
    #[serde(default)]
    pub node_name: String,
}

/// The part of `status` that repair reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`
    pub phase: String,
    /// `startTime`
    pub start_time: Option<String>,
    /// `podIP`
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// `podIPs`
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    /// `initContainerStatuses`
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// One of `status.podIPs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// How a container is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// `state`
    pub state: State,
    /// `lastState`
    pub last_state: State,
    /// `restartCount`
    pub restart_count: i32,
}

/// A state; only the ended one has content that we read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct State {
    /// How it ended, if it did.
    pub terminated: Option<Terminated>,
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Terminated {
    /// `exitCode`
    pub exit_code: i32,
    /// `reason`
    pub reason: String,
    /// `message`
    pub message: String,
    /// `finishedAt`
    pub finished_at: Option<String>,
}

impl NodePod {
    /// What the plugin is told.
    #[must_use]
    pub fn facts(&self) -> PodFacts {
        PodFacts { metadata: self.metadata.facts.clone(), spec: self.spec.facts.clone() }
    }

    /// Its addresses, the first one first.
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
