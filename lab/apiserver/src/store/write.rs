// SPDX-License-Identifier: Apache-2.0
//! Creates and updates: what the server fills in, what it keeps from before, and which preconditions it checks.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Action, Collection, Key, Store};
use crate::accounts;
use crate::error::ApiError;
use crate::kinds::{self, Kind, Scope, StatusRule};
use crate::{defaults, workloads};

/// Part of an object that an update may change. The rest is kept, whatever was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All but `status`, where that is a subresource.
    Main,
    /// `status` and metadata (the real server takes labels and annotations through it, too).
    Status,
    /// Everything: for the lab itself, no request can do this.
    Whole,
}

/// Immutable metadata.
const FIXED: [&str; 6] =
    ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// A create or an update that is decided and not yet committed.
#[derive(Debug)]
pub(crate) struct Write {
    /// Key of the object.
    pub(crate) key: Key,
    /// Object before it, if it is an update.
    pub(crate) old: Option<Arc<Value>>,
    /// Object after it.
    pub(crate) object: Value,
}

impl Store {
    /// Creates an object in a collection.
    ///
    /// # Errors
    /// The namespace is not there, the name is taken, or the object does not fit the collection.
    pub fn create(
        &mut self,
        into: &Collection,
        object: Value,
        now: Timestamp,
    ) -> Result<Arc<Value>, ApiError> {
        let write = self.creation(into, object, now)?;
        Ok(self.carry_out(write))
    }

