// SPDX-License-Identifier: Apache-2.0
//! The pods that are known, by namespace and name. What the watch tells is the truth about the node; what was asked for in between, for a
//! pod that the watch had not told of, is kept apart, for a while, and gives way to what the watch says.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::model::NodePod;
use crate::api::{Change, Following};
use crate::metrics::{Metrics, Watched};

/// TTL of a pod that was fetched by a GET.
const ASKED_LIFE: Duration = Duration::from_secs(600);

/// TTL once its sandbox is gone: the kubelet may make another one for it at once.
const DELETED_LIFE: Duration = Duration::from_secs(30);

/// Maximum number of pods fetched by a GET: a node has far fewer.
const ASKED_LIMIT: usize = 1024;

/// PodEvents that a slow reader may be behind before it has to look at everything.
const BEHIND_LIMIT: usize = 256;

/// Event of the cache.
#[derive(Debug, Clone)]
pub enum PodEvent {
    /// A pod was added or modified.
    Set(Arc<NodePod>),
    /// A pod was deleted.
    Removed(Arc<NodePod>),
    /// Resync: a list came in, or the receiver lagged.
    All,
}

/// Cache key: namespace and name, which has no `/` in it.
fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn key_of(pod: &NodePod) -> String {
    key(&pod.metadata.facts.namespace, &pod.metadata.facts.name)
}

struct Fetched {
    pod: Arc<NodePod>,
    until: Instant,
}

#[derive(Default)]
struct CacheState {
    watched: HashMap<String, Arc<NodePod>>,
    asked: HashMap<String, Fetched>,
    synced: bool,
    live: bool,
}

/// Pods of the node: cheap to clone, clones share the cache.
#[derive(Clone)]
pub struct Pods {
    state: Arc<Mutex<CacheState>>,
    events: broadcast::Sender<PodEvent>,
}

impl Default for Pods {
    fn default() -> Self {
        Self { state: Arc::default(), events: broadcast::Sender::new(BEHIND_LIMIT) }
    }
}

impl std::fmt::Debug for Pods {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pods").field("count", &self.lock().watched.len()).finish_non_exhaustive()
    }
}

impl Pods {
    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the cache up to date until cancelled.
    pub async fn follow(&self, following: Following, metrics: Metrics, cancel: CancellationToken) {
        let pods = self.clone();
        let sink = move |change| {
            if let Change::Lost(lost) = &change {
                metrics.watch_restarted(Watched::Pods, lost.reason);
            }
            pods.hear(change);
        };
        following.run(sink, &cancel).await;
    }

    /// Applies an event of the watch.
    pub fn hear(&self, change: Change<NodePod>) {
        let mut state = self.lock();
        state.live = !matches!(change, Change::Lost(_));
        let event = match change {
            Change::All(all) => {
                state.watched = all.into_iter().map(|pod| (key_of(&pod), Arc::new(pod))).collect();
                state.asked.clear();
                state.synced = true;
                PodEvent::All
            }
            Change::Set(pod) => {
                let (key, pod) = (key_of(&pod), Arc::new(pod));
                state.asked.remove(&key);
                state.watched.insert(key, Arc::clone(&pod));
                PodEvent::Set(pod)
            }
            Change::Removed(pod) => {
                let key = key_of(&pod);
                state.asked.remove(&key);
                state.watched.remove(&key);
                PodEvent::Removed(Arc::new(pod))
            }
            Change::Alive | Change::Lost(_) => return,
        };
        drop(state);
        // Nobody need listen.
        let _ = self.events.send(event);
    }

    /// The pod of that name and `uid`; an empty uid matches none.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str, uid: &str) -> Option<Arc<NodePod>> {
        let (key, state) = (key(namespace, name), self.lock());
        let fits = |pod: &&Arc<NodePod>| pod.metadata.facts.has_uid(uid);
        let asked =
            || state.asked.get(&key).filter(|asked| asked.until > Instant::now()).map(|asked| &asked.pod);
        state.watched.get(&key).filter(fits).or_else(|| asked().filter(fits)).cloned()
    }

    /// Caches a pod fetched by a GET, until the watch has it.
    pub fn keep(&self, pod: Arc<NodePod>) {
        let (now, mut state) = (Instant::now(), self.lock());
        if state.asked.len() >= ASKED_LIMIT {
            state.asked.retain(|_, asked| asked.until > now);
        }
        if state.asked.len() < ASKED_LIMIT {
            state.asked.insert(key_of(&pod), Fetched { pod, until: now + ASKED_LIFE });
        }
    }

    /// A pod's sandbox is gone. The pod may still be there, and get another one.
    pub fn sandbox_gone(&self, namespace: &str, name: &str) {
        if let Some(asked) = self.lock().asked.get_mut(&key(namespace, name)) {
            asked.until = asked.until.min(Instant::now() + DELETED_LIFE);
        }
    }

    /// All pods of the watch.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<NodePod>> {
        self.lock().watched.values().cloned().collect()
    }

    /// True if a list was completed and the watch is open.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let state = self.lock();
        state.synced && state.live
    }

    #[must_use]
    pub fn subscribe(&self) -> PodEvents {
        PodEvents(self.events.subscribe())
    }
}

