// SPDX-License-Identifier: Apache-2.0
//! Controllers that follow a deletion, as in a real cluster: the garbage collector deletes objects that only the deleted object owned, and
//! lets go of an owner that waited for its dependents; the namespace controller empties one that is being deleted.
//!
//! Both come after the deletion, never with it: between the two an owner is gone and its dependents are there. Of a namespace **the pods go
//! first**, gracefully, and nothing else goes until the last of them is gone (`OrderedNamespaceDeletion`, on since Kubernetes 1.33); then
//! everything else goes in no particular order. Meanwhile nothing can be created in it. Seen on 1.34: the pod of a DaemonSet ends while its
//! DaemonSet is there and is not being deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::delete::has_finalizers;
use super::{Action, Collection, DeleteOptions, Key, Store, seconds};
use crate::kinds::{KINDS, Kind, Scope};
use crate::selector::Selector;

/// Finalizer of an owner until its dependents are gone.
const FOREGROUND: &str = "foregroundDeletion";

/// Work queue of the controllers.
#[derive(Debug, Clone, Default)]
pub(super) struct Duties {
    /// Deleted objects with dependents or owners.
    departed: Vec<Arc<Value>>,
    /// Owners that wait for their dependents, which are not deleted yet.
    waiting: Vec<Key>,
    /// Terminating namespaces.
    ending: BTreeSet<Key>,
}

impl Store {
    /// True if work is queued or waits.
    pub(crate) fn has_duties(&self) -> bool {
        let Duties { departed, waiting, ending } = &self.duties;
        !(departed.is_empty() && waiting.is_empty() && ending.is_empty())
    }

    /// Does what is due now; whether anything changed. What follows from that is due the next time.
    pub(crate) fn collect(&mut self, now: Timestamp) -> bool {
        let before = self.revision();
        for key in std::mem::take(&mut self.duties.waiting) {
            let Ok(owner) = self.get(&key) else { continue };
            self.delete_all(self.dependents(&owner), now);
        }
        for gone in std::mem::take(&mut self.duties.departed) {
            self.delete_all(self.dependents(&gone), now);
            self.release_owners(&gone);
        }
        for namespace in self.duties.ending.clone() {
            self.empty(&namespace, now);
        }
        self.revision() != before
    }

    /// Queues a deleted object.
    pub(super) fn depart(&mut self, gone: &Arc<Value>) {
        let owned = gone["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
        if owned || !self.dependents(gone).is_empty() {
            self.duties.departed.push(Arc::clone(gone));
        }
    }

    /// Objects that only this one owns.
    pub(super) fn dependents(&self, owner: &Value) -> Vec<Key> {
        let Some(uid) = owner["metadata"]["uid"].as_str() else { return Vec::new() };
        let owned = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|all| !all.is_empty() && all.iter().all(|one| one["uid"] == uid))
        };
        self.objects.iter().filter(|(_, object)| owned(object)).map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn let_go(&mut self, dependent: &Key) {
        let Ok(old) = self.get(dependent) else { return };
        let mut object = (*old).clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("ownerReferences");
        }
        self.commit(dependent.clone(), Action::Modified, object);
    }

    pub(super) fn keep_for_dependents(&mut self, key: &Key, old: &Arc<Value>) -> Arc<Value> {
        let mut finalizers = old["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if finalizers.iter().any(|one| one == FOREGROUND) {
            return Arc::clone(old);
        }
        finalizers.push(json!(FOREGROUND));
        let mut object = (**old).clone();
        object["metadata"]["finalizers"] = json!(finalizers);
        self.commit(key.clone(), Action::Modified, object)
    }

    pub(super) fn wait_for_dependents(&mut self, owner: &Key) {
        self.duties.waiting.push(owner.clone());
    }

    /// Begins to delete a namespace; idempotent.
    pub(super) fn end_namespace(&mut self, key: &Key, old: &Arc<Value>, now: Timestamp) -> Arc<Value> {
        if !old["metadata"]["deletionTimestamp"].is_null() {
            return Arc::clone(old);
        }
        self.duties.ending.insert(key.clone());
        let mut object = (**old).clone();
        object["metadata"]["deletionTimestamp"] = json!(seconds(now));
        object["status"]["phase"] = json!("Terminating");
        self.commit(key.clone(), Action::Modified, object)
    }

    fn delete_all(&mut self, keys: Vec<Key>, now: Timestamp) {
        for key in keys {
            // One that is gone meanwhile needs no deletion.
            let _gone_or_pending = self.delete(&key, &DeleteOptions::default(), now);
        }
    }

    /// Deletes owners that waited for their last dependent.
    fn release_owners(&mut self, gone: &Value) {
        for owner in gone["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let waits = |object: &Value| {
                let finalizers = object["metadata"]["finalizers"].as_array();
                object["metadata"]["uid"] == owner["uid"]
                    && finalizers.is_some_and(|all| all.iter().any(|one| one == FOREGROUND))
            };
            let found = self.objects.iter().find(|(_, object)| waits(object));
            let Some((key, object)) = found.map(|(key, object)| (key.clone(), Arc::clone(object))) else {
                continue;
            };
            if !self.dependents(&object).is_empty() {
                continue;
            }
            let mut object = (*object).clone();
            if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|one| one != FOREGROUND);
            }
            let action = if has_finalizers(&object) { Action::Modified } else { Action::Deleted };
            let last = self.commit(key, action, object);
            if action == Action::Deleted {
                self.depart(&last);
            }
        }
    }

    /// Empties a namespace that is being deleted: its pods, then the rest, then itself.
    fn empty(&mut self, namespace: &Key, now: Timestamp) {
        let pods = self.within(&namespace.name, |kind| kind.name == "Pod");
        if !pods.is_empty() {
            let stays =
                |key: &Key| self.get(key).is_ok_and(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            let told = pods.into_iter().filter(stays).collect();
            return self.delete_all(told, now);
        }
        self.delete_all(self.within(&namespace.name, |_| true), now);
        if !self.within(&namespace.name, |_| true).is_empty() {
            return;
        }
        self.duties.ending.remove(namespace);
        if let Ok(last) = self.get(namespace) {
            self.commit(namespace.clone(), Action::Deleted, (*last).clone());
        }
    }

    fn within(&self, namespace: &str, which: impl Fn(&Kind) -> bool) -> Vec<Key> {
        let kinds = KINDS.iter().filter(|kind| kind.scope == Scope::Namespaced && which(kind));
        kinds
            .flat_map(|kind| {
                let collection = Collection { kind, namespace: Some(namespace.to_owned()) };
                let all = Selector::default();
                self.list(&collection, &all).map(|(key, _)| key.clone()).collect::<Vec<_>>()
            })
            .collect()
    }
}
