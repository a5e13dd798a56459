// SPDX-License-Identifier: Apache-2.0
//! Objects of the API, and every change of them within a window. Pure: the time is an argument, nothing is read or sent. `write` decides
//! creates and updates, `delete` decides deletions, `follow` what follows from those; all end in `Store::commit`.

mod delete;
mod follow;
#[cfg(test)]
mod properties;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::delete::{DeleteOptions, Deletion, Propagation};
use self::follow::Duties;
pub use self::write::Part;
pub(crate) use self::write::{Write, seconds};
use crate::error::ApiError;
use crate::ids::Ids;
use crate::kinds::{self, Backing, Kind, Scope};
use crate::selector::Selector;

/// Key of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub kind: &'static Kind,
    /// Namespace; empty for a cluster-wide kind.
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::NotFound { kind: self.kind, name: self.name.clone() }
    }

    fn conflict(&self, why: impl Into<String>) -> ApiError {
        ApiError::Conflict { kind: self.kind, name: self.name.clone(), why: why.into() }
    }
}

/// All objects of a kind, in one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    pub kind: &'static Kind,
    /// Namespace; `None` for all.
    pub namespace: Option<String>,
}

impl Collection {
    fn holds(&self, key: &Key) -> bool {
        self.kind == key.kind && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
    }

    /// True if nothing can be created in it for want of a namespace.
    pub(crate) fn needs_namespace(&self) -> bool {
        self.kind.scope == Scope::Namespaced && self.namespace.is_none()
    }

    /// Key of one of its objects.
    #[must_use]
    pub fn key(&self, name: &str) -> Key {
        Key { kind: self.kind, namespace: self.namespace.clone().unwrap_or_default(), name: name.to_owned() }
    }
}

/// Type of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Added,
    Modified,
    Deleted,
}

impl Action {
    /// Type of the watch event.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Change {
    /// Its resource version.
    pub revision: u64,
    /// Key of the object.
    pub key: Key,
    /// Type.
    pub action: Action,
    /// Object after it; for a deletion, the last state.
    pub object: Arc<Value>,
    /// Object before it.
    pub previous: Option<Arc<Value>>,
}

impl Change {
    /// A change as a watcher with a selector sees it: an object that starts to match is added, one that ceases to match is deleted.
    #[must_use]
    pub fn seen_by(&self, collection: &Collection, selector: &Selector) -> Option<Action> {
        if !collection.holds(&self.key) {
            return None;
        }
        let before = self.previous.as_ref().is_some_and(|previous| selector.matches(previous));
        let after = self.action != Action::Deleted && selector.matches(&self.object);
        match (before, after) {
            (false, true) => Some(Action::Added),
            (true, true) => Some(Action::Modified),
            (true, false) => Some(Action::Deleted),
            (false, false) => None,
        }
    }
}

/// Rejects an object that is to be written, by its key and its former state.
pub(crate) type Validate = fn(&Key, Option<&Value>, &Value) -> Result<(), ApiError>;

/// Objects and their recent history.
#[derive(Debug, Clone)]
pub struct Store {
    revision: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    history: VecDeque<Arc<Change>>,
    /// Changes up to this revision have expired.
    forgotten: u64,
    window: usize,
    ids: Ids,
    duties: Duties,
    validate: Validate,
    /// Authorities in `kube-root-ca.crt`, as PEM.
    pub(crate) root_ca: String,
}

impl Store {
    /// An empty store that keeps the last `window` changes and makes uids from `ids`.
    pub(crate) fn new(window: usize, ids: Ids, validate: Validate, root_ca: String) -> Self {
        let (objects, history) = (BTreeMap::new(), VecDeque::new());
        let duties = Duties::default();
        Self { revision: 1, objects, history, forgotten: 0, window, ids, duties, validate, root_ca }
    }

    /// Newest resource version.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// One object.
    ///
    /// # Errors
    /// [`ApiError::NotFound`].
    pub fn get(&self, key: &Key) -> Result<Arc<Value>, ApiError> {
        self.objects.get(key).cloned().ok_or_else(|| key.not_found())
    }

