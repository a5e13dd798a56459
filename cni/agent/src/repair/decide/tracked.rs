// SPDX-License-Identifier: Apache-2.0
//! State of one pod: what is known of its rules, what was emitted, when it is due.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use redirect::sandbox::{Sandboxed, by_class};

use super::owners;
use super::pace::after;
use super::right::Right;
use super::survey::Survey;
use super::{Enrolled, News, RepairAction, Step, Time};
use crate::metrics::RepairResult;
use crate::pods::NodePod;
use crate::repair::ask::{PodOutcome, Written};
use crate::repair::detect::{Broken, RepairScope};
use crate::settings::{RepairPolicy, RepairSettings};

/// Failures in a row before an event says that repair does not work, and the fallback is taken.
pub(super) const PATIENCE: u32 = 5;

/// Events emitted at most once a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Once {
    Broken,
    RightBefore,
    FailsOtherwise,
    /// Its kind cannot be repaired in place.
    Unrepairable,
    /// Its repair failed time and again.
    KeepsFailing,
    Spared,
    SharedAccount,
    /// Its eviction is not allowed now.
    Held,
}

/// State of a pod.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) pod: Arc<NodePod>,
    pub(super) broken: Option<Broken>,
    pub(super) scope: RepairScope,
    pub(super) since: Time,
    /// When something is to be done; none if nothing is, or it is being done.
    pub(super) due: Option<Time>,
    pub(super) attempts: u32,
    /// Failures of the repair in place in a row.
    pub(super) failures: u32,
    /// Conflicts since the last failure.
    pub(super) conflicts: u32,
    pub(super) emitted: Vec<Once>,
    pub(super) survey: Survey,
    pub(super) seen: Time,
    /// Since when its rules are known to be correct.
    pub(super) right: Option<Right>,
    /// The guest that it runs in.
    pub(super) sandbox: Option<Sandboxed>,
}

impl Tracked {
    pub(super) fn new(pod: Arc<NodePod>, now: Time) -> Self {
        Self {
            pod,
            broken: None,
            scope: RepairScope::Out,
            since: now,
            due: None,
            attempts: 0,
            failures: 0,
            conflicts: 0,
            emitted: Vec::new(),
            survey: Survey::default(),
            seen: now,
            right: None,
            sandbox: None,
        }
    }

    /// True if there is something to be done about it.
    pub(super) fn is_wanted(&self, settings: &RepairSettings) -> bool {
        self.broken.is_some() || (settings.act_on_unredirected && self.survey.is_unredirected())
    }

    /// With its redirection, if it is to be redirected.
    pub(super) fn enrolled(&self) -> Option<Enrolled> {
        match &self.scope {
            RepairScope::In(redirect) => {
                Some(Enrolled { pod: Arc::clone(&self.pod), redirect: Arc::clone(redirect) })
            }
            RepairScope::Out | RepairScope::Excluded(_) | RepairScope::Impossible(_) => None,
        }
    }

    /// Its validation fails, and nobody is going to write rules.
    pub(super) fn name_exclusion(&mut self, out: &mut Vec<RepairAction>) {
        if let RepairScope::Excluded(why) = &self.scope
            && !self.emitted.contains(&Once::Unrepairable)
        {
            self.emitted.push(Once::Unrepairable);
            out.push(RepairAction::Tell(Arc::clone(&self.pod), News::Excluded(why.clone())));
        }
    }

    /// It runs in a guest: its rules prove nothing, and neither writing them nor another pod in its place helps.
    pub(super) fn is_sandboxed(&mut self, sandboxed: Sandboxed, out: &mut Vec<RepairAction>) {
        self.survey.is_unprovable();
        if self.sandbox.is_none() {
            out.push(RepairAction::Tell(Arc::clone(&self.pod), News::Sandboxed(sandboxed.clone())));
        }
        self.sandbox = Some(sandboxed);
    }

    /// Its rules are right, and foreign ones take packets before them: neither writing ours again nor another pod in its place helps.
    pub(super) fn overtaken(
        &mut self,
        rules: Vec<String>,
        (now, at): (Time, Timestamp),
        out: &mut Vec<RepairAction>,
    ) {
        if let Some(news) = self.survey.looked(Some(PodOutcome::Overtaken(rules)), false, now) {
            out.push(RepairAction::Tell(Arc::clone(&self.pod), news));
        }
        self.right = Some(Right::new(at, self.broken.as_ref().map(|broken| &broken.run)));
        self.attempts += 1;
        self.failures = 0;
    }

