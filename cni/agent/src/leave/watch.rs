// SPDX-License-Identifier: Apache-2.0
//! Gathers answers while the agent runs, and asks at the end until they make a decision.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ask::{FIRST_WAIT, once, until_told};
use super::daemonset::{SlimSet, WatchedDaemonSet};
use super::decide::{
    DaemonSetAnswer, Decision, LeaveReason, Observations, TokenSigns, Watched, classify, decide,
};
use super::own::OwnFacts;
use crate::api::{Change, Client, Following, Resource};
use crate::metrics::{self, Metrics};
use crate::settings::OwnPod;
use crate::time::pause;

/// Budget for requests between the deletion of the agent's pod and SIGTERM.
const AT_DELETION: Duration = Duration::from_secs(10);
/// Budget at the end where the grace period is unknown.
const AT_END: Duration = Duration::from_secs(4);
/// Bounds of the budget at the end.
const AT_END_BOUNDS: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(20)];
/// From the end of its pod's grace period until a token may be over: less than that minute, as the deletion may have been heard of late.
const PODS_TOKEN: Duration = Duration::from_secs(45);
/// Part of the grace period reserved for the uninstall.
const RESERVE: Duration = Duration::from_secs(2);
/// Deadline of a request at the end.
const REQUEST: Duration = Duration::from_millis(1500);
/// Maximum backoff at the end.
const LAST_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Answers {
    start: Option<DaemonSetAnswer>,
    later: Vec<(Duration, DaemonSetAnswer)>,
    /// [`WatchedDaemonSet::successors`] when they came: answers about one that was deleted say nothing of its successor.
    successors: u32,
    /// Since when the agent's pod is being deleted.
    deleted: Option<Instant>,
}

/// Decides between uninstall and upgrade when the agent stops.
#[derive(Debug)]
pub struct Leave {
    client: Option<Client>,
    own: OwnPod,
    facts: watch::Receiver<OwnFacts>,
    seen: watch::Sender<WatchedDaemonSet>,
    answers: Mutex<Answers>,
    begin: Instant,
    /// SIGTERM was received.
    ends: CancellationToken,
}

impl Leave {
    /// Without a client nothing is asked. `facts` tell what becomes of the agent's pod.
    #[must_use]
    pub fn new(client: Option<Client>, own: OwnPod, facts: watch::Receiver<OwnFacts>) -> Self {
        Self {
            client,
            own,
            facts,
            seen: watch::Sender::default(),
            answers: Mutex::default(),
            begin: Instant::now(),
            ends: CancellationToken::new(),
        }
    }

    fn client(&self) -> Option<&Client> {
        self.client.as_ref().filter(|_| self.own.is_known())
    }

    /// Follows the DaemonSet until cancelled.
    pub async fn follow(&self, metrics: &Metrics, cancel: &CancellationToken) {
        let Some(client) = self.client() else { return };
        let following =
            Following::new(client.clone(), Resource::daemon_set(&self.own.namespace, &self.own.daemonset));
        let tell = |change: Change<SlimSet>| {
            if let Change::Lost(lost) = &change {
                metrics.watch_restarted(metrics::Watched::DaemonSet, lost.reason);
            }
            self.seen.send_if_modified(|held| {
                let before = held.clone();
                *held = before.clone().hear(change);
                *held != before
            });
        };
        following.run(tell, cancel).await;
    }

    /// Asks at the start until something is said, and again as soon as the agent's pod is being deleted.
    pub async fn watch(&self, cancel: CancellationToken) {
        let Some(client) = self.client() else { return };
        let mut facts = self.facts.clone();
        let asking = async {
            let start = async {
                let answer = until_told(client, &self.own).await;
                self.log_start(&answer);
                self.lock().start = Some(answer);
            };
            let deletion = async {
                if facts.wait_for(|facts| facts.deleting).await.is_ok() {
                    self.lock().deleted = Some(Instant::now());
                    let asked = self.ask(client, AT_DELETION);
                    if let Some(decision) = self.ends.run_until_cancelled(asked).await {
                        tracing::info!(target: "cni-agent", ?decision, "the agent's pod is being deleted; asked for the DaemonSet");
                    }
                }
            };
            tokio::join!(start, deletion);
        };
        cancel.run_until_cancelled(asking).await;
    }

    /// Keep or uninstall. Asks as long as the grace period allows, if there is no clear answer.
    pub async fn conclude(&self, always_uninstall: bool) -> Decision {
        self.ends.cancel();
        let grace = self.seen.borrow().grace;
        let decision = match self.client().filter(|_| !always_uninstall) {
            Some(client) => self.ask(client, budget(grace)).await,
            None => self.decide_unasked(always_uninstall),
        };
        let (what, reason) = match &decision {
            Decision::Keep(reason) => ("what is installed stays", reason),
            Decision::Uninstall(reason) => ("what is installed is removed", reason),
        };
        tracing::info!(target: "cni-agent", %reason, "{what}");
        decision
    }