/// A subscription. A reader that is too slow is told to look at everything, and never holds anybody up.
#[derive(Debug)]
pub struct PodEvents(broadcast::Receiver<PodEvent>);

impl PodEvents {
    /// Next event; `None` when the cache is dropped.
    pub async fn next(&mut self) -> Option<PodEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(_)) => Some(PodEvent::All),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, uid: &str) -> NodePod {
        serde_json::from_value(json!({"metadata": {"namespace": "shop", "name": name, "uid": uid}})).unwrap()
    }

    fn uid(pods: &Pods, name: &str, uid: &str) -> Option<String> {
        pods.find("shop", name, uid).map(|pod| pod.metadata.facts.uid.clone())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_found_by_name_and_uid() {
        let pods = Pods::default();
        pods.hear(Change::All(vec![pod("cart", "u-1")]));
        assert_eq!(uid(&pods, "cart", "u-1"), Some("u-1".to_owned()));
        assert_eq!(uid(&pods, "cart", ""), None, "it may be another pod's name by now");
        assert_eq!(uid(&pods, "cart", "u-2"), None);
        assert_eq!(uid(&pods, "till", "u-1"), None);
        assert!(pods.find("other", "cart", "u-1").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_static_pod_is_found_by_its_mirror_s_annotation() {
        let mirror = json!({"metadata": {"namespace": "kube-system", "name": "etcd", "uid": "u-1",
            "annotations": {"kubernetes.io/config.mirror": "m-1"}}});
        let pods = Pods::default();
        pods.hear(Change::Set(serde_json::from_value(mirror).unwrap()));
        assert!(pods.find("kube-system", "etcd", "m-1").is_some());
        assert!(pods.find("kube-system", "etcd", "m-2").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reused_name_is_another_pod() {
        let pods = Pods::default();
        pods.hear(Change::Set(pod("cart", "u-1")));
        pods.hear(Change::Set(pod("cart", "u-2")));
        assert_eq!(uid(&pods, "cart", "u-1"), None);
        assert_eq!(uid(&pods, "cart", "u-2"), Some("u-2".to_owned()));
        // Or it was asked for before the watch told of the old one's end.
        pods.keep(Arc::new(pod("cart", "u-3")));
        assert_eq!(uid(&pods, "cart", "u-3"), Some("u-3".to_owned()));
        assert_eq!(uid(&pods, "cart", "u-2"), Some("u-2".to_owned()));
        pods.hear(Change::Removed(pod("cart", "u-2")));
        assert_eq!(uid(&pods, "cart", ""), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_for_is_not_kept_for_ever() {
        let pods = Pods::default();
        pods.keep(Arc::new(pod("cart", "u-1")));
        pods.sandbox_gone("shop", "cart");
        assert!(uid(&pods, "cart", "u-1").is_some(), "the kubelet may try again at once");
        tokio::time::advance(DELETED_LIFE).await;
        assert!(uid(&pods, "cart", "u-1").is_none());
        for n in 0..ASKED_LIMIT * 2 {
            pods.keep(Arc::new(pod(&n.to_string(), "u")));
        }
        assert_eq!(pods.lock().asked.len(), ASKED_LIMIT);
        tokio::time::advance(ASKED_LIFE).await;
        assert!(uid(&pods, "1", "u").is_none());
        pods.keep(Arc::new(pod("cart", "u-1")));
        assert_eq!(pods.lock().asked.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_replaces_everything() {
        let pods = Pods::default();
        assert!(!pods.is_live());
        pods.hear(Change::Set(pod("cart", "u-1")));
        pods.keep(Arc::new(pod("till", "u-2")));
        pods.hear(Change::All(vec![pod("desk", "u-3")]));
        assert_eq!((uid(&pods, "cart", ""), uid(&pods, "till", "")), (None, None));
        assert_eq!(pods.all().len(), 1);
        assert!(pods.is_live());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_grows_old_and_stays() {
        let pods = Pods::default();
        pods.hear(Change::All(vec![pod("cart", "u-1")]));
        let lost =
            crate::api::Lost { reason: crate::metrics::RestartReason::Stalled, error: None, early: false };
        pods.hear(Change::Lost(lost));
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(!pods.is_live());
        assert!(uid(&pods, "cart", "u-1").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_told_to_look_at_everything() {
        let pods = Pods::default();
        let mut events = pods.subscribe();
        pods.hear(Change::Set(pod("cart", "u-1")));
        pods.hear(Change::Removed(pod("cart", "u-1")));
        assert!(matches!(events.next().await, Some(PodEvent::Set(_))));
        assert!(matches!(events.next().await, Some(PodEvent::Removed(_))));
        for _ in 0..=BEHIND_LIMIT {
            pods.hear(Change::Set(pod("cart", "u-1")));
        }
        assert!(matches!(events.next().await, Some(PodEvent::All)));
        assert!(matches!(events.next().await, Some(PodEvent::Set(_))));
        drop(pods);
        let mut last = 0;
        while events.next().await.is_some() {
            last += 1;
        }
        assert_eq!(last, BEHIND_LIMIT - 1);
    }
}
