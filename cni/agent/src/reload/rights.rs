// SPDX-License-Identifier: Apache-2.0
//! Asks the API server what the agent's roles allow.

use std::time::Duration;

use http::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Client;
use crate::settings::change::{Able, Need};
use crate::time::pause;

/// Deadline of the request.
const LIMIT: Duration = Duration::from_secs(5);
/// Wait before a denial counts: Helm applies a ConfigMap before the ClusterRole that belongs with it.
const ROLES_FOLLOW: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
struct Review {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    allowed: bool,
}

/// Answer of the API server, asked twice before it becomes a denial; `None` if it is no matter of RBAC.
pub(super) async fn ask(client: &Client, need: Need, known: Able) -> Option<Able> {
    let attributes = match need {
        Need::DeletePods => json!({"verb": "delete", "resource": "pods"}),
        Need::LabelPods => json!({"verb": "patch", "resource": "pods", "subresource": "status"}),
        Need::EnterPods | Need::HostNetwork => return None,
    };
    let first = review(client, need, &attributes).await?;
    if first != Able::No || known == Able::No {
        return Some(first);
    }
    pause(ROLES_FOLLOW).await;
    review(client, need, &attributes).await
}

/// SelfSubjectAccessReview.
async fn review(client: &Client, need: Need, attributes: &Value) -> Option<Able> {
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header("content-type", "application/json")
        .body(body.to_string().into_bytes());
    let answer = client.request::<Review>(request.ok()?, LIMIT).await;
    Some(match answer {
        Ok(Review { status: Status { allowed: true } }) => Able::Yes,
        Ok(_) => Able::No,
        Err(error) => {
            tracing::warn!(target: "cni-agent", ?need, "{error}: it is not known what the agent's roles allow");
            Able::Unknown
        }
    })
}
