// SPDX-License-Identifier: Apache-2.0
//! Repair controller: actions on pods and their timing; pure, the time is an argument. Pods are known by UID. One action runs at a time,
//! the pod that waits longest first, rate limited by [`Pace`]. Nothing is forgotten while a pod is broken: failures are retried with
//! exponential backoff; and as everything follows from what the API says of pods, a new agent comes to the same.

mod done;
mod news;
mod owners;
mod pace;
mod right;
mod survey;
#[cfg(test)]
mod tests;
mod tracked;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use redirect::Redirect;

use super::ask::PodOutcome;
use super::detect::{Lifecycle, RepairScope, Rules, detect, is_validated, scope};
use crate::metrics::{RepairResult, Unrepairable};
use crate::pods::NodePod;
use crate::settings::{RepairPolicy, RepairSettings};

pub use news::News;
use owners::{Owners, When};
pub use pace::Pace;
use pace::after;
use tracked::{Once, Tracked};

/// Time since the agent started.
pub type Time = Duration;

#[derive(Debug)]
pub enum RepairEvent {
    /// A pod was added or modified.
    Pod(Arc<NodePod>),
    /// The pod of this UID was deleted.
    Gone(String),
    /// The rules changed.
    Rules(Box<Rules>),
    /// Result of the action on the pod of this UID, at this time by the node's clock.
    Done(String, ActionResult, Timestamp),
    /// Results of a survey, by UID; `None` if it failed as a whole.
    Looked(Vec<(String, Option<PodOutcome>)>),
    Tick,
}

/// Result of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionResult {
    /// Outcome from the child process.
    Repaired(PodOutcome),
    /// The API server accepted the request.
    Accepted,
    /// The pod is gone, or replaced by another one.
    Vanished,
    /// The pod is there in another version than the one that was named.
    Conflict(String),
    /// No eviction now: a disruption budget forbids it, or it is another node's turn.
    Held(String),
    Failed(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum RepairAction {
    /// Writes a pod's rules; ends with [`RepairEvent::Done`], as those that follow.
    Repair(Enrolled),
    /// Verifies the rules of a pod that is to be deleted, evicted or labelled; ends with [`RepairEvent::Done`] and the action itself.
    Verify(Enrolled),
    Delete(Arc<NodePod>),
    /// Deletes a pod whose disruption budgets allow it.
    Evict(Arc<NodePod>),
    Label(Arc<NodePod>),
    /// Surveys the rules of these pods; ends with [`RepairEvent::Looked`].
    Look(Vec<Enrolled>),
    /// Emits an event on a pod.
    Tell(Arc<NodePod>, News),
    /// An action on a pod ended, so long after it was found broken.
    Ended(RepairPolicy, RepairResult, Duration),
    /// A pod that was found broken is proven to redirect, and was not before.
    Exposed(Arc<NodePod>),
    Unrepairable(Unrepairable),
    /// Number of unredirected pods.
    Unredirected(usize),
    /// Number of pods that run in a guest.
    Sandboxed(usize),
}

/// A pod, and the redirection that was decided for it when it was observed: whoever acts on it decides nothing again.
#[derive(Debug, Clone, PartialEq)]
pub struct Enrolled {
    pub pod: Arc<NodePod>,
    pub redirect: Arc<Redirect>,
}

/// Request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The rules are being verified; the action itself follows.
    Verify,
    Evict,
    Act,
}

/// Action in flight. It owns its pod: the watch may report a deletion before the API server answers.
#[derive(Debug)]
struct Busy {
    pod: Arc<NodePod>,
    policy: RepairPolicy,
    step: Step,
    since: Time,
    seen: Time,
}

impl Busy {
    fn is_about(&self, uid: &str) -> bool {
        self.pod.metadata.facts.uid == uid
    }
}