    /// Recognises a guest by the pod's RuntimeClass.
    pub(super) fn recognise_sandbox(&mut self, out: &mut Vec<RepairAction>) {
        let RepairScope::In(redirect) = &self.scope else { return };
        if self.sandbox.is_none()
            && let Some(sandboxed) = by_class(redirect.runtime_class.as_deref())
        {
            self.is_sandboxed(sandboxed, out);
        }
    }

    /// Emits an event once if rules cannot tell the application's traffic from the proxy's.
    pub(super) fn name_shared_accounts(&mut self, out: &mut Vec<RepairAction>) {
        let RepairScope::In(redirect) = &self.scope else { return };
        if redirect.shared.is_empty() || self.emitted.contains(&Once::SharedAccount) {
            return;
        }
        let said: Vec<String> = redirect.shared.iter().map(ToString::to_string).collect();
        self.emitted.push(Once::SharedAccount);
        out.push(RepairAction::Tell(Arc::clone(&self.pod), News::SharedAccount(said.join("; "))));
    }

    /// The label, or the deletion: a pod that runs is evicted.
    pub(super) fn final_action(&self, policy: RepairPolicy) -> (RepairAction, Step) {
        let pod = Arc::clone(&self.pod);
        match policy {
            RepairPolicy::Label => (RepairAction::Label(pod), Step::Act),
            _ if self.broken.is_none() => (RepairAction::Evict(pod), Step::Evict),
            _ => (RepairAction::Delete(pod), Step::Act),
        }
    }

    pub(super) fn has_label(&self, settings: &RepairSettings) -> bool {
        self.pod.metadata.facts.labels.contains_key(&settings.label.0)
    }

    /// The operator's fallback, if the repair in place keeps failing. One that has the label goes on being repaired.
    pub(super) fn fallback(&self, settings: &RepairSettings) -> Option<RepairPolicy> {
        let is_left = |policy: &RepairPolicy| *policy != RepairPolicy::Label || !self.has_label(settings);
        settings.fallback.filter(is_left).filter(|_| self.failures >= PATIENCE)
    }

    pub(super) fn owner(&self) -> &str {
        &self.pod.metadata.controller
    }

    /// True if its validation failed in a run that may have begun before its rules were correct.
    pub(super) fn failed_before(&self, broken: Option<&Broken>) -> bool {
        let run = broken.map(|broken| &broken.run);
        matches!((self.right, run), (Some(right), Some(run)) if right.may_come_after(run))
    }

    /// It is not deleted before `at`; its owner hears of it once that is no short time any more.
    pub(super) fn spare(&mut self, at: Time, generations: u32, now: Time, out: &mut Vec<RepairAction>) {
        self.due = Some(at);
        if generations >= owners::PATIENCE && !self.emitted.contains(&Once::Spared) {
            self.emitted.push(Once::Spared);
            let news = News::Spared(generations, at.saturating_sub(now));
            out.push(RepairAction::Tell(Arc::clone(&self.pod), news));
        }
    }

    /// Its eviction is not allowed now; it is tried again.
    pub(super) fn held(&mut self, why: String, now: Time, out: &mut Vec<RepairAction>) {
        self.attempts += 1;
        self.due = Some(now + after(self.attempts));
        if !self.emitted.contains(&Once::Held) {
            self.emitted.push(Once::Held);
            out.push(RepairAction::Tell(Arc::clone(&self.pod), News::EvictionHeld(why)));
        }
    }

    pub(super) fn repaired(
        &mut self,
        written: Written,
        result: RepairResult,
        proofs: String,
        out: &mut Vec<RepairAction>,
    ) {
        let once = match self.right {
            // The run that led here began afterwards.
            Some(_) => Once::FailsOtherwise,
            None => Once::RightBefore,
        };
        let mut tell = |news| out.push(RepairAction::Tell(Arc::clone(&self.pod), news));
        match written {
            Written::Created | Written::Replaced if result == RepairResult::Success => {
                tell(News::Repaired(proofs));
                out.push(RepairAction::Exposed(Arc::clone(&self.pod)));
            }
            Written::Created | Written::Replaced => tell(News::Unproven(proofs)),
            Written::Unchanged if self.emitted.contains(&once) => {}
            Written::Unchanged => {
                let says = if once == Once::RightBefore { News::RightBefore } else { News::FailsOtherwise };
                tell(says(proofs));
                self.emitted.push(once);
            }
        }
        self.survey.is_right();
        // Should validation fail once more, the next repair comes later.
        self.attempts += 1;
        self.failures = 0;
        // And failures after this one are new.
        self.emitted.retain(|once| *once != Once::KeepsFailing);
    }
}
