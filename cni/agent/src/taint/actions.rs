// SPDX-License-Identifier: Apache-2.0
//! Changes a node's taints at the API server: one patch, and, if that does not hold any more, one look at what is there now.

use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::decide::PatchOutcome;
use super::model::Node;
use crate::api::{ApiError, Client};
use crate::events::{About, EventReason, Recorder};
use crate::metrics::{Deed, Metrics, TaintResult};

/// Decided change of a node's taints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaintChange {
    pub(super) node: String,
    pub(super) taint: String,
    pub(super) deed: Deed,
    pub(super) patch: Value,
    /// Reason, for a person.
    pub(super) why: String,
    pub(super) retries: Retries,
}

/// Retries of a change that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retries {
    /// For as long as it is needed.
    Endless,
    /// Until the process ends: a failure may be the last one.
    Bounded,
}

/// Result, for the decision and for people.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) outcome: PatchOutcome,
    pub(super) error: Option<ApiError>,
}

impl Ended {
    pub(super) fn failed(error: ApiError) -> Self {
        Self { outcome: PatchOutcome::Failed, error: Some(error) }
    }

    fn result(&self) -> TaintResult {
        match self.outcome {
            // A node that is gone needs no change.
            PatchOutcome::Done(_) | PatchOutcome::Gone => TaintResult::Success,
            PatchOutcome::Conflict(_) => TaintResult::Conflict,
            PatchOutcome::Failed => TaintResult::Fail,
        }
    }
}

impl TaintChange {
    /// Patches the node, each request within `limit`, and reports the result.
    pub(super) async fn make(
        &self,
        client: &Client,
        limit: Duration,
        metrics: &Metrics,
        recorder: &Recorder,
    ) -> Ended {
        let ended = self.send(client, limit).await;
        metrics.taint(self.deed, ended.result());
        self.tell(&ended, recorder);
        ended
    }

    async fn send(&self, client: &Client, limit: Duration) -> Ended {
        let path = format!("/api/v1/nodes/{}", self.node);
        let request = Request::patch(&path).header(CONTENT_TYPE, "application/json-patch+json");
        let request = match request.body(self.patch.to_string().into_bytes()) {
            Ok(request) => request,
            Err(error) => return Ended::failed(ApiError::Malformed(error.to_string())),
        };
        let refusal = match client.request::<Node>(request, limit).await {
            Ok(node) => return Ended { outcome: PatchOutcome::Done(node), error: None },
            Err(error) if error.is_gone(&self.node) => {
                return Ended { outcome: PatchOutcome::Gone, error: None };
            }
            // A JSON patch whose `test` fails, or a concurrent write.
            Err(error @ (ApiError::Conflict(_) | ApiError::Refused { code: 422, .. })) => error,
            Err(error) => return Ended::failed(error),
        };
        match client.get::<Node>(&path, limit).await {
            // The list is the one that was read, so the refusal is about something else.
            Ok(fresh) if self.patch[0].get("value") == Some(&Value::from(fresh.taints.clone())) => {
                Ended::failed(refusal)
            }
            Ok(fresh) => Ended { outcome: PatchOutcome::Conflict(fresh), error: Some(refusal) },
            Err(error) if error.is_gone(&self.node) => Ended { outcome: PatchOutcome::Gone, error: None },
            Err(error) => Ended::failed(error),
        }
    }

    fn failure(&self, error: &str) -> String {
        let again = match self.retries {
            Retries::Endless => ", and it is tried again",
            Retries::Bounded => "",
        };
        format!("was not {}{again}: {error}", self.deed.name())
    }

