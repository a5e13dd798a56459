// SPDX-License-Identifier: Apache-2.0
//! Asks for the DaemonSet, its namespace and the node.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PodSpec};

use serde::de::IgnoredAny;
use tokio::time::Instant;

use super::decide::DaemonSetAnswer;
use super::fits::misfit;
use crate::api::{ApiError, Client, Token};
use crate::settings::OwnPod;
use crate::time::pause;

/// First backoff; doubles.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Maximum backoff at the start.
const LAST_WAIT: Duration = Duration::from_secs(15);
/// Deadline of a request at the start.
const REQUEST: Duration = Duration::from_millis(1500);

/// Retries until the answer is conclusive.
pub(super) async fn until_told(client: &Client, own: &OwnPod) -> DaemonSetAnswer {
    let mut wait = FIRST_WAIT;
    loop {
        let answer = once(client, own, REQUEST).await;
        if !answer.is_silence() {
            return answer;
        }
        // No event tells that a silent server speaks again.
        pause(wait).await;
        wait = (wait * 2).min(LAST_WAIT);
    }
}

/// Asks once; each request has the deadline `limit`.
pub(super) async fn once(client: &Client, own: &OwnPod, limit: Duration) -> DaemonSetAnswer {
    // Objects of the API are large, and nearly all of the time nobody asks.
    Box::pin(ask(client, own, limit)).await
}

async fn ask(client: &Client, own: &OwnPod, limit: Duration) -> DaemonSetAnswer {
    let OwnPod { namespace, daemonset, .. } = own;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{daemonset}");
    let end = Instant::now() + limit;
    let daemonset: DaemonSet = match client.get(&path, limit).await {
        Ok(daemonset) => daemonset,
        Err(error) if error.is_gone(daemonset) => return DaemonSetAnswer::Gone,
        Err(error) => return doubted(client, namespace, of_error(&error), end).await,
    };
    if daemonset.metadata.deletion_timestamp.is_some() {
        return DaemonSetAnswer::Deleting;
    }
    let template = daemonset.spec.template.spec.unwrap_or_default();
    let (unwanted, namespace) =
        tokio::join!(unwanted(client, own, &template, limit), stays(client, namespace, limit));
    unwanted.unwrap_or(namespace)
}

/// Reason for which the DaemonSet wants no pod on this node. What is not known of the node is no reason to take its redirection away.
async fn unwanted(
    client: &Client,
    own: &OwnPod,
    template: &PodSpec,
    limit: Duration,
) -> Option<DaemonSetAnswer> {
    if own.node.is_empty() {
        return None;
    }
    let node: Node = client.get(&format!("/api/v1/nodes/{}", own.node), limit).await.ok()?;
    misfit(template, &node).map(DaemonSetAnswer::Unwanted)
}

/// The namespace of a DaemonSet that is there. Since Kubernetes 1.33 its deletion takes pods first and waits for their end before it takes
/// anything else, so that nothing but its own state tells it from an eviction.
async fn stays(client: &Client, name: &str, limit: Duration) -> DaemonSetAnswer {
    let namespace: Namespace = match client.get(&format!("/api/v1/namespaces/{name}"), limit).await {
        Ok(namespace) => namespace,
        // A role of before this question was asked.
        Err(ApiError::Forbidden(_)) => return DaemonSetAnswer::Unconfirmed,
        Err(error) if error.is_gone(name) => return DaemonSetAnswer::NamespaceDeleting,
        Err(error) => return of_error(&error),
    };
    let phase = namespace.status.and_then(|status| status.phase);
    if namespace.metadata.deletion_timestamp.is_some() || phase.as_deref() == Some("Terminating") {
        return DaemonSetAnswer::NamespaceDeleting;
    }
    DaemonSetAnswer::Wanted
}

/// A 401 says something of the account only if the token is refused whatever it is used for.
async fn doubted(client: &Client, name: &str, answer: DaemonSetAnswer, end: Instant) -> DaemonSetAnswer {
    if answer != DaemonSetAnswer::Unauthorized(Token::Proven) {
        return answer;
    }
    let path = format!("/api/v1/namespaces/{name}");
    match client.get::<IgnoredAny>(&path, end.saturating_duration_since(Instant::now())).await {
        Ok(_) | Err(ApiError::Forbidden(_)) => DaemonSetAnswer::Unauthorized(Token::Accepted),
        Err(_) => answer,
    }
}

