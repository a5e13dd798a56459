// SPDX-License-Identifier: Apache-2.0
//! The agent's connections to the API server: client, node's pods, settings, its own pod and DaemonSet, all followed in the background.
//! Without any of them the agent does the rest of its work.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::ambient::{self, AmbientContext};
use crate::api::{Client, Following, Resource};
use crate::events::{self, Recorder, Writing};
use crate::leave::{self, Leave, OwnFacts};
use crate::metrics::Metrics;
use crate::pods::Pods;
use crate::readiness::Readiness;
use crate::reload::{Follower, Live};
use crate::repair::child::Program;
use crate::repair::worker;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::taint::OwnTaint;

/// A client of the API server, if somebody said where that is. Nothing is sent yet.
pub(super) fn client(settings: &Settings) -> Option<Client> {
    match Client::new(&settings.kubeconfig, &settings.places.token_file()) {
        Ok(client) => Some(client),
        Err(error) => {
            tracing::warn!(target: "cni-agent", "{error}; going on without the API server");
            None
        }
    }
}

/// The node's pods. Without a client or a node's name there are none, and each that the plugin asks for is a request.
pub(super) fn pods(
    settings: &Settings,
    client: Option<&Client>,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> Pods {
    let Some(client) = client else { return Pods::default() };
    match Resource::pods_of(&settings.own.node) {
        Ok(resource) => watch_pods(client, resource, metrics, tasks, stop),
        Err(error) => {
            tracing::warn!(target: "cni-agent", "{error}; each pod is asked for");
            Pods::default()
        }
    }
}

/// Starts a watch of pods.
fn watch_pods(
    client: &Client,
    resource: Resource,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> Pods {
    let (pods, following) = (Pods::default(), Following::new(client.clone(), resource));
    let (followed, metrics, stop) = (pods.clone(), metrics.clone(), stop.clone());
    tasks.spawn(async move { followed.follow(following, metrics, stop).await });
    pods
}

/// Follows the settings and the own pod, asks for the DaemonSet, and repairs. Who stops asks the [`Leave`] why; who has something to tell
/// operators hands it to the [`Recorder`], and what is told is written by the [`Writing`].
pub(super) fn follow(
    live: Live,
    client: Option<Client>,
    pods: Pods,
    metrics: Metrics,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> (Arc<Leave>, Recorder, Writing) {
    let own = live.settings().borrow().own.clone();
    let (facts, followed) = watch::channel(OwnFacts::default());
    let leave = Arc::new(Leave::new(client.clone(), own.clone(), followed.clone()));
    let (recorder, writer) = events::channel(metrics.clone(), &own.node);
    let Some(client) = client else { return (leave, recorder, Writing::default()) };
    let writing = writer.begin(client.clone().into());
    if own.is_known() {
        let own_pods = if Resource::pods_of(&own.node).is_ok() {
            pods.clone()
        } else {
            watch_pods(&client, Resource::pod(&own.namespace, &own.name), &metrics, tasks, stop)
        };
        tasks.spawn(leave::follow(own_pods, own, facts, stop.clone()));
    }
    let (asking, end) = (leave.clone(), stop.clone());
    tasks.spawn(async move { asking.watch(end).await });
    let (following, counts, end) = (leave.clone(), metrics.clone(), stop.clone());
    tasks.spawn(async move { following.follow(&counts, &end).await });
    let repair = worker::RepairContext {
        settings: live.settings(),
        pods,
        client: client.clone(),
        events: recorder.clone(),
        metrics: metrics.clone(),
        program: Program::default(),
    };
    let ambient = AmbientContext {
        settings: repair.settings.clone(),
        pods: repair.pods.clone(),
        client: client.clone(),
        events: recorder.clone(),
        metrics: metrics.clone(),
    };
    tasks.spawn(ambient::run(ambient, stop.clone()));
    tasks.spawn(worker::run(repair, stop.clone()));
    let follower = Follower { live, client, metrics, recorder: recorder.clone(), own: followed };
    tasks.spawn(follower.run(stop.clone()));
    (leave, recorder, writing)
}

/// Minds the taint of the own node, if that is wanted. Who uninstalls puts it back.
pub(super) fn own_taint(
    followed: &watch::Receiver<Arc<Settings>>,
    client: Option<&Client>,
    (readiness, runtime, metrics, recorder): (&Readiness, &Runtime, &Metrics, &Recorder),
    installs: watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> Option<OwnTaint> {
    let settings = followed.borrow().clone();
    let key = settings.own_taint.clone()?;
    let (Some(client), false) = (client, settings.own.node.is_empty()) else {
        tracing::warn!(target: "taint", "the own node's taint is not minded: it takes the API server and the node's name (NODE_NAME)");
        return None;
    };
    let taint = OwnTaint {
        key,
        node: settings.own.node.clone(),
        client: client.clone(),
        readiness: readiness.clone(),
        runtime: runtime.clone(),
        settings: followed.clone(),
        metrics: metrics.clone(),
        recorder: recorder.clone(),
        installs,
    };
    tasks.spawn(taint.clone().run(stop.clone()));
    Some(taint)
}
