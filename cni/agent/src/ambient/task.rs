// SPDX-License-Identifier: Apache-2.0
//! Follows the node's pods, the settings and, where ambient mode is set, namespaces; reports pods of ambient mode.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::captured::{Capture, CaptureRules, Labels};
use crate::api::{Change, Client, Following, Resource};
use crate::events::{About, EventReason, Recorder};
use crate::metrics::{Metrics, Watched};
use crate::pods::{NodePod, PodEvent, Pods};
use crate::settings::Settings;

/// Inputs of the ambient task.
#[derive(Debug, Clone)]
pub struct AmbientContext {
    pub settings: watch::Receiver<Arc<Settings>>,
    pub pods: Pods,
    pub client: Client,
    pub events: Recorder,
    pub metrics: Metrics,
}

/// Labels of namespaces by their names.
type Namespaces = BTreeMap<String, Labels>;

#[derive(Deserialize)]
struct Namespace {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    labels: Option<Labels>,
}

/// Reports until cancelled.
pub async fn run(context: AmbientContext, stop: CancellationToken) {
    let rules = CaptureRules::of(&context.settings.borrow());
    let watcher = Watcher { rules, captured: BTreeSet::new(), labels: watch::Sender::default(), context };
    stop.run_until_cancelled(watcher.run()).await;
}

struct Watcher {
    context: AmbientContext,
    rules: CaptureRules,
    /// UIDs of pods of ambient mode.
    captured: BTreeSet<String>,
    labels: watch::Sender<Namespaces>,
}

