// SPDX-License-Identifier: Apache-2.0
//! The agent's own pod, followed by name: whether it is on the node's network, and whether it is being deleted.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::{Change, Client, Following, Resource};
use crate::pods::NodePod;
use crate::settings::OwnPod;

/// What the API says of the own pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnFacts {
    /// `spec.hostNetwork`, once it is known.
    pub host_network: Option<bool>,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
}

impl OwnFacts {
    fn of(pod: &NodePod) -> Self {
        Self {
            host_network: Some(pod.spec.facts.host_network),
            deleting: pod.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Tells what becomes of the own pod until it is cancelled. Nothing, if nobody said which pod it is.
pub async fn follow(client: Client, own: OwnPod, facts: watch::Sender<OwnFacts>, cancel: CancellationToken) {
    if own.name.is_empty() || own.namespace.is_empty() {
        return;
    }
    let resource = Resource::pod(&own.namespace, &own.name);
    let following = Following { client, resource, seed: std::process::id().into() };
    let tell = |change: Change<NodePod>| {
        let told = match change {
            Change::All(pods) => pods.first().map(OwnFacts::of),
            Change::Set(pod) => Some(OwnFacts::of(&pod)),
            Change::Removed(pod) => Some(OwnFacts { deleting: true, ..OwnFacts::of(&pod) }),
            Change::Alive | Change::Lost(_) => None,
        };
        if let Some(told) = told {
            facts.send_if_modified(|held| std::mem::replace(held, told) != told);
        }
    };
    following.run(tell, &cancel).await;
}