/// State of all pods.
#[derive(Debug)]
pub struct Controller {
    rules: Rules,
    pods: BTreeMap<String, Tracked>,
    busy: Option<Busy>,
    looking: bool,
    pace: Pace,
    /// Rate of evictions, in addition to `pace`.
    evictions: Pace,
    owners: Owners,
    unredirected: usize,
    sandboxed: usize,
}

/// Rate of evictions of a node's pods that run unredirected. Over the cluster agents take turns ([`super::turn`]).
const EVICTION_INTERVAL: Duration = Duration::from_secs(60);

impl Controller {
    #[must_use]
    pub fn new(rules: Rules, pace: Pace) -> Self {
        let (pods, owners) = (BTreeMap::new(), Owners::default());
        let evictions = Pace::new(EVICTION_INTERVAL, 1);
        let (unredirected, sandboxed) = (0, 0);
        Self { rules, pods, busy: None, looking: false, pace, evictions, owners, unredirected, sandboxed }
    }

    /// Processes an event; returns actions.
    pub fn decide(&mut self, event: RepairEvent, now: Time) -> Vec<RepairAction> {
        let mut out = Vec::new();
        match event {
            RepairEvent::Pod(pod) => self.observe(pod, now, &mut out),
            RepairEvent::Gone(uid) => {
                self.pods.remove(&uid);
            }
            RepairEvent::Rules(rules) => self.go_by(*rules, now, &mut out),
            RepairEvent::Done(uid, done, at) => self.done(&uid, done, (now, at), &mut out),
            RepairEvent::Looked(outcomes) => self.looked(outcomes, now, &mut out),
            RepairEvent::Tick => {}
        }
        self.start(now, &mut out);
        self.look(now, &mut out);
        let sandboxed = self.pods.values().filter(|known| known.sandbox.is_some()).count();
        if std::mem::replace(&mut self.sandboxed, sandboxed) != sandboxed {
            out.push(RepairAction::Sandboxed(sandboxed));
        }
        let unredirected = self.pods.values().filter(|known| known.survey.is_bypassed()).count();
        if std::mem::replace(&mut self.unredirected, unredirected) != unredirected {
            out.push(RepairAction::Unredirected(unredirected));
        }
        out
    }

