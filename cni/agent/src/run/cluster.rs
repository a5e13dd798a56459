// SPDX-License-Identifier: Apache-2.0
//! What the agent has of the API server: a client, and the node's pods, followed in the background. Without either of them the agent does
//! the rest of its work.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::{Client, Following, Resource, Server};
use crate::metrics::Metrics;
use crate::pods::Pods;
use crate::settings::Settings;

/// A client of the API server, if somebody said where that is. Nothing is sent yet.
pub(super) fn client(settings: &Settings) -> Option<Client> {
    match Client::new(&Server::of(&settings.kubeconfig, &settings.places)) {
        Ok(client) => Some(client),
        Err(error) => {
            tracing::warn!(target: "cni-agent", "failed to {error}; going on without the API server");
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
    let pods = Pods::default();
    let Some(client) = client.cloned() else { return pods };
    match Resource::pods_of(&settings.own.node) {
        Ok(resource) => {
            let following = Following { client, resource, seed: RandomState::new().build_hasher().finish() };
            let (followed, metrics, stop) = (pods.clone(), metrics.clone(), stop.clone());
            tasks.spawn(async move { followed.follow(following, metrics, stop).await });
        }
        Err(error) => tracing::warn!(target: "cni-agent", "failed to {error}; each pod is asked for"),
    }
    pods
}