    fn tell(&self, ended: &Ended, recorder: &Recorder) {
        let Self { node, taint, deed, why, .. } = self;
        let done = deed.name();
        let about = || About::Node(node.clone());
        match (&ended.outcome, &ended.error) {
            (PatchOutcome::Done(_), _) => {
                tracing::info!(target: "taint", node, taint, why, "{done} the taint");
                let reason = match deed {
                    Deed::Add => EventReason::NodeTainted,
                    Deed::Remove => EventReason::NodeUntainted,
                };
                recorder.record(about(), reason, format!("taint {taint} {done}: {why}"));
            }
            (PatchOutcome::Gone, _) => tracing::info!(target: "taint", node, "the node is gone"),
            (PatchOutcome::Conflict(_), _) => {
                tracing::info!(target: "taint", node, taint, "somebody else changed the taints first; trying again with theirs");
            }
            (PatchOutcome::Failed, error) => {
                let error = error.as_ref().map(ToString::to_string).unwrap_or_default();
                let failure = self.failure(&error);
                tracing::warn!(target: "taint", node, taint, "the taint {failure}");
                recorder.record(about(), EventReason::NodeTaintFailed, format!("taint {taint} {failure}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::taints::patch;
    use super::*;
    use crate::api::testing::{Script, Scripted};

    const LIMIT: Duration = Duration::from_secs(1);

    fn node(taints: &Value) -> String {
        json!({"metadata": {"name": "n"}, "spec": {"taints": taints}}).to_string()
    }

    async fn run(answers: Vec<Scripted>) -> (Ended, Vec<String>) {
        let script = Script::new(answers);
        let patch = patch(Some(&[json!({"key": "ours"})]), "ours", Deed::Remove);
        let [node, taint, why] = ["n", "ours", "because"].map(str::to_owned);
        let change = TaintChange { node, taint, deed: Deed::Remove, patch, why, retries: Retries::Endless };
        (change.send(&script.client(), LIMIT).await, script.asked())
    }

    #[tokio::test]
    async fn a_test_that_does_not_hold_is_a_conflict_with_what_is_there_now() {
        let fresh = json!([{"key": "other"}, {"key": "ours"}]);
        let answers = vec![Scripted::new(422, "{}"), Scripted::new(200, node(&fresh))];
        let (ended, asked) = run(answers).await;
        let PatchOutcome::Conflict(node) = &ended.outcome else { panic!("{ended:?}") };
        assert_eq!((Value::from(node.taints.clone()), ended.result()), (fresh, TaintResult::Conflict));
        assert_eq!(asked, ["/api/v1/nodes/n", "/api/v1/nodes/n"]);
    }

    #[tokio::test]
    async fn a_refusal_of_what_was_read_rightly_is_a_failure() {
        let same = node(&json!([{"key": "ours"}]));
        let (ended, _) = run(vec![Scripted::new(422, "{}"), Scripted::new(200, same)]).await;
        assert_eq!(ended.outcome, PatchOutcome::Failed);
        assert!(ended.error.unwrap().to_string().contains("422"));
        let (ended, _) = run(vec![Scripted::new(403, "")]).await;
        assert_eq!((ended.result(), ended.error.unwrap().name()), (TaintResult::Fail, "forbidden"));
    }

    #[tokio::test]
    async fn a_node_that_is_gone_is_done_with() {
        let gone = || Scripted::absent("nodes", "n");
        assert_eq!(run(vec![gone()]).await.0.outcome, PatchOutcome::Gone);
        assert_eq!(run(vec![Scripted::new(409, ""), gone()]).await.0.outcome, PatchOutcome::Gone);
        let (ended, _) = run(vec![Scripted::new(404, "no such page")]).await;
        assert_eq!(ended.outcome, PatchOutcome::Failed, "it may be a load balancer's");
        let (ended, _) = run(vec![Scripted::new(200, node(&json!([])))]).await;
        assert!(matches!(ended.outcome, PatchOutcome::Done(_)) && ended.error.is_none());
    }

    #[test]
    fn a_failure_that_may_be_the_last_one_promises_no_other_attempt() {
        let told = |retries| {
            let [node, taint, why] = ["n", "ours", "because"].map(str::to_owned);
            TaintChange { node, taint, deed: Deed::Add, patch: Value::Null, why, retries }.failure("503")
        };
        assert_eq!(told(Retries::Endless), "was not added, and it is tried again: 503");
        assert_eq!(told(Retries::Bounded), "was not added: 503");
    }
}
