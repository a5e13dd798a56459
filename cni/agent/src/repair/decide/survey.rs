// SPDX-License-Identifier: Apache-2.0
//! When the rules of a pod are read, whatever its validation says, and when it counts as unredirected: seen twice, so that a pod whose
//! sandbox is being set up is not told of.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::pace::after;
use super::{Action, Controller, News, Outcome, Time};
use crate::pods::NodePod;

/// Pods come in crowds; one process looks at all that came meanwhile.
const TOGETHER: Duration = Duration::from_millis(500);
/// Between the first look that finds no redirection and the one that counts.
const AGAIN: Duration = Duration::from_secs(2);
/// Between looks at an unredirected pod.
const LATER: Duration = Duration::from_secs(60);
/// How many pods one process looks at.
const BATCH: usize = 32;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Right,
    Suspect,
    Unredirected,
}

/// What is known of a pod's rules.
#[derive(Debug, Default)]
pub(super) struct Survey {
    seen: Seen,
    due: Option<Time>,
    attempts: u32,
    addresses: Vec<IpAddr>,
}

impl Survey {
    pub(super) fn is_unredirected(&self) -> bool {
        self.seen == Seen::Unredirected
    }

    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    pub(super) fn is_right(&mut self) {
        *self = Self { seen: Seen::Right, addresses: std::mem::take(&mut self.addresses), ..Self::default() };
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

    /// Takes a look's outcome in; the differences if the pod counts as unredirected from now on.
    fn looked(&mut self, outcome: Option<Outcome>, now: Time) -> Option<Vec<String>> {
        match outcome {
            Some(Outcome::Right) => self.is_right(),
            Some(Outcome::Wrong(differences)) => {
                let before = self.seen;
                let (seen, wait) = match before {
                    Seen::Nothing | Seen::Right => (Seen::Suspect, AGAIN),
                    Seen::Suspect | Seen::Unredirected => (Seen::Unredirected, LATER),
                };
                (self.seen, self.due, self.attempts) = (seen, Some(now + wait), 0);
                return (before == Seen::Suspect).then_some(differences);
            }
            Some(Outcome::NotEnrolled(_)) => self.due = None,
            _ => {
                self.attempts += 1;
                self.due = Some(now + after(self.attempts));
            }
        }
        None
    }
}

impl Controller {
    /// Looks at pods that are due, one batch at a time.
    pub(super) fn look(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.looking {
            return;
        }
        let due =
            self.pods.values_mut().filter(|known| known.survey.due.is_some_and(|due| due <= now)).take(BATCH);
        let pods: Vec<Arc<NodePod>> = due
            .map(|known| {
                known.survey.due = None;
                Arc::clone(&known.pod)
            })
            .collect();
        if !pods.is_empty() {
            self.looking = true;
            out.push(Action::Look(pods));
        }
    }

    pub(super) fn looked(
        &mut self,
        outcomes: Vec<(String, Option<Outcome>)>,
        now: Time,
        out: &mut Vec<Action>,
    ) {
        self.looking = false;
        for (uid, outcome) in outcomes {
            let Some(known) = self.pods.get_mut(&uid) else { continue };
            // It is another pod by now, or not one to look at.
            if known.survey.addresses.is_empty() {
                continue;
            }
            let Some(differences) = known.survey.looked(outcome, now) else { continue };
            let first = differences.first().cloned().unwrap_or_default();
            let more = differences.len().saturating_sub(1);
            let said = if more == 0 { first } else { format!("{first} (and {more} more differences)") };
            out.push(Action::Tell(Arc::clone(&known.pod), News::Unredirected(said)));
            if self.rules.settings.act_on_unredirected && known.broken.is_none() {
                known.since = now;
                known.due = Some(now);
            }
        }
    }
}
