// SPDX-License-Identifier: Apache-2.0
//! Freshness of a pod's `Ready` condition: is it about the node's present life?
//!
//! A machine that goes down reports nothing. Until its kubelet is back and has synced its pods, the API server shows them as they were,
//! ready, and a node that registers anew under its name finds the pods of the former one, ready as well. So a condition is believed
//!
//! * if it was reported in this life of the node: it is another one than at the life's beginning, or
//! * if it speaks of a moment after everything that may have been the life's beginning: the node's registration, and the last time that its
//!   kubelet began to say "ready", which a kubelet does when it starts. Pod and node are told of by the same kubelet, so that the second is
//!   of one clock. A machine that was down for less than the cluster noticed may still be "ready" from before, so this is worth nothing
//!   once its boot ID changed before our eyes. Or
//! * once the node has been ready for [`SETTLED`] in front of our eyes: its kubelet has looked at every pod by then, and would have taken
//!   the word back. Without this a kubelet that only started again would keep a node tainted for ever, as nothing is said anew then.
//!
//! A life ends with the node's UID or its boot ID. Nothing here tells that a machine is down before its kubelet or the cluster says so.

use std::collections::BTreeMap;
use std::time::Duration;

use super::model::{Node, Pod, Word};

/// A kubelet looks at each of its pods every minute, give or take half of that, and tells changes within 10 s.
pub const SETTLED: Duration = Duration::from_secs(120);

/// Credibility of a pod's condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Belief {
    Sure,
    /// Unknown yet.
    Unsure,
    Stale,
}

/// Start of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Began {
    /// Before the controller started.
    Unseen,
    /// Observed registration of the node.
    Registered,
    /// Observed change of its boot ID.
    Rebooted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLife {
    uid: String,
    boot: String,
    began: Began,
    /// Conditions at its start, by the pods' UIDs.
    old: BTreeMap<String, Word>,
    /// Since when the node is observed ready.
    ready_since: Option<Duration>,
}

