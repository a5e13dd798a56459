// SPDX-License-Identifier: Apache-2.0
//! A request on a resource (all but watches): parameters and body in, one call of the store, the answer's code and body out.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::access::Access;
use crate::error::ApiError;
use crate::list::{self, List};
use crate::patch::{PatchKind, patched};
use crate::route::{Query, Target, Verb};
use crate::selector::Selector;
use crate::store::{Collection, DeleteOptions, Deletion, Key, Part, Propagation, Store};

/// A request's parameters.
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    /// Reads see what was so many changes ago.
    pub(crate) past: u64,
}

/// What a request is answered with.
pub(crate) enum Outcome {
    Value(Value),
    Object(Arc<Value>),
    List(List),
}

impl Outcome {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Value(value) => value.to_string().into_bytes(),
            Self::Object(object) => object.to_string().into_bytes(),
            Self::List(list) => list.bytes(),
        }
    }
}

pub(crate) type Answer = Result<(StatusCode, Outcome), ApiError>;

impl Call {
    /// The body as JSON; `Null` if there is none.
    fn json(&self) -> Result<Value, ApiError> {
        let readable =
            ["", "application/json"].contains(&self.content_type.split(';').next().unwrap_or("").trim());
        if !readable && self.verb != Verb::Patch {
            return Err(ApiError::MediaType(self.content_type.clone()));
        }
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::BadRequest(format!("the body is not JSON: {error}")))
    }

    pub(crate) fn selector(&self, collection: &Collection) -> Result<Selector, ApiError> {
        Selector::parse(collection.kind, self.query.get("labelSelector"), self.query.get("fieldSelector"))
    }
}

/// Does what is asked. With `dryRun`, to a copy.
pub(crate) fn operate(
    call: &Call,
    target: &Target,
    store: &mut Store,
    access: &mut Access,
    now: Timestamp,
) -> Answer {
    if call.past > 0 && matches!(call.verb, Verb::Get | Verb::List) {
        return on_resource(call, target, &mut store.before(call.past), access, now);
    }
    if call.query.get("dryRun").is_some() {
        return on_resource(call, target, &mut store.clone(), access, now);
    }
    on_resource(call, target, store, access, now)
}

fn on_resource(
    call: &Call,
    target: &Target,
    store: &mut Store,
    access: &mut Access,
    now: Timestamp,
) -> Answer {
    let Target::Resource { collection, name, subresource } = target else { return Err(ApiError::NoSuchPath) };
    let ok = |object: Arc<Value>| Ok((StatusCode::OK, Outcome::Object(object)));
    let Some(name) = name else {
        return match call.verb {
            Verb::List => Ok((StatusCode::OK, Outcome::List(list::list(call, collection, store)?))),
            Verb::Create if !collection.needs_namespace() => {
                let created = store.create(collection, call.json()?, now)?;
                Ok((StatusCode::CREATED, Outcome::Object(created)))
            }
            Verb::DeleteCollection => delete_all(call, collection, store, now),
            _ => Err(ApiError::MethodNotAllowed),
        };
    };
    let key = collection.key(name);
    let part = if subresource.is_some() { Part::Status } else { Part::Main };
    match (call.verb, subresource.as_deref()) {
        (Verb::Get, None | Some("status")) => ok(store.get(&key)?),
        (Verb::Update, None | Some("status")) => ok(store.update(&key, call.json()?, part)?),
        (Verb::Patch, None | Some("status")) => patch(call, collection, &key, part, store, now),
        (Verb::Delete, None) => delete(call, &key, store, now),
        (Verb::Create, Some("binding")) => {
            store.bind(&key, &call.json()?)?;
            let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
            Ok((StatusCode::CREATED, Outcome::Value(done)))
        }
        (Verb::Create, Some("token")) => {
            let issued = access.issue(&key, &call.json()?, store, now)?;
            Ok((StatusCode::CREATED, Outcome::Value(issued)))
        }
        _ => Err(ApiError::MethodNotAllowed),
    }
}

fn patch(
    call: &Call,
    collection: &Collection,
    key: &Key,
    part: Part,
    store: &mut Store,
    now: Timestamp,
) -> Answer {
    let kind = PatchKind::of(&call.content_type)?;
    let body = call.json()?;
    match store.get(key) {
        Ok(old) => {
            // A resource version in the patch is now in the object: one that is not the current one conflicts.
            let object = patched(&old, &body, kind)?;
            Ok((StatusCode::OK, Outcome::Object(store.update(key, object, part)?)))
        }
        Err(_) if kind == PatchKind::Apply && part == Part::Main => {
            let mut object = patched(&json!({"metadata": {"name": key.name}}), &body, kind)?;
            object["metadata"]["name"] = json!(key.name);
            Ok((StatusCode::CREATED, Outcome::Object(store.create(collection, object, now)?)))
        }
        Err(error) => Err(error),
    }
}

fn delete_options(call: &Call) -> Result<DeleteOptions, ApiError> {
    let mut options = DeleteOptions::from_body(&call.json()?)?;
    if let Some(grace) = call.query.number("gracePeriodSeconds")? {
        options.grace = Some(u32::try_from(grace).unwrap_or(u32::MAX));
    }
    if let Some(policy) = call.query.get("propagationPolicy") {
        options.propagation = Propagation::of(policy)?;
    }
    Ok(options)
}

fn delete(call: &Call, key: &Key, store: &mut Store, now: Timestamp) -> Answer {
    let answer = match store.delete(key, &delete_options(call)?, now)? {
        Deletion::Gone(object) if key.kind.name != "Pod" => {
            let details = json!({"name": key.name, "group": key.kind.group, "kind": key.kind.plural,
                                 "uid": object["metadata"]["uid"]});
            let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                              "details": details});
            Outcome::Value(done)
        }
        Deletion::Gone(object) | Deletion::Pending(object) => Outcome::Object(object),
    };
    Ok((StatusCode::OK, answer))
}

fn delete_all(call: &Call, collection: &Collection, store: &mut Store, now: Timestamp) -> Answer {
    let (options, selector) = (delete_options(call)?, call.selector(collection)?);
    let keys: Vec<Key> = store.list(collection, &selector).map(|(key, _)| key.clone()).collect();
    let mut objects = Vec::new();
    for key in keys {
        match store.delete(&key, &options, now) {
            Ok(Deletion::Gone(object) | Deletion::Pending(object)) => objects.push(object),
            // It went with its owner, which was in the list as well.
            Err(ApiError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((StatusCode::OK, Outcome::List(List::new(collection, store, objects))))
}