    /// The objects of a collection that match, in order of namespace and name.
    pub fn list<'a>(
        &'a self,
        collection: &'a Collection,
        selector: &'a Selector,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        self.list_after(collection, selector, None)
    }

    /// The same from behind a key.
    pub(crate) fn list_after<'a>(
        &'a self,
        collection: &'a Collection,
        selector: &'a Selector,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> + use<'a> {
        let start =
            after.map_or_else(|| Bound::Included(collection.key("")), |key| Bound::Excluded(key.clone()));
        self.objects
            .range((start, Bound::Unbounded))
            .take_while(|(key, _)| collection.holds(key))
            .filter(|(_, object)| selector.matches(object))
    }

    /// State at a resource version.
    ///
    /// # Errors
    /// As [`Store::since`].
    pub(crate) fn as_of(&self, revision: u64) -> Result<Self, ApiError> {
        let mut past = self.objects.clone();
        for change in self.since(revision)?.collect::<Vec<_>>().into_iter().rev() {
            match &change.previous {
                Some(previous) => drop(past.insert(change.key.clone(), Arc::clone(previous))),
                None => drop(past.remove(&change.key)),
            }
        }
        let then = Self::new(0, self.ids.clone(), self.validate, self.root_ca.clone());
        Ok(Self { revision, objects: past, forgotten: revision, ..then })
    }

    /// The changes after a resource version, oldest first.
    ///
    /// # Errors
    /// [`ApiError::Expired`] if some of them are forgotten, [`ApiError::TooLargeVersion`] if it is in the future.
    pub fn since(&self, revision: u64) -> Result<impl Iterator<Item = &Arc<Change>>, ApiError> {
        if revision < self.forgotten {
            return Err(ApiError::Expired { asked: revision, oldest: self.forgotten });
        }
        if revision > self.revision {
            return Err(ApiError::TooLargeVersion { asked: revision, current: self.revision });
        }
        let start = self.history.partition_point(|change| change.revision <= revision);
        Ok(self.history.range(start..))
    }

    /// Forgets the history, as compaction does: every older resource version has expired.
    pub fn compact(&mut self) {
        self.history.clear();
        self.forgotten = self.revision;
    }

    pub(crate) fn ids(&mut self) -> &mut Ids {
        &mut self.ids
    }

    /// Fails unless a kind is served: it is built in, or its definition exists.
    ///
    /// # Errors
    /// [`ApiError::NoSuchPath`].
    pub(crate) fn require_served(&self, kind: &Kind) -> Result<(), ApiError> {
        let definition = Key { kind: &kinds::DEFINITION, namespace: String::new(), name: kind.qualified() };
        let is_served = kind.backing == Backing::BuiltIn || self.objects.contains_key(&definition);
        if is_served { Ok(()) } else { Err(ApiError::NoSuchPath) }
    }

    fn require_namespace(&self, key: &Key) -> Result<(), ApiError> {
        if key.kind.scope == Scope::Cluster {
            return Ok(());
        }
        let of = Key { kind: &kinds::NAMESPACE, namespace: String::new(), name: key.namespace.clone() };
        let namespace = self.get(&of)?;
        if namespace["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        Err(ApiError::Terminating {
            kind: key.kind,
            name: key.name.clone(),
            namespace: key.namespace.clone(),
        })
    }

    /// Makes a change: the next resource version is stamped on the object, the change joins the history.
    fn commit(&mut self, key: Key, action: Action, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let object = Arc::new(object);
        let previous = match action {
            Action::Deleted => self.objects.remove(&key),
            Action::Added | Action::Modified => self.objects.insert(key.clone(), Arc::clone(&object)),
        };
        let change = Change { revision: self.revision, key, action, object: Arc::clone(&object), previous };
        self.history.push_back(Arc::new(change));
        if self.history.len() > self.window {
            // A watcher that has not seen it yet is told that its resource version has expired.
            self.forgotten = self.history.pop_front().map_or(self.forgotten, |change| change.revision);
        }
        object
    }
}
