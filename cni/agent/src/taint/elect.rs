// SPDX-License-Identifier: Apache-2.0
//! Tries for the lease and keeps it. What to write is decided in [`super::lease`].

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::lease::{Election, LeaseWrite, Timing};
use super::options::NamespacedName;
use crate::api::{ApiError, Client, LeaseAt, REQUEST_LIMIT};

/// Deadline of releasing the lease: the process is about to end.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);

/// Candidate.
#[derive(Debug)]
pub(super) struct Elector {
    lease: LeaseAt,
    election: Election,
    timing: Timing,
    start: Instant,
    until: watch::Sender<Option<Instant>>,
    /// Last reported failure: reported once.
    logged: Option<String>,
}

impl Elector {
    /// A candidate, and the end of its leadership, if it leads.
    pub(super) fn new(
        client: Client,
        place: NamespacedName,
        identity: &str,
        timing: Timing,
    ) -> (Self, watch::Receiver<Option<Instant>>) {
        let (until, leads) = watch::channel(None);
        let election = Election::new(identity, timing);
        let lease = LeaseAt::new(client, place.namespace, place.name);
        (Self { lease, election, timing, start: Instant::now(), until, logged: None }, leads)
    }

    /// Runs until `resign`; then releases the lease.
    pub(super) async fn run(mut self, resign: CancellationToken) {
        loop {
            let outcome = self.step().await;
            self.tell(outcome.err());
            self.publish();
            if timeout(self.timing.retry, resign.cancelled()).await.is_ok() {
                break;
            }
        }
        match timeout(RELEASE_LIMIT, self.release()).await {
            Ok(Err(error)) => {
                tracing::warn!(target: "taint", "failed to give the lease back: {error}")
            }
            Ok(Ok(())) => {}
            Err(_) => tracing::warn!(target: "taint", "failed to give the lease back in time"),
        }
    }

    async fn step(&mut self) -> Result<(), ApiError> {
        let began = self.start.elapsed();
        let lease = self.lease.read(self.limit()).await?;
        let write =
            self.election.decide(lease.as_ref(), &self.lease.name, self.start.elapsed(), Timestamp::now());
        let written = match write {
            LeaseWrite::Nothing => return Ok(()),
            LeaseWrite::Create(lease) => self.lease.create(&lease, self.limit()).await,
            LeaseWrite::Replace(lease) => self.lease.replace(&lease, self.limit()).await,
        };
        match written {
            Ok(()) => self.election.written(began),
            // Another candidate was first, which is no failure.
            Err(ApiError::Conflict(_)) => self.election.beaten(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Deadline of a request: within what a leader that cannot renew has left.
    fn limit(&self) -> Duration {
        REQUEST_LIMIT.min(self.timing.renew)
    }

    async fn release(&mut self) -> Result<(), ApiError> {
        if self.election.until().is_none() {
            return Ok(());
        }
        let lease = self.lease.read(self.limit()).await?;
        match lease.and_then(|lease| self.election.release(&lease, Timestamp::now())) {
            Some(free) => self.lease.replace(&free, self.limit()).await,
            None => Ok(()),
        }
    }

    fn publish(&self) {
        let until = self.election.until().map(|until| self.start + until);
        self.until.send_if_modified(|held| std::mem::replace(held, until) != until);
    }

    fn tell(&mut self, error: Option<ApiError>) {
        let text = error.map(|error| error.to_string());
        if let Some(text) = text.as_ref().filter(|text| self.logged.as_ref() != Some(text)) {
            let LeaseAt { namespace, name, .. } = &self.lease;
            tracing::warn!(target: "taint", lease = format!("{namespace}/{name}"), "failed to keep or take the lease: {text}");
        }
        self.logged = text;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::testing::{Script, Scripted};

    fn elector(script: &Script) -> (Elector, watch::Receiver<Option<Instant>>) {
        let place = NamespacedName { namespace: "mesh".to_owned(), name: "lock".to_owned() };
        Elector::new(script.client(), place, "me", Timing::default())
    }

    fn lease(holder: &str) -> Scripted {
        Scripted::new(
            200,
            format!(r#"{{"metadata": {{"name": "lock"}}, "spec": {{"holderIdentity": "{holder}"}}}}"#),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_cannot_renew_leads_until_its_time_is_up_and_no_longer() {
        let script = Script::new([
            Scripted::new(404, ""),
            lease("me"),
            Scripted::new(500, ""),
            Scripted::new(403, ""),
        ]);
        let (elector, mut leads) = elector(&script);
        let (begin, resign) = (Instant::now(), CancellationToken::new());
        let task = tokio::spawn(elector.run(resign.clone()));
        leads.changed().await.unwrap();
        assert_eq!(*leads.borrow_and_update(), Some(begin + Timing::default().renew));
        while script.asked().len() < 4 {
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert!(!leads.has_changed().unwrap(), "its time is not longer, and not shorter");
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_resigns_gives_the_lease_back() {
        let script = Script::new([Scripted::new(404, ""), lease("me"), lease("me"), lease("")]);
        let (elector, mut leads) = elector(&script);
        let resign = CancellationToken::new();
        let task = tokio::spawn(elector.run(resign.clone()));
        leads.changed().await.unwrap();
        resign.cancel();
        task.await.unwrap();
        let path = "/apis/coordination.k8s.io/v1/namespaces/mesh/leases";
        let named = format!("{path}/lock");
        assert_eq!(script.asked(), [&named, path, &named, &named]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_means_that_another_one_leads() {
        let script = Script::new([Scripted::new(404, ""), Scripted::new(409, "")]);
        let (elector, leads) = elector(&script);
        let task = tokio::spawn(elector.run(CancellationToken::new()));
        while script.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        assert_eq!(*leads.borrow(), None);
        task.abort();
    }
}
