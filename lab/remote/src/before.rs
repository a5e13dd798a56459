// SPDX-License-Identifier: Apache-2.0
//! State of a node that outlives a scenario, put back after it: the files of its CNI configuration directory, the names in its plugin directory, and the
//! labels, taints and cordon of its object.

use std::collections::{BTreeMap, BTreeSet};

use cluster::LabError;
use cluster::hand::{Hand as _, Kind, Writing};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::cordon;
use crate::error::Error;
use crate::node::RemoteNode;

/// Begin of the keys of taints that the cluster itself gives a node, and takes.
const CLUSTERS_OWN: &str = "node.kubernetes.io/";

/// Files of a directory, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A node as it was.
#[derive(Debug)]
pub(crate) struct Before {
    configurations: Files,
    /// Names of plugins.
    plugins: BTreeSet<String>,
    node: Node,
}

impl Before {
    pub(crate) async fn of(node: &RemoteNode) -> Result<Self, LabError> {
        let (configurations, plugins) = (configurations(node).await?, plugins(node).await?);
        Ok(Self { configurations, plugins, node: object(node).await? })
    }

    /// The list of its network: the first that there is.
    pub(crate) fn network(&self) -> Value {
        let mut lists = self.configurations.iter().filter(|(name, _)| name.ends_with(".conflist"));
        lists.next().and_then(|(_, text)| serde_json::from_slice(text).ok()).unwrap_or_default()
    }

    /// Writes configurations that the node has no longer: without a network, runtimes take no pod down.
    pub(crate) async fn give_back(&self, node: &RemoteNode) -> Result<(), LabError> {
        self.write(node, &configurations(node).await?, |now, _| now.is_none()).await
    }

    /// Writes configurations of which `now`, beside what was there before, says that they are to be written.
    async fn write(
        &self,
        node: &RemoteNode,
        now: &Files,
        is_due: impl Fn(Option<&Vec<u8>>, &Vec<u8>) -> bool,
    ) -> Result<(), LabError> {
        let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).conf_dir);
        for (name, text) in self.configurations.iter().filter(|(name, text)| is_due(now.get(*name), text)) {
            hand.write(&directory.join(name), text, Writing::WHOLE).await?;
        }
        Ok(())
    }

    /// Makes the node what it was.
    pub(crate) async fn restore(&self, node: &RemoteNode) -> Result<(), LabError> {
        self.restore_configurations(node).await?;
        let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).bin_dir);
        for name in plugins(node).await?.difference(&self.plugins) {
            hand.remove(&directory.join(name)).await?;
        }
        match difference(&object(node).await?, &self.node) {
            Some(difference) => Ok(cordon::patch(&node.view.session.client, &node.name, difference).await?),
            None => Ok(()),
        }
    }

    async fn restore_configurations(&self, node: &RemoteNode) -> Result<(), LabError> {
        let now = configurations(node).await?;
        self.write(node, &now, |now, text| now != Some(text)).await?;
        let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).conf_dir);
        for name in now.keys().filter(|name| !self.configurations.contains_key(*name)) {
            hand.remove(&directory.join(name)).await?;
        }
        Ok(())
    }
}

async fn configurations(node: &RemoteNode) -> Result<Files, LabError> {
    let (hand, directory) = (node.its_hand()?, cluster::Node::directories(node).conf_dir);
    let mut found = Files::new();
    for entry in hand.list(&directory).await? {
        if entry.kind == Kind::File {
            found.insert(entry.name.clone(), hand.read(&directory.join(entry.name)).await?);
        }
    }
    Ok(found)
}

async fn plugins(node: &RemoteNode) -> Result<BTreeSet<String>, LabError> {
    let there = node.its_hand()?.list(&cluster::Node::directories(node).bin_dir).await?;
    Ok(there.into_iter().map(|entry| entry.name).collect())
}

async fn object(node: &RemoteNode) -> Result<Node, Error> {
    let (nodes, name) = (Api::<Node>::all(node.view.session.client.clone()), &node.name);
    nodes.get(name).await.map_err(Error::api(format!("get node {name}")))
}

/// Merge patch that gives a node its former labels, taints and cordon; none if it has them.
fn difference(now: &Node, before: &Node) -> Option<Value> {
    let spec = |node: &Node| node.spec.clone().unwrap_or_default();
    let (has, had) = (spec(now), spec(before));
    let of_cluster = |taint: &Taint| taint.key.starts_with(CLUSTERS_OWN);
    let (has_taints, had_taints) = (has.taints.unwrap_or_default(), had.taints.unwrap_or_default());
    let of_others = had_taints.into_iter().filter(|taint| !of_cluster(taint));
    let taints: Vec<_> =
        has_taints.iter().filter(|taint| of_cluster(taint)).cloned().chain(of_others).collect();
    let mut labels: BTreeMap<&String, Option<&String>> =
        before.labels().iter().map(|(key, value)| (key, Some(value))).collect();
    for key in now.labels().keys() {
        labels.entry(key).or_insert(None);
    }
    let same_labels = now.labels() == before.labels();
    if same_labels && has.unschedulable == had.unschedulable && taints == has_taints {
        return None;
    }
    Some(json!({
        "metadata": { "labels": labels },
        "spec": { "taints": taints, "unschedulable": had.unschedulable },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &Value, spec: &Value) -> Node {
        serde_json::from_value(json!({ "metadata": { "labels": labels }, "spec": spec })).unwrap()
    }

    fn taint(key: &str) -> Value {
        json!({ "key": key, "effect": "NoSchedule" })
    }

    #[test]
    fn a_node_gets_back_what_a_scenario_took_and_loses_what_it_gave() {
        let before = node(&json!({ "zone": "a" }), &json!({ "taints": [taint("of/owner")] }));
        let given =
            json!({ "taints": [taint("cni.istio.io/not-ready"), taint("node.kubernetes.io/not-ready")] });
        let mut now = node(&json!({ "x": "y" }), &given);
        now.spec.as_mut().unwrap().unschedulable = Some(true);
        let wanted = json!({
            "metadata": { "labels": { "x": null, "zone": "a" } },
            "spec": { "taints": [taint("node.kubernetes.io/not-ready"), taint("of/owner")], "unschedulable": null },
        });
        assert_eq!(difference(&now, &before), Some(wanted));
    }

    #[test]
    fn taints_of_the_cluster_itself_come_and_go() {
        let before = node(&json!({}), &json!({ "taints": [taint("node.kubernetes.io/not-ready")] }));
        assert_eq!(difference(&node(&json!({}), &json!({})), &before), None);
    }
}