    /// Decides [`Store::create`].
    pub(crate) fn creation(
        &mut self,
        into: &Collection,
        mut object: Value,
        now: Timestamp,
    ) -> Result<Write, ApiError> {
        let (name, namespace) = identify(into.kind, &mut object)?;
        let key = self.vacant_key(into, &mut object, name, namespace)?;
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(self.ids.uid());
        metadata["creationTimestamp"] = json!(seconds(now));
        if key.kind.scope == Scope::Namespaced {
            metadata["namespace"] = json!(key.namespace);
        }
        if let Some(metadata) = metadata.as_object_mut() {
            for given in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
                metadata.remove(given);
            }
        }
        first_status(key.kind, &mut object);
        defaults::fill_in(key.kind.name, &key.name, &mut object);
        (self.validate)(&key, None, &object)?;
        if let Some(account) = self.account_of(&key, &object)? {
            let suffix = self.ids.suffix();
            accounts::mount_token(&mut object["spec"], &account, &suffix);
        }
        Ok(Write { key, old: None, object })
    }

    /// Nobody runs a pod under an account that is not there, as the admission plugin `ServiceAccount` has it: whoever creates it tries again.
    fn account_of(&self, key: &Key, object: &Value) -> Result<Option<Arc<Value>>, ApiError> {
        let name = object["spec"]["serviceAccountName"].as_str();
        let (Some(name), "Pod") = (name, key.kind.name) else { return Ok(None) };
        let (kind, namespace) = (&kinds::SERVICE_ACCOUNT, key.namespace.clone());
        let account = Key { kind, namespace, name: name.to_owned() };
        if let Some(account) = self.objects.get(&account) {
            return Ok(Some(Arc::clone(account)));
        }
        let place = &key.namespace;
        let why =
            format!("error looking up service account {place}/{name}: serviceaccount \"{name}\" not found");
        Err(ApiError::Denied { kind: key.kind, name: Some(key.name.clone()), why })
    }

    /// Commits a decided write. The store must not have changed since.
    pub(crate) fn carry_out(&mut self, write: Write) -> Arc<Value> {
        let Write { key, old, object } = write;
        let Some(old) = old else {
            let created = self.commit(key, Action::Added, object);
            self.populate_namespace(&created);
            return created;
        };
        if object == *old {
            return old;
        }
        let last_finalizer_gone = !old["metadata"]["deletionTimestamp"].is_null()
            && old["metadata"]["deletionGracePeriodSeconds"].as_u64() == Some(0)
            && !super::delete::has_finalizers(&object);
        let action = if last_finalizer_gone { Action::Deleted } else { Action::Modified };
        let updated = self.commit(key, action, object);
        if action == Action::Deleted {
            self.depart(&updated);
        }
        updated
    }

    /// Adds the account `default` and the ConfigMap `kube-root-ca.crt` to a new namespace, as the controllers of service accounts and of the root CA do
    /// a moment later.
    fn populate_namespace(&mut self, namespace: &Value) {
        if namespace["kind"] != "Namespace" {
            return;
        }
        let text = |field: &str| namespace["metadata"][field].as_str().unwrap_or_default();
        let Ok(born) = text("creationTimestamp").parse() else { return };
        let own = [
            (&kinds::SERVICE_ACCOUNT, json!({ "metadata": { "name": "default" } })),
            (&kinds::CONFIG_MAP, accounts::root_ca(text("name"), &self.root_ca)),
        ];
        for (kind, object) in own {
            // In a namespace that was not there a moment ago nobody has taken the name.
            let _new =
                self.create(&Collection { kind, namespace: Some(text("name").to_owned()) }, object, born);
        }
    }

    fn vacant_key(
        &mut self,
        into: &Collection,
        object: &mut Value,
        name: Option<String>,
        namespace: Option<String>,
    ) -> Result<Key, ApiError> {
        let prefix = object["metadata"]["generateName"].as_str().map(str::to_owned);
        let mut key = into.key(&name.clone().unwrap_or_default());
        if namespace.is_some_and(|namespace| namespace != key.namespace) {
            return Err(ApiError::BadRequest(OTHER_NAMESPACE.to_owned()));
        }
        self.require_namespace(&key)?;
        match (name, prefix) {
            (Some(name), _) if self.objects.contains_key(&key) => {
                let (kind, ending) =
                    (key.kind, !self.objects[&key]["metadata"]["deletionTimestamp"].is_null());
                return Err(if ending {
                    ApiError::Ending { kind, name }
                } else {
                    ApiError::AlreadyExists { kind, name }
                });
            }
            (Some(_), _) => {}
            (None, Some(prefix)) => {
                while key.name.is_empty() || self.objects.contains_key(&key) {
                    key.name = format!("{prefix}{}", self.ids.suffix());
                }
                object["metadata"]["name"] = json!(key.name);
            }
            (None, None) => {
                let why = "metadata.name: Required value: name or generateName is required".to_owned();
                return Err(ApiError::Invalid { kind: key.kind, name: String::new(), why: why.into() });
            }
        }
        Ok(key)
    }

    /// Replaces part of an object. An update that changes nothing makes no resource version and no event.
    ///
    /// # Errors
    /// It is not there, or a resource version or uid in the object is not the current one.
    pub fn update(&mut self, key: &Key, object: Value, part: Part) -> Result<Arc<Value>, ApiError> {
        let write = self.replacement(key, object, part)?;
        Ok(self.carry_out(write))
    }

    /// Decides [`Store::update`].
    pub(crate) fn replacement(&self, key: &Key, mut object: Value, part: Part) -> Result<Write, ApiError> {
        let old = self.get(key)?;
        let (name, namespace) = identify(key.kind, &mut object)?;
        if let Some(name) = name.filter(|name| *name != key.name) {
            let why =
                format!("the name of the object ({name}) does not match the name on the URL ({})", key.name);
            return Err(ApiError::BadRequest(why));
        }
        if namespace.is_some_and(|one| one != key.namespace) {
            return Err(ApiError::BadRequest(OTHER_NAMESPACE.to_owned()));
        }
        self.check_versions(key, &old, &object["metadata"])?;
        if key.kind.has_status() {
            keep_other_part(&old, &mut object, part);
        }
        defaults::fill_in(key.kind.name, &key.name, &mut object);
        for field in FIXED.iter().chain(&["resourceVersion", "generation"]) {
            carry(&old["metadata"], &mut object["metadata"], field);
        }
        (self.validate)(key, Some(&old), &object)?;
        if key.kind.has_status() && object["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or(1);
            object["metadata"]["generation"] = json!(generation + 1);
        }
        Ok(Write { key: key.clone(), old: Some(old), object })
    }

    /// Gives a pod to a node, as a scheduler does through the `binding` subresource.
    ///
    /// # Errors
    /// The pod is not there, or has a node.
    pub fn bind(&mut self, key: &Key, binding: &Value) -> Result<(), ApiError> {
        let old = self.get(key)?;
        let Some(node) = binding["target"]["name"].as_str() else {
            return Err(ApiError::BadRequest("target.name is required".to_owned()));
        };
        if let Some(assigned) = old["spec"]["nodeName"].as_str() {
            let why = format!("pod {} is already assigned to node \"{assigned}\"", key.name);
            return Err(key.conflict(why));
        }
        let mut object = (*old).clone();
        object["spec"]["nodeName"] = json!(node);
        object["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True"}]);
        self.commit(key.clone(), Action::Modified, object);
        Ok(())
    }

    /// Rejects failed preconditions (`uid`, `resourceVersion`).
    pub(super) fn check_versions(&self, key: &Key, old: &Value, wanted: &Value) -> Result<(), ApiError> {
        let differs = |field: &str| {
            let wanted = wanted[field].as_str().filter(|text| !text.is_empty());
            wanted.is_some_and(|wanted| old["metadata"][field] != *wanted)
        };
        if differs("uid") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (wanted, had) = (text(&wanted["uid"]), text(&old["metadata"]["uid"]));
            let place =
                [key.kind.plural, &key.namespace, &key.name].into_iter().filter(|part| !part.is_empty());
            return Err(key.conflict(format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {wanted}, UID in object meta: {had}",
                place.collect::<Vec<_>>().join("/")
            )));
        }
        if differs("resourceVersion") {
            let why =
                "the object has been modified; please apply your changes to the latest version and try again";
            return Err(key.conflict(why));
        }
        Ok(())
    }
}

