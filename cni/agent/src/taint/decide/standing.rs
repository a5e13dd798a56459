// SPDX-License-Identifier: Apache-2.0
//! Readiness of a node: for each rule a pod that is ready in this life of the node.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::life::Belief;
use super::super::model::{Agentless, Node, Pod};
use super::super::rules::Rule;
use super::{TaintPolicy, TaintState};

/// Readiness of a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NodeReadiness {
    /// No agent ever runs there, and why: there is nothing to wait for, and pods of the mesh cannot be redirected there anyway.
    Agentless(Agentless),
    /// All required pods are ready.
    Ready,
    /// Undetermined, and why.
    Unsure(String),
    /// Lacks a pod, and which.
    Unready(String),
}

impl TaintState {
    /// Readiness of the node now.
    pub(super) fn standing(&self, node: &Node, now: Duration) -> NodeReadiness {
        if let Some(why) = node.agentless {
            return NodeReadiness::Agentless(why);
        }
        // Who only takes the taint off, as upstream's controller does, may be what the node waits for.
        if !node.ready && self.policy == TaintPolicy::Both {
            return NodeReadiness::Unready("the node itself is not ready".to_owned());
        }
        let all = self.rules.iter().zip(self.pods.iter().flatten());
        all.map(|(rule, pods)| self.of_rule(rule, pods.get(&node.name), node, now))
            .max()
            .unwrap_or(NodeReadiness::Ready)
    }

    fn of_rule(
        &self,
        rule: &Rule,
        pods: Option<&BTreeMap<String, Pod>>,
        node: &Node,
        now: Duration,
    ) -> NodeReadiness {
        let life = self.lives.get(&node.name);
        let said = pods.into_iter().flat_map(BTreeMap::values).filter(|pod| pod.word.is_some());
        let judged = said.filter_map(|pod| Some((life?.judge(pod, node, now), pod)));
        match judged.min_by_key(|(belief, _)| *belief) {
            None => NodeReadiness::Unready(format!("no pod of {rule} is ready there")),
            Some((Belief::Sure, _)) => NodeReadiness::Ready,
            Some((Belief::Unsure, pod)) => NodeReadiness::Unsure(format!(
                "pod {} may have become ready before the node was started",
                pod.name
            )),
            Some((Belief::Stale, pod)) => {
                NodeReadiness::Unready(format!("pod {} was ready before the node was started", pod.name))
            }
        }
    }
}