    /// Deadline of the next [`RepairEvent::Tick`].
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        let due = self.pods.values().filter_map(|known| known.due).min().filter(|_| self.busy.is_none());
        let look = self.pods.values().filter_map(|known| known.survey.due()).min().filter(|_| !self.looking);
        due.map(|due| due.max(self.pace.next())).into_iter().chain(look).min()
    }

    /// Takes other rules. At the start they change several times, as the API server says what is allowed.
    fn go_by(&mut self, rules: Rules, now: Time, out: &mut Vec<RepairAction>) {
        let (new, old) = (&rules.settings, &self.rules.settings);
        let acts = |of: &RepairSettings| (of.policy, of.fallback, of.label.clone(), of.act_on_unredirected);
        let is_same = acts(new) == acts(old);
        self.rules = rules;
        for (uid, before) in std::mem::take(&mut self.pods) {
            // An emitted event is not repeated, and neither it nor the state of its rules depends on settings.
            let (emitted, seen, right, survey) = (before.emitted, before.seen, before.right, before.survey);
            let sandbox = before.sandbox;
            let kept = Tracked {
                emitted,
                seen,
                right,
                survey,
                sandbox,
                ..Tracked::new(Arc::clone(&before.pod), now)
            };
            self.pods.insert(uid.clone(), kept);
            self.observe(before.pod, now, out);
            let Some(known) = self.pods.get_mut(&uid) else { continue };
            let is_wanted = known.is_wanted(&self.rules.settings);
            // The action on it was correct, and is not repeated.
            if is_wanted && is_same && known.broken == before.broken {
                (known.since, known.due) = (before.since, before.due);
                (known.attempts, known.failures) = (before.attempts, before.failures);
            } else if is_wanted
                && (known.broken.is_none() || self.busy.as_ref().is_some_and(|busy| busy.is_about(&uid)))
            {
                // The action in flight was decided by the former rules.
                (known.since, known.due) = (now, Some(now));
            }
        }
    }

    fn observe(&mut self, pod: Arc<NodePod>, now: Time, out: &mut Vec<RepairAction>) {
        let uid = pod.metadata.facts.uid.clone();
        let scope = scope(&pod, &self.rules);
        let mut broken = if scope == RepairScope::Out { None } else { detect(&pod, &self.rules) };
        let known = self.pods.entry(uid.clone()).or_insert_with(|| Tracked::new(Arc::clone(&pod), now));
        let had_label = known.has_label(&self.rules.settings);
        known.pod = pod;
        known.survey.observe(&known.pod, matches!(scope, RepairScope::In(_)), now);
        known.scope = scope;
        known.name_shared_accounts(out);
        known.recognise_sandbox(out);
        if matches!(known.scope, RepairScope::Excluded(_)) && broken.take().is_some() {
            known.name_exclusion(out);
        }
        if broken.is_none() {
            if is_validated(&known.pod, &self.rules) {
                self.owners.came_up(known.owner(), known.seen);
            }
            known.broken = None;
            let is_wanted = known.is_wanted(&self.rules.settings);
            if !is_wanted {
                (known.attempts, known.failures, known.conflicts) = (0, 0, 0);
                known.due = None;
            }
            return;
        }
        if known.broken.is_none() {
            known.since = now;
        }
        let labels = self.rules.settings.policy == Some(RepairPolicy::Label);
        let is_busy = self.busy.as_ref().is_some_and(|busy| busy.is_about(&uid));
        if known.broken != broken {
            let is_done = known.failed_before(broken.as_ref());
            known.broken = broken;
            // Another failure after all that was done: not at once again, and no later than without it.
            let at = now + after(known.attempts);
            known.due = (!is_busy && !is_done).then(|| known.due.map_or(at, |due| due.min(at)));
        } else if labels && had_label && !known.has_label(&self.rules.settings) {
            // Somebody took it away.
            known.attempts += 1;
            known.due = Some(now + after(known.attempts));
        }
        if labels {
            self.count_skipped(&uid, out);
        }
    }

    /// A pod that has the label already is counted each time that it is seen, as upstream does.
    fn count_skipped(&mut self, uid: &str, out: &mut Vec<RepairAction>) {
        if let Some(known) = self.pods.get_mut(uid)
            && known.has_label(&self.rules.settings)
        {
            known.due = None;
            out.push(RepairAction::Ended(RepairPolicy::Label, RepairResult::Skip, Duration::ZERO));
        }
    }

    /// Starts the next action, if one is due.
    fn start(&mut self, now: Time, out: &mut Vec<RepairAction>) {
        while self.busy.is_none() {
            let waiting =
                self.pods.iter().filter_map(|(uid, known)| Some((known.due.filter(|due| *due <= now)?, uid)));
            let Some(uid) = waiting.min().map(|(_, uid)| uid.clone()) else { return };
            if !self.pace.allows(now) {
                return;
            }
            self.act(&uid, now, out);
        }
    }

    fn act(&mut self, uid: &str, now: Time, out: &mut Vec<RepairAction>) {
        let policy = self.rules.settings.policy;
        let Some(known) = self.pods.get_mut(uid) else { return };
        known.due = None;
        // A pod that came up while the last request was in flight is left alone, whatever became of that.
        if !known.is_wanted(&self.rules.settings) {
            return;
        }
        // Another pod in its place runs in a guest as well.
        if known.sandbox.is_some() && matches!(policy, Some(RepairPolicy::Repair | RepairPolicy::Delete)) {
            if !known.emitted.contains(&Once::Unrepairable) {
                known.emitted.push(Once::Unrepairable);
                out.push(RepairAction::Unrepairable(Unrepairable::Sandboxed));
            }
            return;
        }
        let lifecycle = known.broken.as_ref().map_or(Lifecycle::Again, |broken| broken.lifecycle);
        if let (Some(RepairPolicy::Repair), RepairScope::Impossible(why)) = (policy, &known.scope) {
            let why = why.clone();
            return self.give_up(uid, Unrepairable::InvalidPod, &why, now, out);
        }
        match (policy, lifecycle) {
            (None, _) => {
                if known.broken.is_some() && !known.emitted.contains(&Once::Broken) {
                    known.emitted.push(Once::Broken);
                    out.push(RepairAction::Tell(Arc::clone(&known.pod), News::Broken));
                }
            }
            (Some(RepairPolicy::Repair), Lifecycle::StartsOnce) => {
                let why = "its containers are started once only (restartPolicy: Never)";
                self.give_up(uid, Unrepairable::RestartPolicyNever, why, now, out);
            }
            (Some(RepairPolicy::Repair), Lifecycle::Finished) => {
                self.give_up(uid, Unrepairable::Finished, "it is over", now, out);
            }
            (Some(RepairPolicy::Repair), Lifecycle::Again) => {
                let policy = known.fallback(&self.rules.settings).unwrap_or(RepairPolicy::Repair);
                self.begin(policy, uid, now, out);
            }
            (Some(policy), _) => self.begin(policy, uid, now, out),
        }
    }

    fn begin(&mut self, policy: RepairPolicy, uid: &str, now: Time, out: &mut Vec<RepairAction>) {
        let Some(known) = self.pods.get_mut(uid) else { return };
        known.due = None;
        if policy == RepairPolicy::Label && known.has_label(&self.rules.settings) {
            return;
        }
        if policy == RepairPolicy::Delete
            && let When::Later { at, generations } = self.owners.when(known.owner(), known.seen, now)
        {
            known.spare(at, generations, now, out);
            return;
        }
        if policy == RepairPolicy::Delete && known.broken.is_none() && !self.evictions.allows(now) {
            known.due = Some(self.evictions.next());
            return;
        }
        let (action, step) = match (policy, known.enrolled()) {
            (RepairPolicy::Repair, Some(enrolled)) => (RepairAction::Repair(enrolled), Step::Act),
            // Nothing is due on a pod that is out of scope, and one that cannot be redirected is given up before.
            (RepairPolicy::Repair, None) => return,
            // After a conflict its rules were read a moment ago.
            (RepairPolicy::Delete | RepairPolicy::Label, Some(enrolled)) if known.conflicts == 0 => {
                (RepairAction::Verify(enrolled), Step::Verify)
            }
            // Without usable annotations there is nothing to compare with.
            (RepairPolicy::Delete | RepairPolicy::Label, _) => known.final_action(policy),
        };
        self.pace.take(now);
        let (pod, since, seen) = (Arc::clone(&known.pod), known.since, known.seen);
        self.busy = Some(Busy { pod, policy, step, since, seen });
        out.push(action);
    }

    /// Repair is no use: the owner is told once, and the operator's fallback is taken.
    fn give_up(
        &mut self,
        uid: &str,
        reason: Unrepairable,
        why: &str,
        now: Time,
        out: &mut Vec<RepairAction>,
    ) {
        let fallback = self.rules.settings.fallback;
        let Some(known) = self.pods.get_mut(uid) else { return };
        if !known.emitted.contains(&Once::Unrepairable) {
            known.emitted.push(Once::Unrepairable);
            out.push(RepairAction::Unrepairable(reason));
            out.push(RepairAction::Tell(
                Arc::clone(&known.pod),
                News::Unrepairable(why.to_owned(), fallback),
            ));
        }
        if let Some(policy @ (RepairPolicy::Delete | RepairPolicy::Label)) = fallback {
            self.begin(policy, uid, now, out);
        }
    }
}