/// The name and the namespace in an object; `kind` and `apiVersion` are checked, or set if absent.
fn identify(kind: &Kind, object: &mut Value) -> Result<(Option<String>, Option<String>), ApiError> {
    if !object.is_object() {
        return Err(ApiError::BadRequest("the body is not an object".to_owned()));
    }
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    for (field, wanted) in [("kind", kind.name.to_owned()), ("apiVersion", kind.api_version())] {
        match object[field].as_str() {
            None | Some("") => object[field] = json!(wanted),
            Some(given) if given == wanted => {}
            Some(given) => {
                return Err(ApiError::BadRequest(format!("{field} is {given:?}, {wanted:?} was expected")));
            }
        }
    }
    let maps = [&object["spec"], &object["status"], &object["metadata"]["labels"]];
    if kind.has_status() && maps.iter().any(|map| !map.is_object() && !map.is_null()) {
        return Err(ApiError::BadRequest("spec, status and metadata.labels must be objects".to_owned()));
    }
    let text =
        |field: &str| object["metadata"][field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Ok((text("name"), text("namespace")))
}

fn first_status(kind: &Kind, object: &mut Value) {
    match kind.status {
        StatusRule::Absent => {}
        StatusRule::Kept if !object["status"].is_null() => {}
        StatusRule::Kept => object["status"] = json!({}),
        StatusRule::Reset(phase) => {
            object["status"] = phase.map_or_else(|| json!({}), |phase| json!({"phase": phase}));
        }
    }
    if workloads::KINDS.contains(&kind.name) || kind.name == "Pod" {
        object["metadata"]["generation"] = json!(1);
    }
    if kind.name == "DaemonSet" {
        for count in ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"]
        {
            object["status"][count] = json!(0);
        }
    }
}

fn keep_other_part(old: &Value, object: &mut Value, part: Part) {
    match part {
        Part::Main => carry(old, object, "status"),
        Part::Status => {
            let sent = std::mem::replace(object, old.clone());
            carry(&sent, object, "metadata");
            carry(&sent, object, "status");
            carry(&old["metadata"], &mut object["metadata"], "ownerReferences");
        }
        Part::Whole => {}
    }
}

/// Restores a field.
fn carry(old: &Value, new: &mut Value, field: &str) {
    match (old.get(field), new.as_object_mut()) {
        (Some(value), Some(new)) => drop(new.insert(field.to_owned(), value.clone())),
        (None, Some(new)) => drop(new.remove(field)),
        (_, None) => {}
    }
}

/// RFC 3339 in whole seconds, as `metav1.Time` is written.
pub(crate) fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}
