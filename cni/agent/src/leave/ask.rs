// SPDX-License-Identifier: Apache-2.0
//! Asks for the DaemonSet, and for the node if it matters, again and again within a budget, until something is said.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use protocol::mutant;
use tokio::time::{Instant, timeout};

use super::decide::Answer;
use super::fits::misfit;
use crate::api::{ApiError, Client};
use crate::settings::OwnPod;

/// What one request may take: short, because the end has a few seconds in all.
const REQUEST: Duration = Duration::from_millis(1500);
/// The first wait between tries; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest one.
const LAST_WAIT: Duration = Duration::from_secs(15);

/// Asks until there is an answer that says something, or the budget is spent.
pub(super) async fn ask(client: &Client, own: &OwnPod, budget: Duration) -> Answer {
    let start = Instant::now();
    let mut wait = FIRST_WAIT;
    loop {
        let limit = REQUEST.min(budget.saturating_sub(start.elapsed()));
        // Objects of the API are large, and nearly all of the time nobody asks.
        let answer = Box::pin(once(client, own, limit)).await;
        let left = budget.saturating_sub(start.elapsed());
        if !matches!(answer, Answer::Silent(_)) || left <= wait {
            return answer;
        }
        pause(wait).await;
        wait = (wait * 2).min(LAST_WAIT);
    }
}

/// Lets time pass: there is no event to wait for when a server is silent.
async fn pause(time: Duration) {
    let _elapsed = timeout(time, std::future::pending::<()>()).await;
}

async fn once(client: &Client, own: &OwnPod, limit: Duration) -> Answer {
    let path = format!("/apis/apps/v1/namespaces/{}/daemonsets/{}", own.namespace, own.daemonset);
    let daemonset: DaemonSet = match client.get(&path, limit).await {
        Ok(daemonset) => daemonset,
        Err(error) => return of_error(&error),
    };
    if daemonset.metadata.deletion_timestamp.is_some() {
        return Answer::Deleting;
    }
    let template = daemonset.spec.template.spec;
    let Some(template) = template.filter(|_| !own.node.is_empty()) else { return Answer::Wanted };
    match client.get::<Node>(&format!("/api/v1/nodes/{}", own.node), limit).await {
        Ok(node) => misfit(&template, &node).map_or(Answer::Wanted, Answer::Unwanted),
        // The DaemonSet is there: what is not known of the node is no reason to take its redirection away.
        Err(_) => Answer::Wanted,
    }
}

fn of_error(error: &ApiError) -> Answer {
    match error {
        ApiError::NotFound(_) => Answer::Gone,
        ApiError::Forbidden(_) => Answer::Forbidden,
        ApiError::Unauthorized(_) if mutant!("unauthorized-uninstalls") => Answer::Gone,
        silent => Answer::Silent(format!("failed to {silent}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::testing::{Answer as Reply, Script};

    fn own() -> OwnPod {
        let text = str::to_owned;
        OwnPod {
            namespace: text("mesh"),
            name: text("istio-cni-node-x"),
            node: text("n1"),
            daemonset: text("istio-cni-node"),
            node_addresses: vec![],
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

    const BUDGET: Duration = Duration::from_secs(4);

    async fn of(replies: Vec<Reply>) -> (Answer, usize) {
        let script = Script::new(replies);
        let answer = ask(&script.client(), &own(), BUDGET).await;
        (answer, script.asked().len())
    }

    #[tokio::test(start_paused = true)]
    async fn what_says_something_is_taken_at_once() {
        for (code, want) in [(404, Answer::Gone), (403, Answer::Forbidden)] {
            assert_eq!(of(vec![Reply::new(code, "")]).await, (want, 1));
        }
        let deleting = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).to_string();
        assert_eq!(of(vec![Reply::new(200, deleting)]).await, (Answer::Deleting, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_node_says_whether_it_is_still_wanted() {
        let pool = json!({"pool": "mesh"});
        assert_eq!(of(vec![daemonset(&pool), node(&pool)]).await, (Answer::Wanted, 2));
        let (answer, _) = of(vec![daemonset(&pool), node(&json!({}))]).await;
        assert!(matches!(answer, Answer::Unwanted(why) if why.contains("pool=mesh")));
        assert_eq!(of(vec![daemonset(&pool), Reply::new(500, "")]).await, (Answer::Wanted, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_asked_again_until_somebody_speaks() {
        for code in [401, 500, 503, 429] {
            assert_eq!(
                of(vec![Reply::new(code, ""), Reply::new(404, "")]).await,
                (Answer::Gone, 2),
                "{code}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_holds_with_errors_and_with_a_server_that_says_nothing() {
        let begin = Instant::now();
        let (answer, asked) = of((0..100).map(|_| Reply::new(401, "no")).collect()).await;
        assert!(matches!(answer, Answer::Silent(why) if why.contains("no")), "told by whom");
        assert!((3..10).contains(&asked), "{asked}");
        assert!(begin.elapsed() <= BUDGET);
        let begin = Instant::now();
        let (answer, asked) = of(vec![]).await;
        assert!(matches!(answer, Answer::Silent(_)));
        assert!(
            asked >= 2 && begin.elapsed() <= BUDGET + Duration::from_millis(10),
            "{asked} {:?}",
            begin.elapsed()
        );
    }
}
