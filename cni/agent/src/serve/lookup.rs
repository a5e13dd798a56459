// SPDX-License-Identifier: Apache-2.0
//! A pod's facts. From the cache if it is certain that the very pod is meant; else from the API server, once for all who ask for it at the
//! same time. What stays uncertain is unknown: the plugin then asks for itself, and fails closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::agent::PodKey;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::api::Client;
use crate::metrics::{AddPhase, AddResult, CacheResult, Metrics};
use crate::pods::{NodePod, Pods};
use crate::runtime::Runtime;

/// Deadline of an answer: the plugin waits for a second.
const LIMIT: Duration = Duration::from_millis(700);

/// Part of it that is left for what follows a request to the API server that has no answer.
const REST: Duration = Duration::from_millis(10);

/// The kubelet and we are told of a new pod at the same time. How long it may take to reach us before it is worth a request: on two cores that start
/// twenty pods at a time, 30 ms were too short for five of 110. A watch that is open and tells nothing costs each pod as much.
const HEAD_START: Duration = Duration::from_millis(150);

/// Requests to the API server at a time: as much as a server gives one client anyway.
const AT_A_TIME: usize = 8;

const NAME_LIMIT: usize = 253;

/// Result of a request.
#[derive(Debug, Clone)]
enum Outcome {
    /// The watch delivered it meanwhile.
    Watched(Arc<NodePod>),
    /// The API server returned it.
    Asked(Arc<NodePod>),
    /// No such pod, or another one of that name.
    Unknown,
    /// No answer.
    Failed,
}

#[derive(Debug, Clone)]
pub enum LookupResult {
    Found(Arc<NodePod>),
    /// No such pod, or another one of that name.
    Unknown,
    /// Unknown.
    Failed,
}

/// Request in flight.
type Flight = watch::Receiver<Option<Outcome>>;

type Which = (String, String, String);

/// Pod lookup: cheap to clone, clones share the state.
#[derive(Debug, Clone)]
pub struct Lookup(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pods: Pods,
    client: Option<Client>,
    metrics: Metrics,
    /// Told of each ADD.
    runtime: Option<Runtime>,
    turns: Semaphore,
    flights: Mutex<HashMap<Which, Flight>>,
}

impl Lookup {
    /// Over the cache, and an API server if there is one.
    #[must_use]
    pub fn new(pods: Pods, client: Option<Client>, metrics: Metrics) -> Self {
        let turns = Semaphore::new(AT_A_TIME);
        Self(Arc::new(Inner { pods, client, metrics, runtime: None, turns, flights: Mutex::default() }))
    }

