// SPDX-License-Identifier: Apache-2.0
//! Hears what happens, asks [`super::decide`] what follows, and does it: at once, a few nodes at a time. What is heard is never queued.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::actions::{Retries, TaintChange};
use super::decide::{PatchOutcome, TaintAction, TaintEvent, TaintState};
use crate::api::Client;
use crate::events::Recorder;
use crate::metrics::{Lead, Metrics};

/// Concurrent patches of nodes: a cluster that starts as a whole is no reason to storm its API server.
const CONCURRENT_PATCHES: u32 = 8;

/// Taint controller: feeds events to the decision, and runs its actions.
#[derive(Debug)]
pub(super) struct TaintController {
    pub(super) state: Mutex<TaintState>,
    pub(super) client: Client,
    pub(super) metrics: Metrics,
    pub(super) recorder: Recorder,
    /// Taint's key.
    pub(super) key: String,
    /// Deadline of a request: it is over before another replica can lead.
    pub(super) limit: Duration,
    pub(super) start: Instant,
    /// End of our leadership; `None` if we do not lead.
    pub(super) until: Mutex<Option<Instant>>,
    pub(super) permits: Semaphore,
    /// Wakes the timer after a decision.
    pub(super) news: Notify,
}

impl TaintController {
    pub(super) fn new(
        state: TaintState,
        key: &str,
        client: Client,
        limit: Duration,
        (metrics, recorder): (Metrics, Recorder),
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(state),
            client,
            metrics,
            recorder,
            key: key.to_owned(),
            limit,
            start: Instant::now(),
            until: Mutex::new(None),
            permits: Semaphore::new(CONCURRENT_PATCHES as usize),
            news: Notify::new(),
        })
    }

    /// Processes an event, and starts the resulting actions.
    pub(super) fn hear(self: &Arc<Self>, event: TaintEvent) {
        let actions = {
            let mut state = self.state();
            let actions = state.decide(event, self.start.elapsed());
            self.metrics.tainted(state.tainted());
            actions
        };
        for action in actions {
            match action {
                TaintAction::Leave { node, why } => {
                    tracing::info!(target: "taint", node, taint = self.key, why, "the taint stays");
                }
                TaintAction::Patch { node, deed, patch, why } => {
                    let controller = Arc::clone(self);
                    let (taint, retries) = (self.key.clone(), Retries::Endless);
                    let change = TaintChange { node, taint, deed, patch, why, retries };
                    tokio::spawn(async move { controller.act(change).await });
                }
            }
        }
        self.news.notify_waiters();
    }

    /// Sets the end of our leadership.
    pub(super) fn lead(self: &Arc<Self>, until: Option<Instant>) {
        let former =
            std::mem::replace(&mut *self.until.lock().unwrap_or_else(PoisonError::into_inner), until);
        if former.is_some() == until.is_some() {
            return;
        }
        let lead = if until.is_some() { Lead::Ours } else { Lead::NotOurs };
        tracing::info!(target: "taint", "{}", if until.is_some() { "leading" } else { "not leading any more" });
        self.metrics.leads(lead);
        self.hear(TaintEvent::Lead(lead));
    }

    /// Sends ticks for timed decisions, until stopped.
    pub(super) async fn keep_time(self: Arc<Self>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let news = self.news.notified();
            let due = self.state().due(self.start.elapsed());
            let wait = due.map_or(Duration::MAX, |due| due.saturating_sub(self.start.elapsed()));
            let waited = stop.run_until_cancelled(timeout(wait, news)).await;
            if let Some(Err(_)) = waited {
                self.hear(TaintEvent::Tick);
            }
        }
    }

    /// Waits until nothing is in flight.
    pub(super) async fn rest(&self) {
        let _all = self.permits.acquire_many(CONCURRENT_PATCHES).await;
    }

    pub(super) fn state(&self) -> MutexGuard<'_, TaintState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_act(&self) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| Instant::now() < until)
    }

    async fn act(self: Arc<Self>, change: TaintChange) {
        let outcome = {
            let Ok(_permit) = self.permits.acquire().await else { return };
            if self.may_act() {
                change.make(&self.client, self.limit, &self.metrics, &self.recorder).await.outcome
            } else {
                PatchOutcome::Failed
            }
        };
        self.hear(TaintEvent::Ended(change.node, outcome));
    }
}
