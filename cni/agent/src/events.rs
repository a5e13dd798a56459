// SPDX-License-Identifier: Apache-2.0
//! Kubernetes events. Whoever has something to say hands it to a [`Recorder`] and goes on: the queue is bounded, and what does not fit, or
//! what the API server does not take, is counted and dropped. That is safe, as an event only tells what metrics, the log and the next
//! survey tell as well. Equal events become one that counts, so that a crash loop is one object and a write now and then.

mod aggregator;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::label::label;
use crate::metrics::Metrics;
use crate::time::pause;
use aggregator::{AggregatedEvent, Aggregator, PendingWrite};

/// Capacity of the queue to the API server. A survey after a start can find each of a node's pods broken.
const QUEUE: usize = 256;
/// Deadline of one write.
const WRITE_LIMIT: Duration = Duration::from_secs(10);
/// Deadline of the last writes when a process ends.
const LAST_LIMIT: Duration = Duration::from_secs(3);
/// Waits between tries of one write. Four tries in all; then the next event has its turn.
const WAITS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(16)];

label! {
    /// Reason of an event (`REASON` in `kubectl get events`).
    EventReason {
        /// A broken pod was deleted; upstream's.
        DeleteBrokenPod = "DeleteBrokenPod",
        /// A broken pod could not be deleted. Upstream's name for it is the same; counted apart, so that what came of it is told at once.
        DeleteFailed = "DeleteBrokenPod",
        /// A broken pod is not deleted yet, since those before it were deleted in vain.
        DeletionDelayed = "DeletionDelayed",
        /// A broken pod was labelled; upstream's.
        LabelBrokenPod = "LabelBrokenPod",
        /// A broken pod could not be labelled; named and counted as a deletion that failed.
        LabelFailed = "LabelBrokenPod",
        /// A broken pod's rules were written and a probe saw them redirect.
        RepairedBrokenPod = "RepairedBrokenPod",
        /// A broken pod's rules were written and read back, and no packet could be sent that proves all of them.
        RepairUnproven = "RepairUnproven",
        /// A broken pod is redirected as it should be, and was before the agent came to it.
        AlreadyRedirected = "AlreadyRedirected",
        /// A broken pod's rules could not be written or not be proven; it is tried again.
        RepairFailed = "RepairFailed",
        /// A broken pod cannot be repaired in place.
        UnrepairableBrokenPod = "UnrepairableBrokenPod",
        /// An enrolled pod of the node has no rules of ours, and nobody noticed.
        UnredirectedPod = "UnredirectedPod",
        /// An enrolled pod of the node is redirected by rules that differ from the desired ones.
        RulesDiffer = "RulesDiffer",
        /// An unredirected pod was evicted.
        EvictUnredirectedPod = "EvictUnredirectedPod",
        /// An unredirected pod is not evicted now, as a disruption budget forbids it.
        EvictionHeld = "EvictionHeld",
        /// An unredirected pod without a validation container redirects again.
        RedirectionRestored = "RedirectionRestored",
        /// An enrolled pod runs in a guest (Kata Containers, gVisor), whose packets meet no rules.
        SandboxedRuntime = "SandboxedRuntime",
        /// A container of an enrolled pod runs with its proxy's user or group, whose traffic is not redirected.
        SharedProxyAccount = "SharedProxyAccount",
        /// An enrolled pod's rules cannot be read, again and again.
        RedirectionUnknown = "RedirectionUnknown",
        /// A pod is in ambient mode, which nothing serves on this node.
        AmbientPod = "AmbientPodNotRedirected",
        /// Another writer keeps reverting our configuration.
        CniConfigFight = "CniConfigFight",
        /// Pods do not get our entry, and the user has to change a setting.
        CniConfigUnreached = "CniConfigUnreached",
        /// A changed setting was rejected.
        SettingRefused = "SettingRefused",
        /// A node got the taint that keeps pods away until the plugin is ready.
        NodeTainted = "NodeTainted",
        /// A node lost that taint.
        NodeUntainted = "NodeUntainted",
        /// A node's taint cannot be changed; it is tried again.
        NodeTaintFailed = "NodeTaintFailed",
    }
}

impl EventReason {
    /// True for `Normal` events, which are good news; others are `Warning`. A deletion is a warning, as upstream's is.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(
            self,
            Self::RepairedBrokenPod
                | Self::AlreadyRedirected
                | Self::RedirectionRestored
                | Self::NodeTainted
                | Self::NodeUntainted
        )
    }

    /// Reporting component; `cni-repair` is upstream's.
    const fn component(self) -> &'static str {
        match self {
            Self::CniConfigFight | Self::CniConfigUnreached | Self::SettingRefused | Self::AmbientPod => {
                "install-cni"
            }
            Self::NodeTainted | Self::NodeUntainted | Self::NodeTaintFailed => "istio-cni-taint",
            _ => "cni-repair",
        }
    }
}

/// Object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum About {
    Pod {
        namespace: String,
        name: String,
        /// Its UID: a pod that comes after it under the same name has nothing to do with it.
        uid: String,
    },
    Node(String),
}

impl About {
    fn namespace(&self) -> &str {
        match self {
            Self::Pod { namespace, .. } => namespace,
            // Where events of things without a namespace are kept.
            Self::Node(_) => "default",
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Pod { name, .. } | Self::Node(name) => name,
        }
    }

    fn reference(&self) -> ObjectReference {
        let (kind, namespace, uid) = match self {
            Self::Pod { namespace, uid, .. } => ("Pod", Some(namespace.clone()), uid),
            // As the kubelet does: it knows its node by name.
            Self::Node(name) => ("Node", None, name),
        };
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(kind.to_owned()),
            name: Some(self.name().to_owned()),
            namespace,
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        }
    }
}

