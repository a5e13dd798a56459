// SPDX-License-Identifier: Apache-2.0
//! State of a node that outlives a scenario: files and links of its CNI configuration directory, the names in its plugin directory, and the labels, taints
//! and cordon of its object. Decides what is to be put back; [`crate::restore`] does it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt as _;
use serde_json::{Value, json};

/// Begin of the keys of taints that the cluster itself gives a node, and takes.
const CLUSTERS_OWN: &str = "node.kubernetes.io/";

/// Entries of a directory, by name.
pub(crate) type Entries = BTreeMap<String, Content>;

/// Content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// Its bytes, and its permission bits: others keep credentials there.
    File(Vec<u8>, u32),
    /// Its text.
    Link(PathBuf),
    /// A directory or anything else, of which only the name is known.
    Unknown,
}

/// A change that brings a directory nearer to what it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Put(&'a str, &'a Content),
    Remove(&'a str),
}

/// A node as it was.
#[derive(Debug)]
pub(crate) struct Before {
    pub(crate) configurations: Entries,
    /// Names of plugins.
    pub(crate) plugins: BTreeSet<String>,
    pub(crate) node: Node,
}

impl Before {
    /// Name and content of the list of its network: the first that there is.
    pub(crate) fn network(&self) -> Option<(&str, Value)> {
        let mut lists = self.configurations.iter().filter_map(|(name, content)| match content {
            Content::File(text, _) if name.ends_with(".conflist") => Some((name, text)),
            _ => None,
        });
        let (name, text) = lists.next()?;
        Some((name, serde_json::from_slice(text).unwrap_or_default()))
    }

    /// Configurations that are no longer there.
    pub(crate) fn gone<'a>(&'a self, now: &Entries) -> Vec<Change<'a>> {
        let gone = self.configurations.iter().filter(|(name, _)| !now.contains_key(*name));
        gone.map(|(name, content)| Change::Put(name, content)).collect()
    }
}

/// Changes that make a directory what it was. What was there comes first, as runtimes take no pod down without a network.
pub(crate) fn changes<'a>(now: &'a Entries, before: &'a Entries) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    for (name, content) in before.iter().filter(|(name, content)| now.get(*name) != Some(content)) {
        match (now.get(name), content) {
            // A file takes the place of another.
            (None, _) | (Some(Content::File(..)), Content::File(..)) => {}
            (Some(_), _) => changes.push(Change::Remove(name)),
        }
        changes.push(Change::Put(name, content));
    }
    changes.extend(now.keys().filter(|name| !before.contains_key(*name)).map(|name| Change::Remove(name)));
    changes
}

/// Merge patch that gives a node its former labels, taints and cordon, as long as it is what it was `now`; none if it has them.
pub(crate) fn difference(now: &Node, before: &Node) -> Option<Value> {
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
        "metadata": { "labels": labels, "resourceVersion": now.metadata.resource_version },
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

    fn file(text: &str) -> Content {
        Content::File(text.as_bytes().to_owned(), 0o600)
    }

    fn entries<const N: usize>(all: [(&str, Content); N]) -> Entries {
        all.into_iter().map(|(name, content)| (name.to_owned(), content)).collect()
    }

    #[test]
    fn a_file_that_nobody_may_read_any_more_comes_back() {
        let before = entries([("10-lab.conflist", file("{}"))]);
        let closed = entries([("10-lab.conflist", Content::File(b"{}".to_vec(), 0))]);
        assert_eq!(changes(&closed, &before), [Change::Put("10-lab.conflist", &file("{}"))]);
    }

    #[test]
    fn links_come_back_and_whatever_was_not_there_goes() {
        let link = || Content::Link("lab.data".into());
        let before = entries([("10-lab.conflist", link()), ("87-podman.conflist", file("old"))]);
        let now = entries([
            ("10-lab.conflist", file("{}")),
            ("20-made.conflist", Content::Link("nowhere".into())),
            ("87-podman.conflist", file("new")),
            ("made.d", Content::Unknown),
        ]);
        let wanted = [
            Change::Remove("10-lab.conflist"),
            Change::Put("10-lab.conflist", &link()),
            Change::Put("87-podman.conflist", &file("old")),
            Change::Remove("20-made.conflist"),
            Change::Remove("made.d"),
        ];
        assert_eq!(changes(&now, &before), wanted);
        assert_eq!(changes(&before, &before), []);
    }

    #[test]
    fn a_node_gets_back_what_a_scenario_took_and_loses_what_it_gave() {
        let before = node(&json!({ "zone": "a" }), &json!({ "taints": [taint("of/owner")] }));
        let given =
            json!({ "taints": [taint("cni.istio.io/not-ready"), taint("node.kubernetes.io/not-ready")] });
        let mut now = node(&json!({ "x": "y" }), &given);
        now.spec.as_mut().unwrap().unschedulable = Some(true);
        now.metadata.resource_version = Some("7".to_owned());
        let wanted = json!({
            "metadata": { "labels": { "x": null, "zone": "a" }, "resourceVersion": "7" },
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
