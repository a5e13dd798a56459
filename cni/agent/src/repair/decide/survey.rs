// SPDX-License-Identifier: Apache-2.0
//! When the rules of a pod are read, whatever its validation says, and when it counts as unredirected: seen twice, so that a pod whose
//! sandbox is being set up is not told of.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::pace::after;
use super::{Controller, Enrolled, News, PodOutcome, RepairAction, RepairScope, Time, Tracked};
use crate::pods::NodePod;

/// Debounce: pods come in crowds; one process surveys all that came meanwhile.
const TOGETHER: Duration = Duration::from_millis(500);
/// Between the first look that finds no redirection and the one that counts.
const AGAIN: Duration = Duration::from_secs(2);
/// Interval between surveys of an unredirected pod.
const LATER: Duration = Duration::from_secs(60);
/// Pods per process.
const BATCH: usize = 32;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Right,
    Suspect,
    Unredirected,
    /// Rules of others take packets before ours: nothing that the agent does ends that.
    Overtaken,
    /// Redirected by rules that differ from the desired ones.
    Differs,
}

/// State of a pod's rules.
#[derive(Debug, Default)]
pub(super) struct Survey {
    seen: Seen,
    due: Option<Time>,
    attempts: u32,
    addresses: Vec<IpAddr>,
    /// A survey is in flight, at these addresses.
    asked: bool,
    /// The last one failed as a whole, maybe because of this pod: the next one is of it alone.
    suspected: bool,
}

/// Failed surveys before an event is emitted.
const PATIENCE: u32 = 5;

impl Survey {
    pub(super) fn is_unredirected(&self) -> bool {
        self.seen == Seen::Unredirected
    }

    /// True if traffic is known to bypass the proxy, whatever ends that.
    pub(super) fn is_bypassed(&self) -> bool {
        matches!(self.seen, Seen::Unredirected | Seen::Overtaken)
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn is_right(&mut self) {
        *self = Self { seen: Seen::Right, addresses: std::mem::take(&mut self.addresses), ..Self::default() };
    }

    /// Rules say nothing of this pod: it counts neither as redirected nor as unredirected.
    pub(super) fn is_unprovable(&mut self) {
        *self = Self { addresses: std::mem::take(&mut self.addresses), ..Self::default() };
    }

    /// A pod is looked at when it has an address, which it gets with its rules, and when that is another one.
    pub(super) fn observe(&mut self, pod: &NodePod, is_in_scope: bool, now: Time) {
        let addresses = pod.addresses();
        let lives = !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        if !is_in_scope || !lives || addresses.is_empty() {
            *self = Self::default();
        } else if self.addresses != addresses {
            *self = Self { addresses, due: Some(now + TOGETHER), ..Self::default() };
        }
    }

    fn ask(&mut self) {
        (self.due, self.asked) = (None, true);
    }

    /// Takes the outcome of a survey; returns an event. Whoever runs a guest in a pod writes rules for it long after ADD.
    pub(super) fn looked(&mut self, outcome: Option<PodOutcome>, has_guest: bool, now: Time) -> Option<News> {
        self.suspected = outcome.is_none();
        match outcome {
            Some(PodOutcome::Right) => {
                let was_told = self.is_bypassed() || self.seen == Seen::Differs || self.attempts >= PATIENCE;
                self.is_right();
                self.due = has_guest.then_some(now + LATER);
                was_told.then_some(News::Restored)
            }
            Some(PodOutcome::Unredirected(differences)) => {
                self.is_now(Seen::Unredirected, now).then(|| News::Unredirected(summary(&differences)))
            }
            Some(PodOutcome::Wrong(differences)) => {
                self.is_now(Seen::Differs, now).then(|| News::Differs(summary(&differences)))
            }
            Some(PodOutcome::Overtaken(rules)) => {
                let before = std::mem::replace(&mut self.seen, Seen::Overtaken);
                (self.due, self.attempts) = (Some(now + LATER), 0);
                (before != Seen::Overtaken).then(|| News::Overtaken(summary(&rules)))
            }
            other => {
                self.attempts += 1;
                self.due = Some(now + after(self.attempts));
                (self.attempts == PATIENCE).then(|| News::Unseen(reason(other)))
            }
        }
    }
}

impl Survey {
    /// Takes what is wrong; true if it is new, and was suspected before.
    fn is_now(&mut self, wrong: Seen, now: Time) -> bool {
        let before = self.seen;
        let (seen, wait) = match before {
            Seen::Nothing | Seen::Right | Seen::Overtaken => (Seen::Suspect, AGAIN),
            Seen::Suspect | Seen::Unredirected | Seen::Differs => (wrong, LATER),
        };
        (self.seen, self.due, self.attempts) = (seen, Some(now + wait), 0);
        seen != before && seen != Seen::Suspect
    }
}

fn summary(differences: &[String]) -> String {
    let first = differences.first().cloned().unwrap_or_default();
    match differences.len().saturating_sub(1) {
        0 => first,
        more => format!("{first} (and {more} more differences)"),
    }
}

/// Cause of a failed survey.
fn reason(outcome: Option<PodOutcome>) -> String {
    match outcome {
        Some(PodOutcome::NotFound(why)) => why.to_string(),
        Some(PodOutcome::Failed(why)) => why,
        Some(other) => format!("unexpected answer {other:?}"),
        None => "the process in the namespace did not answer; the agent's log says why".to_owned(),
    }
}

impl Controller {
    /// Surveys pods that are due, one batch at a time; suspected ones after the others, as each may take as long as a survey may.
    pub(super) fn look(&mut self, now: Time, out: &mut Vec<RepairAction>) {
        if self.looking {
            return;
        }
        let is_due = |known: &Tracked| known.survey.due.is_some_and(|due| due <= now);
        let suspected = self.pods.values().filter(|known| is_due(known)).all(|known| known.survey.suspected);
        let due = self.pods.values_mut().filter(|known| is_due(known) && known.survey.suspected == suspected);
        let pods: Vec<Enrolled> = due
            .filter_map(|known| {
                known.survey.ask();
                known.enrolled()
            })
            .take(if suspected { 1 } else { BATCH })
            .collect();
        if !pods.is_empty() {
            self.looking = true;
            out.push(RepairAction::Look(pods));
        }
    }

    pub(super) fn looked(
        &mut self,
        outcomes: Vec<(String, Option<PodOutcome>)>,
        now: Time,
        out: &mut Vec<RepairAction>,
    ) {
        self.looking = false;
        for (uid, outcome) in outcomes {
            let Some(known) = self.pods.get_mut(&uid) else { continue };
            // It has other addresses by now, or none: what was seen says nothing of what is there.
            if !std::mem::take(&mut known.survey.asked) {
                continue;
            }
            if let Some(PodOutcome::Sandboxed(sandboxed)) = outcome {
                known.is_sandboxed(sandboxed, out);
                continue;
            }
            let has_guest = matches!(&known.scope, RepairScope::In(redirect) if !redirect.virtual_interfaces.value.is_empty());
            let Some(news) = known.survey.looked(outcome, has_guest, now) else { continue };
            let acts = self.rules.settings.act_on_unredirected && known.broken.is_none();
            if acts && matches!(news, News::Unredirected(_)) {
                known.since = now;
                known.due = Some(now);
            }
            out.push(RepairAction::Tell(Arc::clone(&known.pod), news));
        }
    }
}
