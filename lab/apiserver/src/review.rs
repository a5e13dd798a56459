// SPDX-License-Identifier: Apache-2.0
//! `SelfSubjectAccessReview`: whoever is known may ask what they may do. Nothing of it is stored, and no discovery lists it.

use http::StatusCode;
use serde_json::{Value, json};

use crate::access::{self, Identity};
use crate::error::ApiError;
use crate::protobuf;
use crate::rbac::Attributes;
use crate::route::Verb;
use crate::store::Store;

/// Answers a review, which does not count as a use of the grant.
pub(crate) fn answer(who: &Identity, body: &[u8], store: &Store) -> Result<(StatusCode, Value), ApiError> {
    let bad = |why: String| ApiError::BadRequest(why);
    let mut review: Value = match protobuf::json(body) {
        Some(review) => review,
        None => {
            serde_json::from_slice(body).map_err(|error| bad(format!("the body is not JSON: {error}")))?
        }
    };
    (review["apiVersion"], review["kind"]) =
        (json!("authorization.k8s.io/v1"), json!("SelfSubjectAccessReview"));
    if let Some(path) = review["spec"]["nonResourceAttributes"]["path"].as_str() {
        let public = ["/api", "/healthz", "/livez", "/openapi", "/readyz", "/version"];
        let allowed = *who == Identity::Admin || public.iter().any(|known| path.starts_with(known));
        review["status"] = json!({ "allowed": allowed });
        return Ok((StatusCode::CREATED, review));
    }
    let asked = &review["spec"]["resourceAttributes"];
    if !asked.is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return Err(bad(format!("spec.resourceAttributes: Invalid value: null: {why}")));
    }
    let text = |field: &str| asked[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let verb = text("verb").unwrap_or_default();
    let Some(verb) = Verb::ALL.into_iter().find(|one| one.to_string() == verb) else {
        // Nobody but the administrator may do what nobody knows, or everything.
        review["status"] = json!({ "allowed": *who == Identity::Admin });
        return Ok((StatusCode::CREATED, review));
    };
    let resource = text("resource").unwrap_or_default();
    let request = Attributes {
        verb,
        group: text("group").unwrap_or_default(),
        resource: text("subresource").map_or(resource.clone(), |sub| format!("{resource}/{sub}")),
        namespace: text("namespace"),
        name: text("name"),
    };
    review["status"] = json!({ "allowed": access::may(who, &request, store) });
    Ok((StatusCode::CREATED, review))
}