    /// Asks until the answers suffice for a decision.
    async fn ask(&self, client: &Client, budget: Duration) -> Decision {
        let asked = Instant::now();
        let mut seen = self.seen.subscribe();
        let mut wait = FIRST_WAIT;
        loop {
            let limit = REQUEST.min(budget.saturating_sub(asked.elapsed()));
            let watched = seen.borrow_and_update().watched;
            self.forget_former();
            let mut answer = self.classified(once(client, &self.own, limit).await);
            let last = asked.elapsed() + wait >= budget;
            if overtaken(&answer, watched, self.seen.borrow().watched) {
                if !last {
                    continue;
                }
                answer = DaemonSetAnswer::Silent("its deletion was reported meanwhile".to_owned());
            }
            self.lock().later.push((self.begin.elapsed(), answer.clone()));
            let observed = Observations { asked_for: asked.elapsed(), last, ..self.observations() };
            if let Some(decision) = decide(&observed) {
                return decision;
            }
            tracing::debug!(target: "cni-agent", ?answer, watched = ?observed.watched, ?budget, "asking for the DaemonSet again");
            tokio::select! {
                () = pause(wait) => {}
                _changed = seen.changed() => {}
            }
            wait = (wait * 2).min(LAST_WAIT);
        }
    }

    /// A token ends with the pod that it is bound to: with its object, or a minute after its grace period (`claims.go` of Kubernetes'
    /// `pkg/serviceaccount`).
    fn classified(&self, answer: DaemonSetAnswer) -> DaemonSetAnswer {
        let WatchedDaemonSet { grace, cut, .. } = self.seen.borrow().clone();
        let limit = grace.unwrap_or_default() + PODS_TOKEN;
        let (gone, deleted) = (self.facts.borrow().gone, self.lock().deleted);
        let pod_over = gone || deleted.is_some_and(|since| since.elapsed() >= limit);
        match answer {
            DaemonSetAnswer::Unauthorized(token) => {
                DaemonSetAnswer::Unauthorized(classify(token, TokenSigns { cut, pod_over }))
            }
            other => other,
        }
    }

    fn decide_unasked(&self, always_uninstall: bool) -> Decision {
        let seen = Observations { last: true, always_uninstall, ..self.observations() };
        decide(&seen)
            .unwrap_or_else(|| Decision::Keep(LeaveReason::Silent("there is nobody to ask".to_owned())))
    }

    /// Drops the answers about a DaemonSet that another one has taken the place of since.
    fn forget_former(&self) {
        let successors = self.seen.borrow().successors;
        let mut answers = self.lock();
        if std::mem::replace(&mut answers.successors, successors) != successors {
            answers.later.clear();
        }
    }

    fn observations(&self) -> Observations {
        self.forget_former();
        let watched = self.seen.borrow().watched;
        let answers = self.lock();
        Observations {
            knows_itself: self.own.is_known(),
            start: answers.start.clone(),
            watched,
            answers: answers.later.clone(),
            ..Observations::default()
        }
    }

    fn log_start(&self, answer: &DaemonSetAnswer) {
        let (namespace, daemonset) = (&self.own.namespace, &self.own.daemonset);
        let reason = match answer {
            DaemonSetAnswer::Gone => LeaveReason::NeverThere,
            DaemonSetAnswer::Forbidden => LeaveReason::NeverAllowed,
            _ => {
                return tracing::debug!(target: "cni-agent", namespace, daemonset, ?answer, "asked for the DaemonSet");
            }
        };
        tracing::warn!(target: "cni-agent", namespace, daemonset, %reason, "the agent will uninstall whenever it stops");
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if the watch reported a deletion while the request was on its way, whose answer may be from before.
fn overtaken(answer: &DaemonSetAnswer, before: Watched, since: Watched) -> bool {
    let is_deletion = |watched| matches!(watched, Watched::Deleting | Watched::Gone);
    matches!(answer, DaemonSetAnswer::Wanted | DaemonSetAnswer::Unconfirmed)
        && before != since
        && is_deletion(since)
}

/// Budget at the end: the kubelet kills what outlives the grace period.
fn budget(grace: Option<Duration>) -> Duration {
    let [least, most] = AT_END_BOUNDS;
    grace.map_or(AT_END, |grace| grace.saturating_sub(RESERVE).clamp(least, most))
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
