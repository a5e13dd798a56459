// SPDX-License-Identifier: Apache-2.0
//! Deletions: graceful for pods, held by finalizers, with preconditions. What follows from one (dependents, the objects of a namespace) is a
//! controller's work, a moment later: see `follow`. A definition takes its objects with it at once.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::write::seconds;
use super::{Action, Collection, Key, Store};
use crate::error::ApiError;
use crate::kinds::{self, Backing, KINDS, Kind};
use crate::selector::Selector;

/// Options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`; the pod's own if absent.
    pub grace: Option<u32>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    /// `propagationPolicy`.
    pub propagation: Propagation,
}

/// Fate of an object's dependents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Deleted after it.
    #[default]
    Background,
    /// They are deleted before it; until the last of them is gone it is there, with a `deletionTimestamp`.
    Foreground,
    /// Kept.
    Orphan,
}

impl Propagation {
    /// From `propagationPolicy`.
    ///
    /// # Errors
    /// [`ApiError::Options`] for an unknown policy.
    pub fn of(policy: &str) -> Result<Self, ApiError> {
        match policy {
            "" | "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            "Orphan" => Ok(Self::Orphan),
            other => {
                let supported = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
                let why =
                    format!("propagationPolicy: Unsupported value: {other:?}: supported values: {supported}");
                Err(ApiError::Options { kind: "DeleteOptions", why: why.into() })
            }
        }
    }
}

impl DeleteOptions {
    /// From the request's body (`DeleteOptions`), or `Null`.
    ///
    /// # Errors
    /// [`ApiError::Options`] for an unknown propagation policy, or two.
    pub fn from_body(body: &Value) -> Result<Self, ApiError> {
        let text = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
        // A real server makes 1 of a negative one.
        let grace = body["gracePeriodSeconds"].as_i64().map(|grace| u32::try_from(grace).unwrap_or(1));
        if let Some(policy) =
            body["propagationPolicy"].as_str().filter(|_| !body["orphanDependents"].is_null())
        {
            let both = "orphanDependents and deletionPropagation cannot be both set";
            let why = format!("propagationPolicy: Invalid value: {policy:?}: {both}");
            return Err(ApiError::Options { kind: "DeleteOptions", why: why.into() });
        }
        let propagation = Propagation::of(body["propagationPolicy"].as_str().unwrap_or_default())?;
        Ok(Self { grace, uid: text("uid"), resource_version: text("resourceVersion"), propagation })
    }

    #[must_use]
    pub fn now() -> Self {
        Self { grace: Some(0), ..Self::default() }
    }
}

/// Result of a deletion.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    /// Deleted; its last state.
    Gone(Arc<Value>),
    /// It has a `deletionTimestamp` and waits for its kubelet or its finalizers.
    Pending(Arc<Value>),
}

impl Store {
    /// Deletes an object, or begins to.
    ///
    /// # Errors
    /// It is not there, or a precondition does not hold.
    pub fn delete(
        &mut self,
        key: &Key,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Deletion, ApiError> {
        let old = self.get(key)?;
        check_preconditions(key, &old, options)?;
        if key.kind.name == "Namespace" {
            return Ok(Deletion::Pending(self.end_namespace(key, &old, now)));
        }
        let dependents = self.dependents(&old);
        let old = match options.propagation {
            Propagation::Orphan => {
                dependents.iter().for_each(|dependent| self.let_go(dependent));
                old
            }
            Propagation::Foreground if !dependents.is_empty() => self.keep_for_dependents(key, &old),
            _ => old,
        };
        let grace = grace_of(key, &old, options.grace);
        if grace == 0 && !has_finalizers(&old) {
            if *key.kind == kinds::DEFINITION {
                self.empty_kinds(|kind| kind.backing == Backing::Definition && kind.qualified() == key.name);
            }
            let gone = self.remove(key, &old, now);
            self.depart(&gone);
            return Ok(Deletion::Gone(gone));
        }
        let left = old["metadata"]["deletionGracePeriodSeconds"].as_u64();
        if left.is_some_and(|left| left <= u64::from(grace)) {
            return Ok(Deletion::Pending(old));
        }
        let mut object = (*old).clone();
        let at = now.checked_add(SignedDuration::from_secs(i64::from(grace))).unwrap_or(now);
        object["metadata"]["deletionTimestamp"] = json!(seconds(at));
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        let pending = self.commit(key.clone(), Action::Modified, object);
        if options.propagation == Propagation::Foreground {
            self.wait_for_dependents(key);
        }
        Ok(Deletion::Pending(pending))
    }

    /// Removes an object. A pod's last state says that its grace is over; one that was given some is seen so before.
    fn remove(&mut self, key: &Key, old: &Value, now: Timestamp) -> Arc<Value> {
        let mut last = old.clone();
        if key.kind.name == "Pod" {
            if last["metadata"]["deletionTimestamp"].is_null() {
                last["metadata"]["deletionTimestamp"] = json!(seconds(now));
            }
            let given = std::mem::replace(&mut last["metadata"]["deletionGracePeriodSeconds"], json!(0));
            if given.as_u64().is_some_and(|given| given > 0) {
                last = (*self.commit(key.clone(), Action::Modified, last)).clone();
            }
        }
        self.commit(key.clone(), Action::Deleted, last)
    }

    /// Says of a pod that is about to be evicted why it goes.
    pub(crate) fn disrupt(
        &mut self,
        key: &Key,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let old = self.get(key)?;
        check_preconditions(key, &old, options)?;
        let mut pod = (*old).clone();
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastTransitionTime": seconds(now),
        });
        match pod["status"]["conditions"].as_array_mut() {
            Some(all) => {
                all.retain(|one| one["type"] != "DisruptionTarget");
                all.push(condition);
            }
            None => pod["status"]["conditions"] = json!([condition]),
        }
        self.commit(key.clone(), Action::Modified, pod);
        Ok(())
    }

    fn empty_kinds(&mut self, which: impl Fn(&Kind) -> bool) {
        for kind in KINDS.iter().filter(|kind| which(kind)) {
            let collection = Collection { kind, namespace: None };
            let all: Vec<_> = self
                .list(&collection, &Selector::default())
                .map(|(key, object)| (key.clone(), (**object).clone()))
                .collect();
            for (key, object) in all {
                self.commit(key, Action::Deleted, object);
            }
        }
    }
}

fn check_preconditions(key: &Key, old: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let metadata = &old["metadata"];
    let failed = |field: &str, wanted: &str, had: &Value, after: &str| ApiError::Precondition {
        kind: key.kind,
        name: key.name.clone(),
        why: format!(
            "the {field} in the precondition ({wanted}) does not match the {field} in record ({}). The object might have been {after}",
            had.as_str().unwrap_or_default()
        ),
    };
    match (&options.uid, &options.resource_version) {
        (Some(uid), _) if metadata["uid"] != **uid => {
            Err(failed("UID", uid, &metadata["uid"], "deleted and then recreated"))
        }
        (_, Some(version)) if metadata["resourceVersion"] != **version => {
            Err(failed("ResourceVersion", version, &metadata["resourceVersion"], "modified"))
        }
        _ => Ok(()),
    }
}

/// Graceful only for a pod that a node may be running.
fn grace_of(key: &Key, old: &Value, asked: Option<u32>) -> u32 {
    let ended = matches!(old["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if key.kind.name != "Pod" || old["spec"]["nodeName"].is_null() || ended {
        return 0;
    }
    let own = old["spec"]["terminationGracePeriodSeconds"].as_u64().and_then(|own| u32::try_from(own).ok());
    asked.or(own).unwrap_or(30)
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty())
}
