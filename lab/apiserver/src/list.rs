// SPDX-License-Identifier: Apache-2.0
//! Lists: from which version, in which pages, and as bytes.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::answer::encoded;
use crate::call::Call;
use crate::error::ApiError;
use crate::kinds::Kind;
use crate::reads;
use crate::route::number;
use crate::store::{Collection, Key, Store};
use crate::table::{Include, metadata_of, table};

/// A list, or a page of one.
pub(crate) struct List {
    head: Value,
    items: Vec<Arc<Value>>,
}

impl List {
    pub(crate) fn new(collection: &Collection, store: &Store, items: Vec<Arc<Value>>) -> Self {
        let head = json!({
            "kind": format!("{}List", collection.kind.name), "apiVersion": collection.kind.api_version(),
            "metadata": {"resourceVersion": store.revision().to_string()},
        });
        Self { head, items }
    }

    /// As a table.
    pub(crate) fn table(&self, kind: &Kind, include: Include, now: Timestamp) -> Value {
        let items = self.items.iter().map(|item| &**item);
        table(kind, items, &self.head["metadata"], include, now, true)
    }

    /// The metadata of its items alone.
    pub(crate) fn metadata(&self) -> Value {
        let items: Vec<Value> = self.items.iter().map(|item| metadata_of(item)).collect();
        json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": self.head["metadata"],
            "items": items,
        })
    }

    /// As the real server sends it: items without `kind` and `apiVersion`.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = encoded(&self.head);
        bytes.pop();
        bytes.extend(b",\"items\":[");
        for (place, item) in self.items.iter().enumerate() {
            bytes.extend(if place == 0 { &b"{"[..] } else { b",{" });
            let fields = item.as_object().into_iter().flatten();
            let fields = fields.filter(|(name, _)| !["kind", "apiVersion"].contains(&name.as_str()));
            for (place, (name, value)) in fields.enumerate() {
                bytes.extend((place > 0).then_some(b','));
                bytes.extend(encoded(&Value::from(name.as_str())));
                bytes.push(b':');
                bytes.extend(encoded(value));
            }
            bytes.push(b'}');
        }
        bytes.extend(b"]}");
        bytes
    }
}

/// Answers a list. Every page is of the version of the first.
pub(crate) fn list(call: &Call, collection: &Collection, store: &Store) -> Result<List, ApiError> {
    let asked = number(&call.query, "resourceVersion")?;
    if let Some(token) = call.query.get("continue") {
        if asked.is_some_and(|asked| asked != 0) {
            let why = "specifying resource version is not allowed when using continue";
            return Err(ApiError::BadRequest(why.to_owned()));
        }
        let (revision, after) = place_of(token, collection)?;
        let past = store.as_of(revision).map_err(|_| ApiError::ContinueExpired)?;
        return page(call, collection, &past, Some(&after));
    }
    let revision = asked.unwrap_or(0);
    if revision > store.revision() {
        return Err(ApiError::TooLargeVersion { asked: revision, current: store.revision() });
    }
    if reads::is_exact(&call.query)? && revision != store.revision() {
        return page(call, collection, &store.as_of(revision)?, None);
    }
    page(call, collection, store, None)
}

fn page(call: &Call, collection: &Collection, store: &Store, after: Option<&Key>) -> Result<List, ApiError> {
    let selector = call.selector(collection)?;
    // Any version at all comes from the real server's cache, which does not page.
    let any = call.query.get("resourceVersion") == Some("0") && after.is_none();
    let limit = number(&call.query, "limit")?.filter(|limit| *limit > 0 && !any);
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let mut found = store.list_after(collection, &selector, after);
    let items: Vec<(&Key, &Arc<Value>)> = found.by_ref().take(limit).collect();
    let left = found.count();
    let last = items.last().map(|(key, _)| (*key).clone()).filter(|_| left > 0);
    let items = items.into_iter().map(|(_, object)| Arc::clone(object)).collect();
    let mut list = List::new(collection, store, items);
    if let Some(last) = last {
        list.head["metadata"]["continue"] = json!(token_of(store.revision(), &last));
        if selector.matches_all() {
            list.head["metadata"]["remainingItemCount"] = json!(left);
        }
    }
    Ok(list)
}

fn token_of(revision: u64, last: &Key) -> String {
    URL_SAFE_NO_PAD.encode(json!([revision, last.namespace, last.name]).to_string())
}

fn place_of(token: &str, collection: &Collection) -> Result<(u64, Key), ApiError> {
    let bad = || ApiError::BadRequest("invalid continue token: continue key is not valid".to_owned());
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
    let parts: (u64, String, String) = match serde_json::from_slice(&bytes) {
        Ok(parts) => parts,
        Err(_) => return Err(bad()),
    };
    let (revision, namespace, name) = parts;
    Ok((revision, Key { kind: collection.kind, namespace, name }))
}
