// SPDX-License-Identifier: Apache-2.0
//! Result of an action: what is counted and told of it, and when the pod is due again.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use super::pace::{after, after_conflict};
use super::right::Right;
use super::tracked::{Once, PATIENCE};
use super::{ActionResult, Busy, Controller, News, RepairAction, Step, Time};
use crate::metrics::{RepairResult, Unrepairable};
use crate::pods::NodePod;
use crate::repair::ask::{PodOutcome, Proven};
use crate::repair::detect::{Lifecycle, RepairScope};
use crate::settings::RepairPolicy;

impl Controller {
    pub(super) fn done(
        &mut self,
        uid: &str,
        done: ActionResult,
        (now, at): (Time, Timestamp),
        out: &mut Vec<RepairAction>,
    ) {
        let Some(busy) = self.busy.take_if(|busy| busy.is_about(uid)) else { return };
        if busy.step == Step::Verify {
            return self.verified(&busy, done, (now, at), out);
        }
        let Busy { pod, policy, step, since, seen } = busy;
        let took = now.saturating_sub(since);
        // A label changes nothing of its rules: what others ask for meanwhile is still to be done.
        if let Some(known) = self.pods.get_mut(uid).filter(|_| policy != RepairPolicy::Label) {
            known.due = None;
        }
        if done == ActionResult::Accepted {
            out.push(RepairAction::Ended(policy, RepairResult::Success, took));
            if policy == RepairPolicy::Label {
                self.labelled(uid, now);
                return out.push(RepairAction::Tell(pod, News::Labelled));
            }
            self.owners.deleted(&pod.metadata.controller, seen, now);
            let news = if step == Step::Evict { News::Evicted } else { News::Deleted };
            return out.push(RepairAction::Tell(pod, news));
        }
        let Some(known) = self.pods.get_mut(uid) else { return };
        let conflicts = std::mem::take(&mut known.conflicts);
        let failed = match done {
            ActionResult::Conflict(why) => match after_conflict(conflicts) {
                Some(wait) => {
                    (known.conflicts, known.due) = (conflicts + 1, Some(now + wait));
                    return;
                }
                None => (Unrepairable::RulesRefused, why),
            },
            ActionResult::Repaired(PodOutcome::Proven { written, backend, families, open }) => {
                let result = match families.iter().all(Proven::is_by_packet) && !open.bypass {
                    true => RepairResult::Success,
                    false => RepairResult::Unproven,
                };
                out.push(RepairAction::Ended(policy, result, took));
                known.repaired(written, result, proofs(&backend, &families, &open.text), out);
                known.right = Some(Right::new(at, known.broken.as_ref().map(|broken| &broken.run)));
                return;
            }
            ActionResult::Repaired(PodOutcome::Sandboxed(sandboxed)) => {
                out.push(RepairAction::Ended(policy, RepairResult::Fail, took));
                known.is_sandboxed(sandboxed, out);
                known.due = Some(now);
                return;
            }
            ActionResult::Repaired(PodOutcome::Overtaken(rules)) => {
                out.push(RepairAction::Ended(policy, RepairResult::Skip, took));
                return known.overtaken(rules, (now, at), out);
            }
            ActionResult::Accepted | ActionResult::Vanished => return,
            ActionResult::Held(why) => {
                out.push(RepairAction::Ended(policy, RepairResult::Skip, took));
                return known.held(why, now, out);
            }
            ActionResult::Repaired(outcome) => failure(&outcome),
            ActionResult::Failed(why) => (Unrepairable::RulesRefused, why),
        };
        out.push(RepairAction::Ended(policy, RepairResult::Fail, took));
        self.failed(uid, (policy, pod), failed, now, out);
    }

