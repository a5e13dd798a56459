// SPDX-License-Identifier: Apache-2.0
//! Nodes that get or lose the taint, and the backoff of retries. Pure: told what happened and the time, which only goes forward. Every
//! replica knows all of it, so that the next leader has seen what happened before; only the leader acts.

mod attempts;
mod event;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::life::{Began, NodeLife};
use super::model::{Node, Pod};
use super::rules::Rule;
use super::taints::{has, patch};
use crate::metrics::{Deed, Lead};
pub(super) use attempts::wait;
use attempts::{Attempts, Ending};
pub use event::{PatchOutcome, RuleRef, TaintAction, TaintEvent, TaintPolicy};
use standing::NodeReadiness;

#[derive(Debug)]
pub struct TaintState {
    policy: TaintPolicy,
    key: String,
    lead: Lead,
    nodes: Option<BTreeMap<String, Node>>,
    lives: BTreeMap<String, NodeLife>,
    attempts: BTreeMap<String, Attempts>,
    set: u64,
    rules: Vec<Rule>,
    /// Scheduled pods of each rule by node and UID, once all of them are known.
    pods: Vec<Option<BTreeMap<String, BTreeMap<String, Pod>>>>,
}

impl TaintState {
    /// Knows nothing yet, and does nothing until it knows everything: no node is tainted because its pods were not listed yet.
    #[must_use]
    pub fn new(policy: TaintPolicy, key: &str) -> Self {
        Self {
            policy,
            key: key.to_owned(),
            lead: Lead::NotOurs,
            nodes: None,
            lives: BTreeMap::new(),
            attempts: BTreeMap::new(),
            set: 0,
            rules: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// Processes an event; returns actions.
    pub fn decide(&mut self, event: TaintEvent, now: Duration) -> Vec<TaintAction> {
        let knew = self.knows_all();
        let touched = self.note(event, now);
        if !self.knows_all() {
            return Vec::new();
        }
        let nodes = match touched {
            Touched::Some(names) if knew => names,
            _ => self.names(),
        };
        self.keep_lives(&nodes, if knew { Began::Registered } else { Began::Unseen }, now);
        nodes.iter().filter_map(|name| self.act(name, now)).collect()
    }

    /// When time alone requires a decision, as seen at `now`.
    #[must_use]
    pub fn due(&self, now: Duration) -> Option<Duration> {
        let again = self.attempts.values().filter(|one| !one.busy).filter_map(|one| one.due);
        let settled = self.attempts.iter().filter(|(_, one)| one.reported.is_some());
        let settled = settled.filter_map(|(name, _)| self.lives.get(name)?.settles()).filter(|at| *at > now);
        again.chain(settled).filter(|due| *due < Duration::MAX).min()
    }

    /// True if nodes, rules and pods are listed.
    #[must_use]
    pub fn knows_all(&self) -> bool {
        self.nodes.is_some() && self.knows_pods()
    }

    /// True if rules and their pods are listed.
    #[must_use]
    pub fn knows_pods(&self) -> bool {
        self.set > 0 && self.pods.iter().all(Option::is_some)
    }

    /// True if nothing is in flight, and failures are no coincidence.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.attempts.values().all(Attempts::is_through)
    }

    /// Nodes whose change keeps failing.
    #[must_use]
    pub fn failing(&self) -> Vec<&str> {
        let failing = self.attempts.iter().filter(|(_, one)| one.failures > 0);
        failing.map(|(name, _)| name.as_str()).collect()
    }

    /// Number of tainted nodes.
    #[must_use]
    pub fn tainted(&self) -> usize {
        let nodes = self.nodes.iter().flat_map(BTreeMap::values);
        nodes.filter(|node| has(node.taints.as_deref(), &self.key)).count()
    }

    fn names(&self) -> BTreeSet<String> {
        self.nodes.iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    fn note(&mut self, event: TaintEvent, now: Duration) -> Touched {
        match event {
            TaintEvent::Nodes(nodes) => {
                self.nodes = Some(nodes.into_iter().map(|node| (node.name.clone(), node)).collect());
                let there = self.names();
                self.lives.retain(|name, _| there.contains(name));
                self.attempts.retain(|name, _| there.contains(name));
                self.attempts.values_mut().for_each(|one| one.told = true);
                Touched::All
            }
            TaintEvent::Node(node) => {
                self.attempts.entry(node.name.clone()).or_default().told = true;
                self.set_node(node)
            }
            TaintEvent::NodeGone(name) => self.drop_node(&name),
            TaintEvent::Rules(set, rules) => {
                (self.set, self.pods) = (set, rules.iter().map(|_| None).collect());
                self.rules = rules;
                Touched::All
            }
            TaintEvent::Pods(source, pods) => self.set_pods(source, pods),
            TaintEvent::Pod(source, pod) => self.set_pod(source, pod, Keep::Yes),
            TaintEvent::PodGone(source, pod) => self.set_pod(source, pod, Keep::No),
            TaintEvent::Lead(lead) => {
                self.lead = lead;
                self.attempts.clear();
                Touched::All
            }
            TaintEvent::Ended(name, outcome) => self.ended(name, outcome, now),
            TaintEvent::Tick => {
                let passed = |due: Option<Duration>| due.is_some_and(|due| due <= now);
                for one in self.attempts.values_mut().filter(|one| passed(one.due)) {
                    one.due = None;
                }
                Touched::All
            }
        }
    }

    fn set_node(&mut self, node: Node) -> Touched {
        let name = node.name.clone();
        if let Some(nodes) = &mut self.nodes {
            nodes.insert(name.clone(), node);
        }
        Touched::one(name)
    }

    /// Takes the node of a response, unless the watch has told of a later one meanwhile. Where versions cannot be compared, whatever the
    /// watch has told since the request counts: if that is the older one, the next patch does not hold, and reads the node.
    fn set_response(&mut self, node: Node) {
        let held = self.nodes.as_ref().and_then(|nodes| nodes.get(&node.name)).and_then(|held| held.version);
        let is_newest = match node.version.zip(held) {
            Some((answered, held)) => answered >= held,
            None => self.attempts.get(&node.name).is_none_or(|one| !one.told),
        };
        if is_newest {
            self.set_node(node);
        }
    }

    fn drop_node(&mut self, name: &str) -> Touched {
        self.nodes.iter_mut().for_each(|nodes| drop(nodes.remove(name)));
        self.lives.remove(name);
        self.attempts.remove(name);
        Touched::Some(BTreeSet::new())
    }

    fn set_pods(&mut self, RuleRef { set, rule }: RuleRef, pods: Vec<Pod>) -> Touched {
        if let Some(place) = self.pods.get_mut(rule).filter(|_| set == self.set) {
            let mut all: BTreeMap<String, BTreeMap<_, _>> = BTreeMap::new();
            pods.into_iter().filter(|pod| !pod.node.is_empty()).for_each(|pod| {
                all.entry(pod.node.clone()).or_default().insert(pod.uid.clone(), pod);
            });
            *place = Some(all);
        }
        Touched::All
    }

    fn set_pod(&mut self, RuleRef { set, rule }: RuleRef, pod: Pod, keep: Keep) -> Touched {
        let node = pod.node.clone();
        // Events name the node once it is scheduled, so nothing would remove it from here.
        if node.is_empty() {
            return Touched::Some(BTreeSet::new());
        }
        let place = self.pods.get_mut(rule).filter(|_| set == self.set);
        if let Some(all) = place.and_then(Option::as_mut) {
            let here = all.entry(node.clone()).or_default();
            match keep {
                Keep::Yes => drop(here.insert(pod.uid.clone(), pod)),
                Keep::No => drop(here.remove(&pod.uid)),
            }
            if here.is_empty() {
                all.remove(&node);
            }
        }
        Touched::one(node)
    }

    fn ended(&mut self, name: String, outcome: PatchOutcome, now: Duration) -> Touched {
        // The watch may have told meanwhile that it is gone.
        if self.nodes.as_ref().is_some_and(|nodes| !nodes.contains_key(&name)) {
            return self.drop_node(&name);
        }
        let how = match outcome {
            PatchOutcome::Gone => return self.drop_node(&name),
            PatchOutcome::Done(node) => {
                self.set_response(node);
                Ending::Well
            }
            PatchOutcome::Conflict(node) => {
                self.set_response(node);
                Ending::Badly
            }
            PatchOutcome::Failed => Ending::Badly,
        };
        self.attempts.entry(name.clone()).or_default().ended(how, now);
        Touched::one(name)
    }

    /// Nodes that are new, or have rebooted, begin a life.
    fn keep_lives(&mut self, names: &BTreeSet<String>, began: Began, now: Duration) {
        for name in names {
            let Some(node) = self.nodes.as_ref().and_then(|nodes| nodes.get(name)) else { continue };
            match self.lives.get_mut(name) {
                Some(life) if life.is_of(node) => life.see(node, now),
                former => {
                    let began = match former {
                        None => began,
                        Some(former) if former.is_on(node) => Began::Rebooted,
                        Some(_) => Began::Registered,
                    };
                    let here = self.pods.iter().flatten().filter_map(|all| all.get(name));
                    let life = NodeLife::new(node, began, here.flat_map(BTreeMap::values), now);
                    self.lives.insert(name.clone(), life);
                }
            }
        }
    }

    fn act(&mut self, name: &str, now: Duration) -> Option<TaintAction> {
        let node = self.nodes.as_ref()?.get(name)?;
        let tainted = has(node.taints.as_deref(), &self.key);
        let standing = self.standing(node, now);
        let deed = match (&standing, tainted, self.policy) {
            (NodeReadiness::Ready | NodeReadiness::Agentless(_), true, _) => Deed::Remove,
            (NodeReadiness::Unready(_), false, TaintPolicy::Both) => Deed::Add,
            _ => return self.leave(name, standing, tainted),
        };
        let attempts = self.attempts.entry(name.to_owned()).or_default();
        if self.lead != Lead::Ours || attempts.busy || attempts.due.is_some() {
            return None;
        }
        (attempts.busy, attempts.told, attempts.reported) = (true, false, None);
        let why = match standing {
            NodeReadiness::Ready => "everything that it needs is ready".to_owned(),
            NodeReadiness::Agentless(why) => format!("no agent ever runs there: {why}"),
            NodeReadiness::Unsure(why) | NodeReadiness::Unready(why) => why,
        };
        let patch = patch(node.taints.as_deref(), &self.key, deed);
        Some(TaintAction::Patch { node: name.to_owned(), deed, patch, why })
    }

    fn leave(&mut self, name: &str, standing: NodeReadiness, tainted: bool) -> Option<TaintAction> {
        let why = match standing {
            NodeReadiness::Unsure(why) | NodeReadiness::Unready(why) if tainted => Some(why),
            _ => None,
        };
        let attempts = self.attempts.entry(name.to_owned()).or_default();
        // Nothing left to retry.
        (attempts.failures, attempts.due) = (0, None);
        if self.lead != Lead::Ours || attempts.reported == why {
            return None;
        }
        attempts.reported.clone_from(&why);
        Some(TaintAction::Leave { node: name.to_owned(), why: why? })
    }
}

/// Nodes to decide on.
enum Touched {
    All,
    Some(BTreeSet<String>),
}

impl Touched {
    fn one(name: String) -> Self {
        Self::Some(BTreeSet::from([name]))
    }
}

/// Retention of a pod.
#[derive(Clone, Copy)]
enum Keep {
    Yes,
    No,
}
