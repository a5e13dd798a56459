// SPDX-License-Identifier: Apache-2.0
//! Deletions: graceful for pods, held by finalizers, with preconditions. A namespace takes its objects with it at once.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::write::seconds;
use super::{Action, Collection, Key, Store};
use crate::error::ApiError;
use crate::kinds::{KINDS, Scope};
use crate::selector::Selector;

/// How to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// `gracePeriodSeconds`; the pod's own if absent.
    pub grace: Option<u32>,
    /// Delete only this uid.
    pub uid: Option<String>,
    /// Delete only this resource version.
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the request's body (`DeleteOptions`), or `Null`.
    #[must_use]
    pub fn from_body(body: &Value) -> Self {
        let text = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
        let grace = body["gracePeriodSeconds"].as_u64().and_then(|grace| u32::try_from(grace).ok());
        Self { grace, uid: text("uid"), resource_version: text("resourceVersion") }
    }

    /// At once.
    #[must_use]
    pub fn now() -> Self {
        Self { grace: Some(0), ..Self::default() }
    }
}

/// What became of an object that was to be deleted.
#[derive(Debug, Clone, PartialEq)]
pub enum Deletion {
    /// It is gone; this was its last state.
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
        let wanted = json!({"uid": options.uid, "resourceVersion": options.resource_version});
        self.check_versions(key, &old, &wanted)?;
        let grace = grace_of(key, &old, options.grace);
        if grace == 0 && !has_finalizers(&old) {
            if key.kind.name == "Namespace" {
                self.empty_namespace(&key.name);
            }
            return Ok(Deletion::Gone(self.commit(key.clone(), Action::Deleted, (*old).clone())));
        }
        let left = old["metadata"]["deletionGracePeriodSeconds"].as_u64();
        if left.is_some_and(|left| left <= u64::from(grace)) {
            return Ok(Deletion::Pending(old));
        }
        let mut object = (*old).clone();
        let at = now.checked_add(SignedDuration::from_secs(i64::from(grace))).unwrap_or(now);
        object["metadata"]["deletionTimestamp"] = json!(seconds(at));
        object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        Ok(Deletion::Pending(self.commit(key.clone(), Action::Modified, object)))
    }

    fn empty_namespace(&mut self, name: &str) {
        for kind in KINDS.iter().filter(|kind| kind.scope == Scope::Namespaced) {
            let collection = Collection { kind, namespace: Some(name.to_owned()) };
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

/// Only a pod that a node may be running is deleted gracefully.
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