/// One occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub about: About,
    pub reason: EventReason,
    /// For a person; includes the remedy.
    pub message: String,
}

/// EventRecorder: cheap to clone, never blocks.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Note>,
    metrics: Metrics,
}

impl Recorder {
    /// Emits an event, or drops it if the queue is full.
    pub fn record(&self, about: About, reason: EventReason, message: impl Into<String>) {
        if self.queue.try_send(Note { about, reason, message: message.into() }).is_err() {
            self.metrics.event_dropped();
        }
    }
}

/// Writes what recorders emit.
#[derive(Debug)]
pub struct Writer {
    queue: mpsc::Receiver<Note>,
    metrics: Metrics,
    aggregator: Aggregator,
    node: Arc<str>,
}

/// A recorder and its writer. Events can be recorded before there is an API server to write to.
#[must_use]
pub fn channel(metrics: Metrics, node: &str) -> (Recorder, Writer) {
    let (send, receive) = mpsc::channel(QUEUE);
    let writer = Writer {
        queue: receive,
        metrics: metrics.clone(),
        aggregator: Aggregator::default(),
        node: node.into(),
    };
    (Recorder { queue: send, metrics }, writer)
}

impl Writer {
    /// Spawns the writer.
    #[must_use]
    pub fn begin(self, client: kube::Client) -> Writing {
        Writing(Some(tokio::spawn(self.run(client))))
    }

    /// Writes until the last recorder is gone and all that it was given is written.
    async fn run(mut self, client: kube::Client) {
        while let Some(writes) = self.next().await {
            self.put_all(&client, &writes).await;
        }
        let rest = self.aggregator.rest();
        self.put_all(&client, &rest).await;
    }

    async fn put_all(&mut self, client: &kube::Client, writes: &[PendingWrite]) {
        for write in writes {
            self.put(client, write).await;
        }
    }

    /// Next writes: of a new occurrence, or of a count that is due. `None` when nobody records any more.
    async fn next(&mut self) -> Option<Vec<PendingWrite>> {
        let note = match self.aggregator.due() {
            None => self.queue.recv().await,
            Some(due) => match timeout_at(due, self.queue.recv()).await {
                Ok(note) => note,
                Err(_) => return Some(self.aggregator.flush(Instant::now())),
            },
        };
        let note = note?;
        Some(self.aggregator.note(note, Instant::now(), Timestamp::now()).into_iter().collect())
    }

    async fn put(&mut self, client: &kube::Client, write: &PendingWrite) {
        let mut waits = WAITS.iter();
        loop {
            let failure = match timeout(WRITE_LIMIT, self.put_once(client, write)).await {
                Ok(Ok(())) => return,
                Ok(Err(failure)) => failure,
                Err(_) => Failure { text: "no answer within 10 s".to_owned(), again: true },
            };
            let Some(wait) = waits.next().filter(|_| failure.again) else {
                self.metrics.event_dropped();
                let reason = write.entry().note.reason.name();
                tracing::warn!(target: "cni-agent", reason, failure = failure.text, "an event was not written");
                return;
            };
            // There is nothing to wait for but time: the queue keeps what comes meanwhile.
            pause(*wait).await;
        }
    }

    async fn put_once(&self, client: &kube::Client, write: &PendingWrite) -> Result<(), Failure> {
        let entry = write.entry();
        let api: Api<Event> = Api::namespaced(client.clone(), entry.note.about.namespace());
        if let PendingWrite::Count(_) = write {
            let patch = json!({
                "count": entry.count, "lastTimestamp": Time(entry.last), "message": entry.note.message,
            });
            match api.patch(&entry.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                // The API server forgets events after an hour, and the first write may have failed.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => return other.map(drop).map_err(Failure::from),
            }
        }
        match api.create(&PostParams::default(), &self.event(entry)).await {
            // An earlier try of ours arrived, its answer did not.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            other => other.map(drop).map_err(Failure::from),
        }
    }

    fn event(&self, entry: &AggregatedEvent) -> Event {
        let (about, reason) = (&entry.note.about, entry.note.reason);
        Event {
            metadata: ObjectMeta {
                name: Some(entry.name.clone()),
                namespace: Some(about.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: about.reference(),
            reason: Some(reason.name().to_owned()),
            message: Some(entry.note.message.clone()),
            type_: Some(if reason.is_good() { "Normal" } else { "Warning" }.to_owned()),
            count: Some(entry.count),
            first_timestamp: Some(Time(entry.first)),
            last_timestamp: Some(Time(entry.last)),
            source: Some(EventSource {
                component: Some(reason.component().to_owned()),
                host: (!self.node.is_empty()).then(|| self.node.to_string()),
            }),
            reporting_component: Some(reason.component().to_owned()),
            reporting_instance: Some(self.node.to_string()),
            ..Event::default()
        }
    }
}

/// A writer at work, or none. It is left to itself when this is dropped.
#[derive(Debug, Default)]
pub struct Writing(Option<JoinHandle<()>>);

impl Writing {
    /// Waits until all is written, once nobody is left who could record anything; not for ever, as the process ends.
    pub async fn finish(self) {
        let Some(task) = self.0 else { return };
        if timeout(LAST_LIMIT, task).await.is_err() {
            tracing::warn!(target: "cni-agent", "failed to write every event within {LAST_LIMIT:?}");
        }
    }
}

/// Reason of a failed write.
#[derive(Debug)]
struct Failure {
    text: String,
    /// Retryable: not so if forbidden, the namespace is terminating, or the event is malformed.
    again: bool,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        let again = match &error {
            kube::Error::Api(status) => matches!(status.code, 401 | 409 | 429 | 500..),
            _ => true,
        };
        Self { text: error.to_string(), again }
    }
}

#[cfg(test)]
mod tests;
