// SPDX-License-Identifier: Apache-2.0
//! The kubelet's look at its runtime's network, and what follows: the node's condition, and which pods are started. As `updateRuntimeUp` and
//! `SyncPod` of the real one.

use std::sync::Arc;
use std::time::Duration;

use apiserver::Timestamp;
use cluster::PodStart;

use crate::network::{Network, UNKNOWN, trouble};
use crate::node::NetnsNode;
use crate::options::scaled;
use crate::pod::Plan;
use crate::slot::{Parts, Slot, Stage};

/// Interval of a kubelet's look at its runtime's status.
const EVERY: Duration = scaled(5);

impl NetnsNode {
    /// Looks at the runtime's status now and then, and whenever it has lost its network, until aborted.
    pub async fn follow_network(self: Arc<Self>) {
        let mut due = tokio::time::interval(EVERY);
        let mut lost = self.chain.lost();
        loop {
            tokio::select! {
                _ = due.tick() => self.look_at_network().await,
                // The chain lives in `self`.
                Ok(()) = lost.changed() => self.lose_network().await,
            }
        }
    }

    /// Reports what a look at that moment would have seen, though the network may be there again.
    async fn lose_network(&self) {
        let trouble = trouble(&self.chain.without_network());
        if self.network.lock().learn(Some(trouble), Timestamp::now()) {
            let _ = self.report_conditions().await;
        }
    }

    /// Looks at the runtime's status, and reports what is new.
    pub(crate) async fn look_at_network(&self) {
        if self.learn_network().await {
            // Nothing is lost: the next change, or the next boot, reports it.
            let _ = self.report_conditions().await;
        }
    }

    /// As [`Self::look_at_network`], without a report; true if there is news.
    pub(crate) async fn learn_network(&self) -> bool {
        // A harness that cannot call its plugins says so when a pod starts.
        let Ok(ready) = self.chain.ready().await else { return false };
        let trouble = ready.err().map(|message| trouble(&message));
        self.network.lock().learn(trouble, Timestamp::now())
    }

    /// Forgets what is known, as a kubelet that starts.
    pub(crate) fn forget_network(&self) {
        let mut network = self.network.lock();
        network.learn(Some(UNKNOWN.to_owned()), Timestamp::now());
    }

    pub(crate) fn network(&self) -> Network {
        self.network.lock().clone()
    }

    /// Reason that a pod cannot be started now: it needs the pods' network, and that is not ready.
    pub(crate) async fn lacks_network(&self, plan: &Plan) -> Option<String> {
        if plan.host_network || self.network().trouble().is_none() {
            return None;
        }
        // The last look may be old, and a pod with one start has no second chance.
        self.look_at_network().await;
        self.network().trouble().map(str::to_owned)
    }

    /// Leaves a pod as it is, for want of a network.
    pub(crate) async fn hold_back(&self, slot: &Arc<Slot>, parts: &mut Parts, why: &str) -> PodStart {
        let message = format!("network is not ready: {why}");
        let is_news = !parts.lacks_network;
        parts.lacks_network = true;
        let start = PodStart::SandboxFailed { code: None, message: message.clone() };
        if parts.sandbox.is_none() {
            parts.start = Some(start.clone());
        }
        if is_news {
            self.tell(&slot.plan, "NetworkNotReady", &message).await;
            self.report(slot, parts).await;
        }
        if parts.sandbox.is_none() {
            slot.reach(Stage::Started(start.clone()));
        }
        start
    }
}
