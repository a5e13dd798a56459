// SPDX-License-Identifier: Apache-2.0
//! A request on a resource (all but watches): parameters and body in, one call of the store, the answer's code and body out.

use std::sync::Arc;

use http::StatusCode;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::access::Access;
use crate::admission::{Operation, Proposal, admit, warning};
use crate::answer::encoded;
use crate::apply::{Applier, applied};
use crate::call::Call;
use crate::causes::about;
use crate::error::ApiError;
use crate::kinds::{Backing, Kind};
use crate::list::{self, List};
use crate::options;
use crate::patch::{PatchKind, patched};
use crate::rbac::Attributes;
use crate::route::{Target, Verb, number};
use crate::scale;
use crate::store::{Collection, DeleteOptions, Deletion, Key, Part, Propagation, Store, Write};
use crate::table::{Form, metadata_of, table};

/// Result of a request.
pub(crate) enum Outcome {
    Value(Value),
    Object(Arc<Value>),
    List(List),
}

impl Outcome {
    /// Body of the response.
    pub(crate) fn bytes(&self, kind: &Kind, form: Form, now: Timestamp) -> Vec<u8> {
        match (self, form) {
            (Self::Value(value), _) => encoded(value),
            (Self::Object(object), Form::Object) => encoded(object),
            (Self::List(list), Form::Object) => list.bytes(),
            (Self::Object(object), Form::Table(include)) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                encoded(&table(kind, [&**object], &metadata, include, now, true))
            }
            (Self::Object(object), Form::Metadata) => encoded(&metadata_of(object)),
            (Self::List(list), Form::Metadata) => encoded(&list.metadata()),
            (Self::List(list), Form::Table(include)) => encoded(&list.table(kind, include, now)),
        }
    }
}

/// Those of patches of kinds that a definition brings.
const PATCHES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
/// Kinds whose deletion is answered with the object.
const SHOWN: [&str; 3] = ["Pod", "ServiceAccount", "Service"];

pub(crate) type Handled = Result<(StatusCode, Outcome), ApiError>;

/// Executes a request. With `dryRun`, on a copy.
pub(crate) fn operate(
    call: &Call,
    target: &Target,
    store: &mut Store,
    access: &mut Access,
    now: Timestamp,
) -> Handled {
    options::check(call.verb, &call.query, PatchKind::of(&call.content_type) == Ok(PatchKind::Apply))?;
    if call.is_dry_run() {
        let (code, mut outcome) = on_resource(call, target, &mut store.clone(), access, now)?;
        if let (StatusCode::CREATED, Outcome::Object(object)) = (code, &mut outcome)
            && let Some(metadata) = Arc::make_mut(object)["metadata"].as_object_mut()
        {
            // Nothing was stored.
            metadata.remove("resourceVersion");
        }
        return Ok((code, outcome));
    }
    on_resource(call, target, store, access, now)
}