    /// Deletes, evicts or labels a pod after its rules were read, unless they are right: then its validation fails for another reason, and it is
    /// left alone. A pod whose rules cannot be read is acted on if its validation failed, and left alone if it runs.
    fn verified(
        &mut self,
        busy: &Busy,
        done: ActionResult,
        (now, at): (Time, Timestamp),
        out: &mut Vec<RepairAction>,
    ) {
        let settings = &self.rules.settings;
        let is_asked = [settings.policy, settings.fallback].contains(&Some(busy.policy));
        let Some(known) = self.pods.get_mut(&busy.pod.metadata.facts.uid) else { return };
        if !known.is_wanted(settings) {
            return;
        }
        if !is_asked {
            known.due = Some(now);
            return;
        }
        let (policy, since, seen) = (busy.policy, busy.since, busy.seen);
        match done {
            ActionResult::Repaired(PodOutcome::Proven { written, backend, families, .. }) => {
                out.push(RepairAction::Ended(policy, RepairResult::Skip, now.saturating_sub(since)));
                known.repaired(written, RepairResult::Skip, proofs(&backend, &families, ""), out);
                known.right = Some(Right::new(at, known.broken.as_ref().map(|broken| &broken.run)));
                return;
            }
            ActionResult::Repaired(PodOutcome::Sandboxed(sandboxed)) => {
                known.is_sandboxed(sandboxed, out);
                if policy == RepairPolicy::Delete {
                    known.due = Some(now);
                    return;
                }
            }
            ActionResult::Repaired(PodOutcome::Overtaken(rules)) => {
                out.push(RepairAction::Ended(policy, RepairResult::Skip, now.saturating_sub(since)));
                return known.overtaken(rules, (now, at), out);
            }
            ActionResult::Repaired(PodOutcome::Unredirected(_)) => {}
            _ if known.broken.is_some() => {}
            _ => {
                known.attempts += 1;
                known.due = Some(now + after(known.attempts));
                return;
            }
        }
        let pod = Arc::clone(&known.pod);
        let (action, step) = known.final_action(policy);
        if step == Step::Evict {
            self.evictions.take(now);
        }
        out.push(action);
        self.busy = Some(Busy { pod, policy, step, since, seen });
    }

    /// Counts a failure and tells of it: the action is tried again later, or the operator's fallback is taken.
    fn failed(
        &mut self,
        uid: &str,
        (policy, pod): (RepairPolicy, Arc<NodePod>),
        (reason, why): (Unrepairable, String),
        now: Time,
        out: &mut Vec<RepairAction>,
    ) {
        let Some(known) = self.pods.get_mut(uid) else { return };
        known.attempts += 1;
        known.failures += u32::from(policy == RepairPolicy::Repair);
        known.due = Some(now + after(known.attempts));
        if policy != RepairPolicy::Repair || known.failures == 1 {
            out.push(RepairAction::Tell(Arc::clone(&pod), News::Failed(policy, why.clone())));
        }
        if policy != RepairPolicy::Repair || known.failures < PATIENCE {
            return;
        }
        if !known.emitted.contains(&Once::KeepsFailing) {
            out.push(RepairAction::Unrepairable(reason));
            out.push(RepairAction::Tell(pod, News::Unrepairable(why, self.rules.settings.fallback)));
            known.emitted.push(Once::KeepsFailing);
        }
        if known.fallback(&self.rules.settings).is_some() {
            known.due = Some(now);
        }
    }

    /// A label as a fallback ends nothing where a repair may help.
    fn labelled(&mut self, uid: &str, now: Time) {
        if self.rules.settings.policy == Some(RepairPolicy::Repair)
            && let Some(known) = self.pods.get_mut(uid)
            && known.is_wanted(&self.rules.settings)
            && known.broken.as_ref().is_none_or(|broken| broken.lifecycle == Lifecycle::Again)
            && !matches!(known.scope, RepairScope::Impossible(_))
        {
            known.due = Some(now + after(known.attempts));
        }
    }
}

/// Back end, the proof of each family, and the report on open connections, if any.
fn proofs(backend: &str, families: &[Proven], open: &str) -> String {
    let families = families.iter().map(|one| format!("; {one}"));
    let open = (!open.is_empty()).then(|| format!("; {open}"));
    format!("back end {backend}{}", families.chain(open).collect::<String>())
}

/// Reason of a repair that was not verified.
fn failure(outcome: &PodOutcome) -> (Unrepairable, String) {
    match outcome {
        PodOutcome::NotFound(why) => (Unrepairable::NoNamespace, why.to_string()),
        PodOutcome::Unproven { why, .. } => {
            (Unrepairable::NotProven, format!("rules were written, and are not proven: {why}"))
        }
        PodOutcome::Failed(why) => (Unrepairable::RulesRefused, why.clone()),
        other => (Unrepairable::RulesRefused, format!("unexpected answer {other:?}")),
    }
}