fn of_error(error: &ApiError) -> DaemonSetAnswer {
    match error {
        ApiError::Forbidden(_) => DaemonSetAnswer::Forbidden,
        ApiError::Unauthorized(error) => DaemonSetAnswer::Unauthorized(error.token),
        silent => DaemonSetAnswer::Silent(silent.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::testing::{Script, Scripted as Reply};

    fn own() -> OwnPod {
        let text = str::to_owned;
        OwnPod {
            namespace: text("mesh"),
            name: text("istio-cni-node-x"),
            node: text("n1"),
            daemonset: text("istio-cni-node"),
        }
    }

    fn daemonset(selector: &serde_json::Value) -> Reply {
        let body = json!({
            "metadata": {"name": "istio-cni-node"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [], "nodeSelector": selector}}},
        });
        Reply::new(200, body.to_string())
    }

    fn node(labels: &serde_json::Value) -> Reply {
        Reply::new(200, json!({"metadata": {"name": "n1", "labels": labels}}).to_string())
    }

    fn namespace(phase: &str) -> Reply {
        Reply::new(200, json!({"metadata": {"name": "mesh"}, "status": {"phase": phase}}).to_string())
    }

    async fn of(replies: Vec<Reply>) -> (DaemonSetAnswer, usize) {
        let script = Script::new(replies);
        let answer = once(&script.client(), &own(), REQUEST).await;
        (answer, script.asked().len())
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_of_the_server_has_its_meaning() {
        let gone = Reply::absent("daemonsets.apps", "istio-cni-node");
        for (reply, want) in
            [(gone, DaemonSetAnswer::Gone), (Reply::new(403, ""), DaemonSetAnswer::Forbidden)]
        {
            assert_eq!(of(vec![reply]).await, (want, 1));
        }
        for words in ["404 page not found", "", "daemonsets.apps \"another\" not found"] {
            let answer = of(vec![Reply::new(404, words)]).await;
            assert!(matches!(answer, (DaemonSetAnswer::Silent(_), 1)), "{words}: {answer:?}");
        }
        let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).to_string();
        assert_eq!(of(vec![Reply::new(200, deleting)]).await, (DaemonSetAnswer::Deleting, 1));
        for token in [Token::Expired, Token::Unproven] {
            assert_eq!(of(vec![Reply::refusing(token)]).await, (DaemonSetAnswer::Unauthorized(token), 1));
        }
        for code in [500, 503, 429] {
            assert!(
                matches!(of(vec![Reply::new(code, "")]).await, (DaemonSetAnswer::Silent(_), 1)),
                "{code}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_refused_is_used_for_something_else_as_well() {
        for (second, want) in [
            (namespace("Active"), Token::Accepted),
            (Reply::new(403, ""), Token::Accepted),
            (Reply::refusing(Token::Proven), Token::Proven),
            (Reply::new(503, ""), Token::Proven),
            (Reply::new(404, "404 page not found"), Token::Proven),
        ] {
            let answer = of(vec![Reply::refusing(Token::Proven), second]).await;
            assert_eq!(answer, (DaemonSetAnswer::Unauthorized(want), 2));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_says_whether_it_is_still_wanted() {
        let pool = json!({"pool": "mesh"});
        assert_eq!(
            of(vec![daemonset(&pool), node(&pool), namespace("Active")]).await,
            (DaemonSetAnswer::Wanted, 3)
        );
        let (answer, _) = of(vec![daemonset(&pool), node(&json!({})), namespace("Active")]).await;
        assert!(matches!(answer, DaemonSetAnswer::Unwanted(why) if why.contains("pool=mesh")));
        assert_eq!(
            of(vec![daemonset(&pool), Reply::new(500, ""), namespace("Active")]).await,
            (DaemonSetAnswer::Wanted, 3)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_namespace_says_whether_the_daemonset_stays() {
        let any = json!({});
        let of = async |reply: Reply| of(vec![daemonset(&any), node(&any), reply]).await.0;
        assert_eq!(of(namespace("Terminating")).await, DaemonSetAnswer::NamespaceDeleting);
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).to_string();
        assert_eq!(of(Reply::new(200, deleted)).await, DaemonSetAnswer::NamespaceDeleting);
        assert_eq!(of(Reply::absent("namespaces", "mesh")).await, DaemonSetAnswer::NamespaceDeleting);
        assert!(matches!(of(Reply::new(404, "")).await, DaemonSetAnswer::Silent(_)));
        assert_eq!(of(Reply::new(403, "")).await, DaemonSetAnswer::Unconfirmed);
        assert!(matches!(of(Reply::new(503, "")).await, DaemonSetAnswer::Silent(_)));
        assert_eq!(of(Reply::refusing(Token::Proven)).await, DaemonSetAnswer::Unauthorized(Token::Proven));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_asked_again_until_somebody_speaks() {
        let silences =
            || [Reply::new(503, ""), Reply::refusing(Token::Unproven), Reply::refusing(Token::Expired)];
        let script =
            Script::new(silences().into_iter().chain([Reply::absent("daemonsets.apps", "istio-cni-node")]));
        assert_eq!(until_told(&script.client(), &own()).await, DaemonSetAnswer::Gone);
        assert_eq!(script.asked().len(), 4);
    }
}