fn on_resource(
    call: &Call,
    target: &Target,
    store: &mut Store,
    access: &mut Access,
    now: Timestamp,
) -> Handled {
    let Target::Resource { collection, name, subresource } = target else { return Err(ApiError::NoSuchPath) };
    let ok = |object: Arc<Value>| Ok((StatusCode::OK, Outcome::Object(object)));
    let Some(name) = name else {
        return match call.verb {
            Verb::List => Ok((StatusCode::OK, Outcome::List(list::list(call, collection, store)?))),
            Verb::Create if !collection.needs_namespace() => {
                let object = call.object(collection.kind, call.json()?, None)?;
                if object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
                    let why = "resourceVersion should not be set on objects to be created";
                    return Err(ApiError::Plain(why.to_owned()));
                }
                let write = store.creation(collection, object, now)?;
                Ok((StatusCode::CREATED, Outcome::Object(write_admitted(call, None, write, store)?)))
            }
            Verb::DeleteCollection if !collection.needs_namespace() => {
                delete_all(call, collection, store, now)
            }
            _ => Err(ApiError::MethodNotAllowed),
        };
    };
    let key = collection.key(name);
    let part = if subresource.is_some() { Part::Status } else { Part::Main };
    match (call.verb, subresource.as_deref()) {
        (Verb::Get, None | Some("status")) => ok(store.get(&key)?),
        (Verb::Get, Some("scale")) => Ok((StatusCode::OK, Outcome::Value(scale::of(&*store.get(&key)?)))),
        (Verb::Update | Verb::Patch, Some("scale")) => rescale(call, &key, store),
        (Verb::Update, None | Some("status")) => {
            let object = call.object(key.kind, call.json()?, None)?;
            if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
                let why = format!(
                    "the name of the object ({name} based on URL) was undeterminable: name must be provided"
                );
                return Err(ApiError::BadRequest(why));
            }
            let write = store.replacement(&key, object, part)?;
            ok(write_admitted(call, subresource.as_deref(), write, store)?)
        }
        (Verb::Patch, None) if call.creates(&key, store) && !call.may_create(target, store) => {
            let create = Attributes::of(Verb::Create, target, None).ok_or(ApiError::NoSuchPath)?;
            Err(create.refusal(key.kind, &call.who.user()))
        }
        (Verb::Patch, None | Some("status")) => patch(call, collection, &key, part, store, now),
        (Verb::Delete, None) => delete(call, &key, store, now),
        (Verb::Create, Some(action)) => act(call, &key, action, store, access, now),
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// Changes the number of replicas alone.
fn rescale(call: &Call, key: &Key, store: &mut Store) -> Handled {
    let old = store.get(key)?;
    let body = call.json()?;
    let scale = match call.verb {
        Verb::Patch => patched(&scale::of(&old), &body, PatchKind::of(&call.content_type)?)?,
        _ => body,
    };
    let object = scale::applied(&old, &scale).map_err(|why| ApiError::Scale(key.name.clone(), why.into()))?;
    let write = store.replacement(key, object, Part::Main)?;
    let new = write_admitted(call, Some("scale"), write, store)?;
    Ok((StatusCode::OK, Outcome::Value(scale::of(&new))))
}

/// Create of a subresource of an object.
fn act(
    call: &Call,
    key: &Key,
    action: &str,
    store: &mut Store,
    access: &mut Access,
    now: Timestamp,
) -> Handled {
    let body = call.json()?;
    let proposal = Proposal {
        operation: Operation::Create,
        key,
        subresource: Some(action),
        object: Some(&body),
        old: None,
        dry_run: call.is_dry_run(),
    };
    admit(&call.who, &proposal, store)?;
    match action {
        "binding" => {
            store.bind(key, &body)?;
            let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
            Ok((StatusCode::CREATED, Outcome::Value(done)))
        }
        "eviction" => {
            // Budgets for disruptions are not counted: every eviction is granted.
            let options = DeleteOptions::from_body(&body["deleteOptions"])?;
            if body["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty() && name != key.name) {
                let why = "name in URL does not match name in Eviction object";
                return Err(ApiError::BadRequest(why.to_owned()));
            }
            admit_deletion(call, key, store)?;
            store.disrupt(key, &options, now)?;
            // A real API server puts the version of its own change, the condition, in place of the precondition's.
            let options = DeleteOptions { resource_version: None, ..options };
            store.delete(key, &options, now)?;
            let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
            Ok((StatusCode::CREATED, Outcome::Value(done)))
        }
        "token" => {
            let issued = access.issue(key, &body, store, now)?;
            Ok((StatusCode::CREATED, Outcome::Value(issued)))
        }
        _ => Err(ApiError::MethodNotAllowed),
    }
}

