// SPDX-License-Identifier: Apache-2.0
//! State shared by all handles, clients and connections of one API server, under one lock, with its log and the waiters for a change.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use listen::Arrivals;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::ServerOptions;
use crate::access::Access;
use crate::kubelets::Kubelets;
use crate::log::Logged;
use crate::network::Network;
use crate::reads::Gates;
use crate::store::Store;

/// Clock.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// State under one lock.
pub(crate) struct ServerState {
    pub(crate) store: Store,
    pub(crate) access: Access,
    pub(crate) gates: Gates,
}

/// Shared by all handles, clients and connections of one API server.
pub(crate) struct Shared {
    state: Mutex<ServerState>,
    pub(crate) log: Arrivals<Logged>,
    revision: watch::Sender<u64>,
    clock: Clock,
    /// Milliseconds that it is ahead of that clock.
    ahead: AtomicI64,
    /// Number of restarts, each of which ends the watches that are open.
    restarts: AtomicU64,
    bookmark_every: Duration,
    deletion_lag: Duration,
    kubelets: OnceLock<Arc<dyn Kubelets>>,
    network: OnceLock<Arc<dyn Network>>,
}

impl Shared {
    pub(crate) fn new(state: ServerState, options: ServerOptions) -> Self {
        Self {
            revision: watch::Sender::new(state.store.revision()),
            state: Mutex::new(state),
            log: Arrivals::default(),
            clock: options.clock,
            ahead: AtomicI64::new(0),
            restarts: AtomicU64::new(0),
            bookmark_every: options.bookmark_every,
            deletion_lag: options.deletion_lag,
            kubelets: OnceLock::new(),
            network: OnceLock::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock()
    }

    pub(crate) fn bookmark_every(&self) -> Duration {
        self.bookmark_every
    }

    pub(crate) fn kubelets(&self) -> &OnceLock<Arc<dyn Kubelets>> {
        &self.kubelets
    }

    pub(crate) fn network(&self) -> &OnceLock<Arc<dyn Network>> {
        &self.network
    }

    pub(crate) fn deletion_lag(&self) -> Duration {
        self.deletion_lag
    }

    /// Newest resource version, for those who wait for the next.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Number of restarts: a watch from before one ends.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Ends all open watches.
    pub(crate) fn end_watches(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        self.revision.send_modify(|_| {});
    }

    /// Changes the state, then wakes its waiters.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut ServerState, Timestamp) -> T) -> T {
        let now = self.now();
        let mut state = self.lock();
        let result = change(&mut state, now);
        let newest = state.store.revision();
        drop(state);
        self.revision.send_if_modified(|revision| {
            let moved = newest > *revision;
            *revision = newest.max(*revision);
            moved
        });
        result
    }

    pub(crate) fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed));
        (self.clock)().saturating_add(ahead).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn set_ahead(&self, ahead: SignedDuration) {
        let millis = i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX);
        self.ahead.store(millis, Ordering::Relaxed);
    }
}
