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
    let asked = &review["spec"]["resourceAttributes"];
    if !asked.is_object() {
        return Err(bad("spec.resourceAttributes is required: other paths are not reviewed".to_owned()));
    }
    let text = |field: &str| asked[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let verb = text("verb").unwrap_or_default();
    let verb = Verb::ALL.into_iter().find(|one| one.to_string() == verb);
    let resource = text("resource").unwrap_or_default();
    let request = Attributes {
        verb: verb.ok_or_else(|| bad("spec.resourceAttributes.verb is none that is served".to_owned()))?,
        group: text("group").unwrap_or_default(),
        resource: text("subresource").map_or(resource.clone(), |sub| format!("{resource}/{sub}")),
        namespace: text("namespace"),
        name: text("name"),
    };
    review["status"] = json!({ "allowed": access::may(who, &request, store) });
    Ok((StatusCode::CREATED, review))
}