/// Executes a decided write, unless a policy denies it.
fn write_admitted(
    call: &Call,
    subresource: Option<&str>,
    write: Write,
    store: &mut Store,
) -> Result<Arc<Value>, ApiError> {
    let proposal = Proposal {
        operation: if write.old.is_some() { Operation::Update } else { Operation::Create },
        key: &write.key,
        subresource,
        object: Some(&write.object),
        old: write.old.as_deref(),
        dry_run: call.is_dry_run(),
    };
    admit(&call.who, &proposal, store)?;
    call.warnings.lock().extend(warning(&proposal, store));
    Ok(store.carry_out(write))
}

/// Admission of a deletion.
fn admit_deletion(call: &Call, key: &Key, store: &Store) -> Result<(), ApiError> {
    let old = store.get(key)?;
    let proposal = Proposal {
        operation: Operation::Delete,
        key,
        subresource: None,
        object: None,
        old: Some(&old),
        dry_run: call.is_dry_run(),
    };
    admit(&call.who, &proposal, store)
}

fn patch(
    call: &Call,
    collection: &Collection,
    key: &Key,
    part: Part,
    store: &mut Store,
    now: Timestamp,
) -> Handled {
    let kind = PatchKind::of(&call.content_type)?;
    if kind == PatchKind::Strategic && key.kind.backing == Backing::Definition {
        return Err(ApiError::MediaType(PATCHES));
    }
    let (body, old) = (call.json()?, store.get(key));
    let subresource = (part == Part::Status).then_some("status");
    let object = match (&old, kind) {
        (_, PatchKind::Apply) => {
            let manager = call.query.get("fieldManager").unwrap_or_default();
            let by = Applier { manager, force: call.query.is_true("force") };
            applied(key, old.as_deref().ok(), &body, &by)?
        }
        (Ok(old), _) => patched(old, &body, kind)?,
        (Err(error), _) => return Err(error.clone()),
    };
    let object = call.object(key.kind, object, old.as_deref().ok())?;
    // A resource version in the patch is now in the object: one that is not the current one conflicts.
    let (code, write) = match old {
        Ok(_) => (StatusCode::OK, store.replacement(key, object, part)?),
        Err(_) if part == Part::Main => (StatusCode::CREATED, store.creation(collection, object, now)?),
        Err(error) => return Err(error),
    };
    Ok((code, Outcome::Object(write_admitted(call, subresource, write, store)?)))
}

fn delete_options(call: &Call) -> Result<DeleteOptions, ApiError> {
    let mut options = DeleteOptions::from_body(&call.json()?)?;
    if let Some(grace) = number(&call.query, "gracePeriodSeconds")? {
        options.grace = Some(u32::try_from(grace).unwrap_or(u32::MAX));
    }
    if let Some(policy) = call.query.get("propagationPolicy") {
        options.propagation = Propagation::of(policy)?;
    }
    Ok(options)
}

fn delete(call: &Call, key: &Key, store: &mut Store, now: Timestamp) -> Handled {
    let options = delete_options(call)?;
    admit_deletion(call, key, store)?;
    let answer = match store.delete(key, &options, now)? {
        Deletion::Gone(object) if !SHOWN.contains(&key.kind.name) => {
            let mut details = about(&key.name, key.kind.group, key.kind.plural);
            details["uid"] = object["metadata"]["uid"].clone();
            let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                              "details": details});
            Outcome::Value(done)
        }
        Deletion::Gone(object) | Deletion::Pending(object) => Outcome::Object(object),
    };
    Ok((StatusCode::OK, answer))
}

fn delete_all(call: &Call, collection: &Collection, store: &mut Store, now: Timestamp) -> Handled {
    let (options, selector) = (delete_options(call)?, call.selector(collection)?);
    let keys: Vec<Key> = store.list(collection, &selector).map(|(key, _)| key.clone()).collect();
    let mut objects = Vec::new();
    for key in keys {
        match admit_deletion(call, &key, store).and_then(|()| store.delete(&key, &options, now)) {
            Ok(Deletion::Gone(object) | Deletion::Pending(object)) => objects.push(object),
            // It went with its owner, which was in the list as well.
            Err(ApiError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok((StatusCode::OK, Outcome::List(List::new(collection, store, objects))))
}