impl Watcher {
    async fn run(mut self) {
        let (mut events, mut settings) = (self.context.pods.subscribe(), self.context.settings.clone());
        let mut labels = self.labels.subscribe();
        let mut following = None;
        loop {
            following = self.follow(following);
            self.everything();
            loop {
                tokio::select! {
                    event = events.next() => match event {
                        Some(PodEvent::Set(pod)) => self.set(&pod),
                        Some(PodEvent::Removed(pod)) => self.gone(&pod.metadata.facts.uid),
                        Some(PodEvent::All) => break,
                        None => return,
                    },
                    Ok(()) = labels.changed() => break,
                    Ok(()) = settings.changed() => {
                        let rules = CaptureRules::of(&settings.borrow_and_update());
                        if rules != self.rules {
                            self.rules = rules;
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Follows namespaces while their labels count.
    fn follow(&self, former: Option<DropGuard>) -> Option<DropGuard> {
        if !self.rules.reads_namespaces {
            self.labels.send_if_modified(|held| !std::mem::take(held).is_empty());
            return None;
        }
        if former.is_some() {
            return former;
        }
        let stop = CancellationToken::new();
        let (labels, metrics) = (self.labels.clone(), self.context.metrics.clone());
        let following = Following::new(self.context.client.clone(), Resource::namespaces());
        let end = stop.clone();
        tokio::spawn(async move { following.run(move |change| hear(change, &labels, &metrics), &end).await });
        Some(stop.drop_guard())
    }

    fn everything(&mut self) {
        let pods = self.context.pods.all();
        let there: BTreeSet<_> = pods.iter().map(|pod| &pod.metadata.facts.uid).collect();
        self.captured.retain(|uid| there.contains(uid));
        pods.iter().for_each(|pod| self.set(pod));
        self.context.metrics.ambient(self.captured.len());
    }

    fn set(&mut self, pod: &NodePod) {
        let facts = &pod.metadata.facts;
        let capture = {
            let namespaces = self.labels.borrow();
            self.rules.decide(pod, namespaces.get(&facts.namespace))
        };
        if capture == Capture::No {
            return self.gone(&facts.uid);
        }
        if self.captured.insert(facts.uid.clone()) {
            self.report(pod, capture);
        }
        self.context.metrics.ambient(self.captured.len());
    }

    fn gone(&mut self, uid: &str) {
        if self.captured.remove(uid) {
            self.context.metrics.ambient(self.captured.len());
        }
    }

    fn report(&self, pod: &NodePod, capture: Capture) {
        let facts = &pod.metadata.facts;
        let (namespace, name, uid) = (facts.namespace.clone(), facts.name.clone(), facts.uid.clone());
        let message = message(capture);
        tracing::warn!(target: "cni-agent", namespace, pod = name, uid, "{message}");
        self.context.events.record(About::Pod { namespace, name, uid }, EventReason::AmbientPod, message);
    }
}

fn message(capture: Capture) -> String {
    let state = match capture {
        Capture::Former => {
            "traffic of this pod is redirected to ztunnel by rules of another node agent, and not any more once ztunnel or the pod restarts"
        }
        Capture::Wanted | Capture::No => "traffic of this pod is not redirected to ztunnel",
    };
    format!(
        "{state}: the pod is in ambient mode, and this node agent serves sidecars only; give it a sidecar, or label it istio.io/dataplane-mode=none"
    )
}

/// Keeps the labels of namespaces.
fn hear(change: Change<Namespace>, labels: &watch::Sender<Namespaces>, metrics: &Metrics) {
    let pair = |one: Namespace| (one.metadata.name, one.metadata.labels.unwrap_or_default());
    match change {
        Change::All(all) => drop(labels.send_replace(all.into_iter().map(pair).collect())),
        Change::Set(one) => {
            let (name, new) = pair(one);
            labels.send_if_modified(|held| {
                let is_new = held.get(&name) != Some(&new);
                held.insert(name, new);
                is_new
            });
        }
        Change::Removed(one) => {
            labels.send_if_modified(|held| held.remove(&one.metadata.name).is_some());
        }
        Change::Alive => {}
        Change::Lost(lost) => metrics.watch_restarted(Watched::Namespaces, lost.reason),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::testing::{Script, Scripted};
    use crate::metrics::Exposition;
    use crate::settings::load;
    use crate::time::pause;

    fn settings(enabled: &str) -> Arc<Settings> {
        let environment = BTreeMap::from([("AMBIENT_ENABLED".to_owned(), enabled.to_owned())]);
        Arc::new(load(BTreeMap::new(), &environment, |_| false).settings)
    }

    fn pod(name: &str, mode: Option<&str>) -> NodePod {
        let labels = mode.map_or(json!({}), |mode| json!({"istio.io/dataplane-mode": mode}));
        let metadata =
            json!({"namespace": "shop", "name": name, "uid": format!("uid of {name}"), "labels": labels});
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    fn counted(metrics: &Metrics) -> String {
        let text = metrics.scrape(Exposition::Prometheus).unwrap();
        let line = text.lines().find(|line| line.starts_with("millrace_ambient_pods ")).unwrap();
        line.to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_counted_as_long_as_they_are_in_ambient_mode() {
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": [
            {"metadata": {"name": "shop", "labels": {"istio.io/dataplane-mode": "ambient"}}},
        ]});
        let (_open, watch_stream) = Scripted::streamed();
        let script = Script::new([Scripted::new(200, list.to_string()), watch_stream]);
        let (metrics, pods) = (Metrics::default(), Pods::default());
        let (change, settings_now) = watch::channel(settings("false"));
        let (events, _writer) = crate::events::channel(metrics.clone(), "n");
        let context = AmbientContext {
            settings: settings_now,
            pods: pods.clone(),
            client: script.client(),
            events,
            metrics: metrics.clone(),
        };
        let task = tokio::spawn(run(context, CancellationToken::new()));
        let all = vec![pod("cart", Some("ambient")), pod("till", None), pod("desk", Some("none"))];
        pods.hear(Change::All(all));
        let after = async |want: &str| {
            pause(std::time::Duration::from_millis(1)).await;
            assert_eq!(counted(&metrics), format!("millrace_ambient_pods {want}"));
        };
        after("1").await;
        assert_eq!(script.asked(), [""; 0], "namespaces are not read without the setting");
        change.send_replace(settings("true"));
        after("2").await;
        pods.hear(Change::Set(pod("till", Some("none"))));
        after("1").await;
        pods.hear(Change::Removed(pod("cart", Some("ambient"))));
        after("0").await;
        pods.hear(Change::Set(pod("bank", None)));
        after("1").await;
        change.send_replace(settings("false"));
        after("0").await;
        task.abort();
    }

    #[test]
    fn a_pod_that_another_agent_captured_is_told_apart() {
        assert!(message(Capture::Wanted).starts_with("traffic of this pod is not redirected to ztunnel: "));
        assert!(message(Capture::Former).contains("another node agent"));
    }
}
