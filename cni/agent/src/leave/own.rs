// SPDX-License-Identifier: Apache-2.0
//! The agent's own pod: whether it is on the node's network, and whether it is being deleted. It is one of the node's pods, which are watched
//! anyway; only an agent that does not know its node watches it by name.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::pods::{NodePod, PodEvent, Pods};
use crate::settings::OwnPod;

/// The agent's own pod, as the API shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnFacts {
    /// `spec.hostNetwork`, once it is known.
    pub host_network: Option<bool>,
    /// It has a `deletionTimestamp`, or is gone.
    pub deleting: bool,
    /// Its object is gone.
    pub gone: bool,
}

impl OwnFacts {
    fn of(pod: &NodePod) -> Self {
        Self {
            host_network: Some(pod.spec.facts.host_network),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            gone: false,
        }
    }

    fn of_removed(pod: &NodePod) -> Self {
        Self { deleting: true, gone: true, ..Self::of(pod) }
    }

    /// Of a pod that a list lacks: it is gone if it was there.
    fn of_missing(held: Self) -> Option<Self> {
        held.host_network.map(|_| Self { deleting: true, gone: true, ..held })
    }
}

/// Emits the own pod's facts, as `pods` show it, until cancelled.
pub async fn follow(pods: Pods, own: OwnPod, facts: watch::Sender<OwnFacts>, cancel: CancellationToken) {
    cancel.run_until_cancelled(among(&pods, &own, &facts)).await;
}

async fn among(pods: &Pods, own: &OwnPod, facts: &watch::Sender<OwnFacts>) {
    let mut changes = pods.subscribe();
    let is_own = |pod: &NodePod| {
        let metadata = &pod.metadata.facts;
        (&metadata.namespace, &metadata.name) == (&own.namespace, &own.name)
    };
    let listed = || pods.all().iter().find(|pod| is_own(pod)).map(|pod| OwnFacts::of(pod));
    let mut observed = listed();
    loop {
        if let Some(observed) = observed {
            facts.send_if_modified(|held| std::mem::replace(held, observed) != observed);
        }
        observed = match changes.next().await {
            Some(PodEvent::Set(pod)) if is_own(&pod) => Some(OwnFacts::of(&pod)),
            Some(PodEvent::Removed(pod)) if is_own(&pod) => Some(OwnFacts::of_removed(&pod)),
            // Its end fell into a gap of the watch. A list is never older than what was told before.
            Some(PodEvent::All) => listed().or_else(|| OwnFacts::of_missing(*facts.borrow())),
            Some(PodEvent::Set(_) | PodEvent::Removed(_)) => None,
            None => return,
        };
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Change;

    fn own() -> OwnPod {
        OwnPod { namespace: "mesh".to_owned(), name: "cni-x".to_owned(), ..OwnPod::default() }
    }

    fn pod(namespace: &str, name: &str, deleted: Option<&str>) -> NodePod {
        let metadata =
            json!({"namespace": namespace, "name": name, "uid": "u", "deletionTimestamp": deleted});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"hostNetwork": true}})).unwrap()
    }

    async fn facts_after(changes: Vec<Change<NodePod>>) -> OwnFacts {
        let pods = Pods::default();
        let (facts, heard) = watch::channel(OwnFacts::default());
        let follow = follow(pods.clone(), own(), facts, CancellationToken::new());
        let hear = async move {
            for change in changes {
                pods.hear(change);
                tokio::task::yield_now().await;
            }
        };
        let (follow, hear) = (tokio::spawn(follow), tokio::spawn(hear));
        hear.await.unwrap();
        tokio::task::yield_now().await;
        follow.abort();
        *heard.borrow()
    }

    const DELETED: Option<&str> = Some("2026-01-01T00:00:00Z");
    const THERE: OwnFacts = OwnFacts { host_network: Some(true), deleting: false, gone: false };
    const ENDS: OwnFacts = OwnFacts { deleting: true, ..THERE };
    const GONE: OwnFacts = OwnFacts { gone: true, ..ENDS };

    #[tokio::test]
    async fn the_node_s_pods_tell_of_the_own_pod() {
        let all = |pods| vec![Change::All(pods)];
        assert_eq!(facts_after(vec![]).await, OwnFacts::default());
        assert_eq!(facts_after(all(vec![pod("mesh", "cni-x", None)])).await, THERE);
        assert_eq!(facts_after(all(vec![pod("mesh", "cni-x", DELETED)])).await, ENDS);
        for (namespace, name) in [("other", "cni-x"), ("mesh", "cni-y")] {
            let others = vec![
                Change::All(vec![pod(namespace, name, DELETED)]),
                Change::Set(pod(namespace, name, DELETED)),
            ];
            assert_eq!(facts_after(others).await, OwnFacts::default(), "{namespace}/{name}");
        }
        assert_eq!(facts_after(vec![Change::Set(pod("mesh", "cni-x", None))]).await, THERE);
        let set = |deleted| Change::Set(pod("mesh", "cni-x", deleted));
        assert_eq!(facts_after(vec![set(None), set(DELETED)]).await, ENDS);
        assert_eq!(facts_after(vec![set(None), Change::Removed(pod("mesh", "cni-x", None))]).await, GONE);
    }

    #[tokio::test]
    async fn a_list_without_the_own_pod_says_that_it_is_gone_once_it_was_there() {
        assert_eq!(
            facts_after(vec![Change::All(vec![])]).await,
            OwnFacts::default(),
            "the first list may be old"
        );
        let seen =
            vec![Change::Set(pod("mesh", "cni-x", None)), Change::All(vec![pod("mesh", "cart", None)])];
        assert_eq!(facts_after(seen).await, GONE);
    }
}