impl NodeLife {
    /// A life that begins, or that we begin to see, with these pods on the node.
    #[must_use]
    pub fn new<'a>(node: &Node, began: Began, pods: impl Iterator<Item = &'a Pod>, now: Duration) -> Self {
        let old = pods.filter_map(|pod| Some((pod.uid.clone(), pod.word.clone()?))).collect();
        let ready_since = node.ready.then_some(now);
        Self { uid: node.uid.clone(), boot: node.boot.clone(), began, old, ready_since }
    }

    /// True if the node still lives this life.
    #[must_use]
    pub fn is_of(&self, node: &Node) -> bool {
        // A kubelet that has only registered yet has not told its boot ID.
        self.is_on(node) && (self.boot == node.boot || self.boot.is_empty())
    }

    /// True if it is, or was, a life of this node, not of another one of its name.
    #[must_use]
    pub fn is_on(&self, node: &Node) -> bool {
        self.uid == node.uid
    }

    /// Observes the node.
    pub fn see(&mut self, node: &Node, now: Duration) {
        self.boot.clone_from(&node.boot);
        self.ready_since = node.ready.then(|| self.ready_since.unwrap_or(now));
    }

    /// Judges a pod's condition.
    #[must_use]
    pub fn judge(&self, pod: &Pod, node: &Node, now: Duration) -> Belief {
        let Some(word) = self.old.get(&pod.uid).filter(|old| pod.word.as_ref() == Some(old)) else {
            return Belief::Sure;
        };
        if self.settles().is_some_and(|at| at <= now) {
            return Belief::Sure;
        }
        let after = |moment| word.latest().zip(moment).is_some_and(|(word, moment)| word >= moment);
        match self.began {
            Began::Registered if after(node.created) => Belief::Sure,
            Began::Unseen if after(node.created.max(node.said_since)) => Belief::Sure,
            Began::Unseen => Belief::Unsure,
            Began::Registered | Began::Rebooted => Belief::Stale,
        }
    }

    /// When every condition will be believed, if the node stays ready.
    #[must_use]
    pub fn settles(&self) -> Option<Duration> {
        self.ready_since.map(|since| since + SETTLED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn at(second: u32) -> Option<k8s_openapi::jiff::Timestamp> {
        format!("2026-01-01T00:00:{second:02}Z").parse().ok()
    }

    fn node(uid: &str, boot: &str, ready_at: u32) -> Node {
        let (uid, boot) = (uid.to_owned(), boot.to_owned());
        Node {
            name: "n".to_owned(),
            uid,
            version: None,
            boot,
            runtime: crate::runtime::RuntimeKind::Unknown,
            ready: true,
            created: at(1),
            said_since: at(ready_at),
            agentless: None,
            taints: None,
        }
    }

    fn pod(since: u32, restarts: i64) -> Pod {
        let word = Word { since: at(since), started: at(since), restarts };
        Pod { name: "s/p".to_owned(), uid: "p".to_owned(), node: "n".to_owned(), word: Some(word) }
    }

    #[test]
    fn what_was_ready_before_the_reboot_is_not_believed_until_it_says_so_again() {
        let (before, after) = (node("u", "b1", 2), node("u", "b2", 20));
        let life = NodeLife::new(&before, Began::Unseen, std::iter::empty(), START);
        assert_eq!(life.judge(&pod(10, 0), &before, START), Belief::Sure);
        assert!(!life.is_of(&after));
        let life = NodeLife::new(&after, Began::Rebooted, [pod(10, 0)].iter(), START);
        assert_eq!(life.judge(&pod(10, 0), &after, START), Belief::Stale);
        assert_eq!(life.judge(&pod(10, 1), &after, START), Belief::Sure, "a container began anew");
        assert_eq!(life.judge(&pod(30, 0), &after, START), Belief::Sure);
    }

    #[test]
    fn a_life_that_began_before_we_looked_is_a_matter_of_times() {
        let (ready, rebooted) = (node("u", "b", 5), node("u", "b", 50));
        let life = NodeLife::new(&ready, Began::Unseen, [pod(10, 0)].iter(), START);
        assert_eq!(life.judge(&pod(10, 0), &ready, START), Belief::Sure);
        assert_eq!(life.judge(&pod(10, 0), &rebooted, START), Belief::Unsure);
        let unknown = Node { said_since: None, created: None, ..ready };
        assert_eq!(life.judge(&pod(10, 0), &unknown, START), Belief::Unsure, "no time to compare with");
    }

    #[test]
    fn a_node_that_registers_finds_the_pods_of_the_former_one() {
        let mut late = node("u", "b", 30);
        let life = NodeLife::new(&late, Began::Registered, [pod(10, 0)].iter(), START);
        assert_eq!(life.judge(&pod(10, 0), &late, START), Belief::Sure, "told of in another order");
        late.created = at(20);
        assert_eq!(life.judge(&pod(10, 0), &late, START), Belief::Stale);
    }

    #[test]
    fn a_kubelet_that_had_the_time_to_look_is_believed() {
        let mut rebooted = node("u", "b2", 20);
        let mut life = NodeLife::new(&rebooted, Began::Rebooted, [pod(10, 0)].iter(), START);
        assert_eq!(life.judge(&pod(10, 0), &rebooted, START + SETTLED), Belief::Sure);
        rebooted.ready = false;
        life.see(&rebooted, START + SETTLED / 2);
        assert_eq!(life.judge(&pod(10, 0), &rebooted, START + SETTLED), Belief::Stale);
        rebooted.ready = true;
        life.see(&rebooted, START + SETTLED);
        assert_eq!(life.settles(), Some(START + SETTLED * 2));
    }

    #[test]
    fn a_node_that_registers_anew_is_another_and_one_that_tells_its_boot_late_is_not() {
        let mut fresh = node("u", "", 2);
        let mut life = NodeLife::new(&fresh, Began::Registered, std::iter::empty(), START);
        fresh.boot = "b".to_owned();
        assert!(life.is_of(&fresh));
        life.see(&fresh, START);
        assert!(life.is_of(&fresh) && !life.is_of(&node("u2", "b", 2)) && !life.is_of(&node("u", "b2", 2)));
    }

    #[test]
    fn a_pod_told_of_before_its_node_is_believed_when_the_node_tells_its_boot_late() {
        let mut fresh = node("u", "", 2);
        let life = NodeLife::new(&fresh, Began::Registered, [pod(10, 0)].iter(), START);
        fresh.boot = "b".to_owned();
        assert!(life.is_of(&fresh));
        assert_eq!(life.judge(&pod(10, 0), &fresh, START), Belief::Sure);
        fresh.created = at(20);
        assert_eq!(life.judge(&pod(10, 0), &fresh, START), Belief::Stale, "it is of the node before");
    }
}
