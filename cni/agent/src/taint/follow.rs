// SPDX-License-Identifier: Apache-2.0
//! Watches of the taint controller: nodes, their required pods' rules, and the pods of those.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::controller::TaintController;
use super::decide::{RuleRef, TaintEvent};
use super::model::{Node, Pod};
use super::options::{NamespacedName, Needs};
use super::rules::{self, Rule};
use super::run::RunError;
use crate::api::{Change, Client, Following, Lost, One, Resource};
use crate::metrics::Watched;
use crate::readiness::{Part, Readiness};

/// Watches that feed the controller.
#[derive(Clone)]
pub(super) struct Followers {
    pub(super) controller: Arc<TaintController>,
    pub(super) client: Client,
    pub(super) readiness: Readiness,
    /// First failure, for a run without retries.
    pub(super) failed: mpsc::Sender<RunError>,
    pub(super) stop: CancellationToken,
}

#[derive(Deserialize)]
struct ConfigMap {
    data: Option<BTreeMap<String, String>>,
}

/// Rules in effect, and the cancellation of their pods' watches.
#[derive(Default)]
struct Held {
    set: u64,
    rules: Option<Vec<Rule>>,
    pods: CancellationToken,
}

/// Rules of a set whose pods are not followed now, by index, and why.
type LostRules = Arc<Mutex<BTreeMap<usize, String>>>;

impl Followers {
    pub(super) fn begin(self, needs: &Needs) {
        let held = Arc::new(Mutex::new(Held::default()));
        tokio::spawn(self.clone().nodes());
        match needs {
            Needs::Fixed(rules) => self.hold(&held, rules.clone()),
            Needs::Map(place) => drop(tokio::spawn(self.map(place.clone(), held))),
        }
    }

    async fn nodes(self) {
        let sink = |change: Change<Node>| {
            let event = match change {
                Change::All(nodes) => TaintEvent::Nodes(nodes),
                Change::Set(node) => TaintEvent::Node(node),
                Change::Removed(node) => TaintEvent::NodeGone(node.name),
                Change::Alive => return self.readiness.set_ready(Part::Nodes),
                Change::Lost(lost) => return self.lost(Part::Nodes, Watched::Nodes, lost),
            };
            self.controller.hear(event);
            self.readiness.set_ready(Part::Nodes);
        };
        self.following(Resource::nodes()).run(sink, &self.stop).await;
    }

    async fn map(self, place: NamespacedName, held: Arc<Mutex<Held>>) {
        let NamespacedName { namespace, name } = &place;
        // Of the content that was read last: an outage that is over has changed nothing about it.
        let mut mistake: Option<String> = None;
        let sink = |change: Change<ConfigMap>| {
            let map = match change.one() {
                One::Now(map) => map,
                One::Alive => {
                    return match &mistake {
                        None => self.readiness.set_ready(Part::Needs),
                        Some(why) => self.readiness.set_unready(Part::Needs, why),
                    };
                }
                One::Lost(lost) => return self.lost(Part::Needs, Watched::ConfigMap, lost),
            };
            let read = map.map(|map| rules::read(&map.data.unwrap_or_default()));
            let why = match read {
                Some(Ok(rules)) => {
                    mistake = None;
                    return self.hold(&held, rules);
                }
                Some(Err(error)) => RunError::Rules { place: place.clone(), error: Box::new(error) },
                None => RunError::NoMap(place.clone()),
            };
            tracing::error!(target: "taint", "{why}; what it said last holds, if anything");
            self.readiness.set_unready(Part::Needs, mistake.insert(why.to_string()).as_str());
            // Only the first one counts.
            let _ = self.failed.try_send(why);
        };
        self.following(Resource::config_map(namespace, name)).run(sink, &self.stop).await;
    }

    /// Replaces the rules.
    fn hold(&self, held: &Mutex<Held>, rules: Vec<Rule>) {
        self.readiness.set_ready(Part::Needs);
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.rules.as_ref() == Some(&rules) {
            return;
        }
        if rules.is_empty() {
            tracing::warn!(target: "taint", "no pod is needed by any node: every node that is ready loses the taint");
        }
        for rule in &rules {
            tracing::info!(target: "taint", rule = %rule, "each node needs a pod of this");
        }
        held.pods.cancel();
        *held = Held { set: held.set + 1, rules: Some(rules.clone()), pods: self.stop.child_token() };
        self.controller.hear(TaintEvent::Rules(held.set, rules.clone()));
        if rules.is_empty() {
            self.readiness.set_ready(Part::Pods);
        } else {
            self.readiness.set_unready(Part::Pods, "those of the new rules are not listed yet");
        }
        let lost = LostRules::default();
        for (place, rule) in rules.into_iter().enumerate() {
            let source = RuleRef { set: held.set, rule: place };
            tokio::spawn(self.clone().pods(source, rule, lost.clone(), held.pods.clone()));
        }
    }

    async fn pods(self, source: RuleRef, rule: Rule, rules: LostRules, stop: CancellationToken) {
        let sink = |change: Change<Pod>| {
            let event = match change {
                Change::All(pods) => TaintEvent::Pods(source, pods),
                Change::Set(pod) => TaintEvent::Pod(source, pod),
                Change::Removed(pod) => TaintEvent::PodGone(source, pod),
                Change::Alive => return self.known(source, &rules),
                Change::Lost(lost) => {
                    if let Some(error) = &lost.error {
                        let mut rules = rules.lock().unwrap_or_else(PoisonError::into_inner);
                        rules.insert(source.rule, error.to_string());
                    }
                    return self.lost(Part::Pods, Watched::Pods, lost);
                }
            };
            self.controller.hear(event);
            self.known(source, &rules);
        };
        let resource = Resource::pods(&rule.namespace, &rule.labels, &rule.fields);
        self.following(resource).run(sink, &stop).await;
    }

    fn known(&self, source: RuleRef, rules: &LostRules) {
        let mut lost = rules.lock().unwrap_or_else(PoisonError::into_inner);
        lost.remove(&source.rule);
        let state = self.controller.state();
        // The nodes are another part: whether they come before the pods or after them is chance.
        if let Some(why) = lost.values().next() {
            self.readiness.set_unready(Part::Pods, why);
        } else if state.knows_pods() {
            self.readiness.set_ready(Part::Pods);
        }
    }

    fn following(&self, resource: Resource) -> Following {
        Following::new(self.client.clone(), resource)
    }

    fn lost(&self, part: Part, watched: Watched, lost: Lost) {
        self.controller.metrics.watch_restarted(watched, lost.reason);
        if let Some(error) = lost.error {
            self.readiness.set_unready(part, error.to_string());
            let _ = self.failed.try_send(RunError::Follow { what: part.name(), error });
        }
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