    /// As [`Self::new`]; each ADD that asks is reported to the runtime's follower.
    #[must_use]
    pub fn reporting(pods: Pods, client: Option<Client>, metrics: Metrics, runtime: Runtime) -> Self {
        let (turns, runtime) = (Semaphore::new(AT_A_TIME), Some(runtime));
        Self(Arc::new(Inner { pods, client, metrics, runtime, turns, flights: Mutex::default() }))
    }

    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub async fn pod(&self, key: &PodKey) -> LookupResult {
        self.0.runtime.iter().for_each(|runtime| runtime.added(key));
        let known = self.0.pods.find(&key.namespace, &key.name, &key.uid);
        if let Some(pod) = known {
            self.0.metrics.cache(CacheResult::Hit);
            return LookupResult::Found(pod);
        }
        if !is_name(&key.namespace) || !is_name(&key.name) {
            return LookupResult::Failed;
        }
        // Neither cache nor an answer that others wait for already can be told from a deleted namesake's: the plugin reads it itself.
        if key.uid.is_empty() {
            return LookupResult::Unknown;
        }
        let (mut flight, joined) = self.flight(key);
        let outcome = match flight.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Outcome::Failed),
            Err(_) => Outcome::Failed,
        };
        self.0.metrics.cache(match &outcome {
            Outcome::Watched(_) => CacheResult::Hit,
            Outcome::Failed => CacheResult::Failed,
            _ if joined => CacheResult::Joined,
            _ => CacheResult::Miss,
        });
        match outcome {
            Outcome::Watched(pod) | Outcome::Asked(pod) => LookupResult::Found(pod),
            Outcome::Unknown => LookupResult::Unknown,
            Outcome::Failed => LookupResult::Failed,
        }
    }

    /// An ADD of this pod ended, says the plugin's log.
    pub fn logged(&self, pod: &(String, String)) {
        self.0.runtime.iter().for_each(|runtime| runtime.logged(pod.clone()));
    }

    pub fn deleted(&self, key: &PodKey) {
        self.0.pods.sandbox_gone(&key.namespace, &key.name);
    }

    /// The question on its way for this pod, and whether it was under way already. It ends even if nobody waits any more.
    fn flight(&self, key: &PodKey) -> (Flight, bool) {
        let which = (key.namespace.clone(), key.name.clone(), key.uid.clone());
        let mut flights = self.flights();
        if let Some(flight) = flights.get(&which) {
            return (flight.clone(), true);
        }
        let (done, flight) = watch::channel(None);
        flights.insert(which.clone(), flight.clone());
        let lookup = self.clone();
        tokio::spawn(async move {
            let asked = tokio::time::timeout(LIMIT, lookup.ask(&which)).await;
            lookup.flights().remove(&which);
            done.send_replace(Some(asked.unwrap_or(Outcome::Failed)));
        });
        (flight, false)
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Which, Flight>> {
        self.0.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, which: &Which) -> Outcome {
        let end = Instant::now() + LIMIT - REST;
        if let Some(pod) = self.watched(which).await {
            return Outcome::Watched(pod);
        }
        let Some(client) = &self.0.client else { return Outcome::Failed };
        let Ok(_turn) = self.0.turns.acquire().await else { return Outcome::Failed };
        // It may have come in while others had their turn.
        if let Some(pod) = self.cached(which) {
            return Outcome::Watched(pod);
        }
        let (namespace, name, uid) = which;
        let start = Instant::now();
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        let answer = client.get::<NodePod>(&path, end - start).await;
        let (outcome, result) = match answer {
            Ok(pod) if !is_meant(&pod, which) => (Outcome::Unknown, AddResult::Unknown),
            Ok(pod) => {
                let pod = Arc::new(pod);
                self.0.pods.keep(Arc::clone(&pod));
                (Outcome::Asked(pod), AddResult::Found)
            }
            Err(error) if error.is_gone(name) => (Outcome::Unknown, AddResult::Unknown),
            Err(error) => {
                tracing::warn!(target: "cni-agent", namespace, name, uid, "{error}");
                (Outcome::Failed, AddResult::Failed)
            }
        };
        self.0.metrics.add(AddPhase::Api, result, start.elapsed());
        outcome
    }

    fn cached(&self, (namespace, name, uid): &Which) -> Option<Arc<NodePod>> {
        self.0.pods.find(namespace, name, uid)
    }

    /// Waits briefly for the watch to deliver the pod.
    async fn watched(&self, which: &Which) -> Option<Arc<NodePod>> {
        let mut events = self.0.pods.subscribe();
        // It may have come in between the question and the subscription.
        if let Some(pod) = self.cached(which) {
            return Some(pod);
        }
        if !self.0.pods.is_live() {
            return None;
        }
        let arrival = async {
            loop {
                events.next().await?;
                if let Some(pod) = self.cached(which) {
                    return Some(pod);
                }
            }
        };
        tokio::time::timeout(HEAD_START, arrival).await.ok().flatten()
    }
}

/// True if the pod is the requested one.
fn is_meant(pod: &NodePod, (namespace, name, uid): &Which) -> bool {
    let facts = &pod.metadata.facts;
    facts.namespace == *namespace && facts.name == *name && facts.has_uid(uid)
}

/// True if `text` can be a pod's name or namespace: anything else would make another path.
fn is_name(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= NAME_LIMIT
        && text.bytes().all(fine)
}
