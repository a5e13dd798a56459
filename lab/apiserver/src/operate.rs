// SPDX-License-Identifier: Apache-2.0
//! A request on a resource (all but watches): parameters and body in, one call of the store, the answer's code and body out.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::access::Access;
use crate::error::ApiError;
use crate::patch::{PatchKind, patched};
use crate::route::{Query, Target, Verb};
use crate::selector::Selector;
use crate::store::{Collection, DeleteOptions, Deletion, Key, Part, Store};

/// A request's parameters.
pub(crate) struct Call {
    pub(crate) verb: Verb,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
}

pub(crate) type Answer = Result<(StatusCode, Value), ApiError>;

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
    let ok = |object: Arc<Value>| Ok((StatusCode::OK, (*object).clone()));
    let Some(name) = name else {
        return match call.verb {
            Verb::List => list(call, collection, store),
            Verb::Create if !collection.needs_namespace() => {
                let created = store.create(collection, call.json()?, now)?;
                Ok((StatusCode::CREATED, (*created).clone()))
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
            Ok((
                StatusCode::CREATED,
                json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
            ))
        }
        (Verb::Create, Some("token")) => {
            Ok((StatusCode::CREATED, access.issue(&key, &call.json()?, store, now)?))
        }
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// `limit` is ignored, as the API allows: the whole list is one page.
fn list(call: &Call, collection: &Collection, store: &Store) -> Answer {
    let asked = call.query.number("resourceVersion")?.unwrap_or(0);
    if asked > store.revision() {
        return Err(ApiError::TooLargeVersion { asked, current: store.revision() });
    }
    if call.query.get("resourceVersionMatch") == Some("Exact") && asked != store.revision() {
        return Err(ApiError::Expired { asked, oldest: store.revision() });
    }
    let selector = call.selector(collection)?;
    Ok((
        StatusCode::OK,
        as_list(collection, store, store.list(collection, &selector).map(|(_, object)| object)),
    ))
}

fn as_list<'a>(
    collection: &Collection,
    store: &Store,
    objects: impl Iterator<Item = &'a Arc<Value>>,
) -> Value {
    let bare = |object: &Arc<Value>| {
        let mut object = (**object).clone();
        if let Some(fields) = object.as_object_mut() {
            // The real server leaves both out of a list's items.
            fields.remove("kind");
            fields.remove("apiVersion");
        }
        object
    };
    json!({
        "kind": format!("{}List", collection.kind.name), "apiVersion": collection.kind.api_version(),
        "metadata": {"resourceVersion": store.revision().to_string()},
        "items": objects.map(bare).collect::<Vec<_>>(),
    })
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
            let mut object = patched(&old, &body, kind)?;
            if body["metadata"]["resourceVersion"].is_null() {
                object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
            }
            Ok((StatusCode::OK, (*store.update(key, object, part)?).clone()))
        }
        Err(_) if kind == PatchKind::Apply && part == Part::Main => {
            let mut object = patched(&json!({"metadata": {"name": key.name}}), &body, kind)?;
            object["metadata"]["name"] = json!(key.name);
            Ok((StatusCode::CREATED, (*store.create(collection, object, now)?).clone()))
        }
        Err(error) => Err(error),
    }
}

fn delete_options(call: &Call) -> Result<DeleteOptions, ApiError> {
    let mut options = DeleteOptions::from_body(&call.json()?);
    if let Some(grace) = call.query.number("gracePeriodSeconds")? {
        options.grace = Some(u32::try_from(grace).unwrap_or(u32::MAX));
    }
    Ok(options)
}

fn delete(call: &Call, key: &Key, store: &mut Store, now: Timestamp) -> Answer {
    let answer = match store.delete(key, &delete_options(call)?, now)? {
        Deletion::Gone(object) if key.kind.name != "Pod" => {
            let details = json!({"name": key.name, "group": key.kind.group, "kind": key.kind.plural,
                                 "uid": object["metadata"]["uid"]});
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
        }
        Deletion::Gone(object) | Deletion::Pending(object) => (*object).clone(),
    };
    Ok((StatusCode::OK, answer))
}

fn delete_all(call: &Call, collection: &Collection, store: &mut Store, now: Timestamp) -> Answer {
    let (options, selector) = (delete_options(call)?, call.selector(collection)?);
    let keys: Vec<Key> = store.list(collection, &selector).map(|(key, _)| key.clone()).collect();
    let mut objects = Vec::new();
    for key in keys {
        let (Deletion::Gone(object) | Deletion::Pending(object)) = store.delete(&key, &options, now)?;
        objects.push(object);
    }
    Ok((StatusCode::OK, as_list(collection, store, objects.iter())))
}
