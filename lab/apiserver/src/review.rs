// SPDX-License-Identifier: Apache-2.0
//! Reviews: whoever is known may ask what they may do, and who has the right to ask (kubelets), what somebody else may. Nothing of it is
//! stored, and no discovery lists it.

use serde_json::{Value, json};

use crate::access::{self, Identity};
use crate::error::ApiError;
use crate::protobuf;
use crate::rbac::Attributes;
use crate::route::{REVIEWS, Review, Verb};
use crate::store::Store;

/// Answers a review, which does not count as a use of the grant.
pub(crate) fn answer(who: &Identity, of: Review, body: &[u8], store: &Store) -> Result<Value, ApiError> {
    permitted(who, of, store)?;
    let bad = |why: String| ApiError::BadRequest(why);
    let mut review: Value = match protobuf::json(body) {
        Some(review) => review,
        None => {
            serde_json::from_slice(body).map_err(|error| bad(format!("the body is not JSON: {error}")))?
        }
    };
    (review["apiVersion"], review["kind"]) = (json!("authorization.k8s.io/v1"), json!(of.kind()));
    let about = match of {
        Review::SelfSubject => who.clone(),
        Review::Subject => subject(&review["spec"])?,
    };
    review["status"] = json!({ "allowed": is_allowed(&about, &review["spec"], store)? });
    Ok(review)
}

fn permitted(who: &Identity, of: Review, store: &Store) -> Result<(), ApiError> {
    let question = Attributes {
        verb: Verb::Create,
        group: REVIEWS.to_owned(),
        resource: of.plural(),
        namespace: None,
        name: None,
    };
    let may = match of {
        Review::SelfSubject => *who != Identity::Anonymous,
        Review::Subject => access::may(who, &question, store),
    };
    if may {
        return Ok(());
    }
    let Attributes { group, resource, .. } = question;
    Err(ApiError::Forbidden(format!(
        "{resource}.{group} is forbidden: User \"{}\" cannot create resource \"{resource}\" in API group \"{group}\" at the cluster \
         scope",
        who.user()
    )))
}

/// Subject of a `SubjectAccessReview`.
fn subject(spec: &Value) -> Result<Identity, ApiError> {
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups: Vec<_> = groups.filter_map(|group| group.as_str().map(str::to_owned)).collect();
    let name = spec["user"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() && groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(ApiError::BadRequest(format!("spec.user: Invalid value: \"\": {why}")));
    }
    Ok(Identity::User { name, groups })
}

fn is_allowed(who: &Identity, spec: &Value, store: &Store) -> Result<bool, ApiError> {
    if let Some(path) = spec["nonResourceAttributes"]["path"].as_str() {
        let public = ["/api", "/healthz", "/livez", "/openapi", "/readyz", "/version"];
        return Ok(access::is_master(who) || public.iter().any(|known| path.starts_with(known)));
    }
    let asked = &spec["resourceAttributes"];
    if !asked.is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return Err(ApiError::BadRequest(format!("spec.resourceAttributes: Invalid value: null: {why}")));
    }
    let text = |field: &str| asked[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let verb = text("verb").unwrap_or_default();
    let Some(verb) = Verb::ALL.into_iter().find(|one| one.to_string() == verb) else {
        // Nobody but the administrator may do what nobody knows, or everything.
        return Ok(access::is_master(who));
    };
    let resource = text("resource").unwrap_or_default();
    let request = Attributes {
        verb,
        group: text("group").unwrap_or_default(),
        resource: text("subresource").map_or(resource.clone(), |sub| format!("{resource}/{sub}")),
        namespace: text("namespace"),
        name: text("name"),
    };
    Ok(access::may(who, &request, store))
}
