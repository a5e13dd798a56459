// SPDX-License-Identifier: Apache-2.0
//! The lab's direct access to its API server: seed, read, wait, grant. None of it is logged.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::ApiServer;
use crate::accounts;
use crate::error::ApiError;
use crate::kinds::{self, Kind, Scope};
use crate::log::Logged;
use crate::rbac::{Account, Grant};
use crate::reads::Gates;
use crate::roles;
use crate::selector::Selector;
use crate::shared::Shared;
use crate::store::{Change, Collection, Key, Part};

impl ApiServer {
    /// Creates a namespace; one that is there gets the labels.
    ///
    /// # Errors
    /// [`ApiError`] as for any write.
    pub fn create_namespace(&self, name: &str, labels: &BTreeMap<String, String>) -> Result<Value, ApiError> {
        let metadata = json!({"name": name, "labels": labels});
        self.upsert(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
    }

    /// Publishes other authorities (PEM) as `kube-root-ca.crt` of every namespace, as a controller manager with another `--root-ca-file` does.
    ///
    /// # Errors
    /// [`ApiError`] as for any write.
    pub fn publish_authorities(&self, pem: &str) -> Result<(), ApiError> {
        let all = Collection { kind: &kinds::NAMESPACE, namespace: None };
        let namespaces: Vec<_> = {
            let mut state = self.shared.lock();
            pem.clone_into(&mut state.store.root_ca);
            state.store.list(&all, &Selector::default()).map(|(key, _)| key.name.clone()).collect()
        };
        for namespace in namespaces {
            self.upsert(accounts::root_ca(&namespace, pem))?;
        }
        Ok(())
    }

    /// Creates an object or replaces it, status included; a replaced one keeps its uid, and its status if the new one has none.
    ///
    /// # Errors
    /// [`ApiError`] as for any write; [`ApiError::NoSuchPath`] for a kind that is not served.
    pub fn upsert(&self, mut object: Value) -> Result<Value, ApiError> {
        let kind = Kind::of(&object).ok_or(ApiError::NoSuchPath)?;
        self.shared.lock().store.require_served(kind)?;
        let text =
            |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let namespace = (kind.scope == Scope::Namespaced).then(|| text(&object, "namespace"));
        let into = Collection { kind, namespace };
        self.shared.change(|state, now| {
            let status =
                object.as_object_mut().and_then(|fields| fields.remove("status")).unwrap_or(Value::Null);
            let old = match state.store.get(&into.key(&text(&object, "name"))) {
                Ok(old) => old,
                Err(_) => {
                    let created = state.store.create(&into, object, now)?;
                    object = (*created).clone();
                    created
                }
            };
            let status = if status.is_null() { old["status"].clone() } else { status };
            if !status.is_null() {
                object["status"] = status;
            }
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
            }
            Ok((*state.store.update(&into.key(&text(&old, "name")), object, Part::Whole)?).clone())
        })
    }

    #[must_use]
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        self.object(&Key { kind: &kinds::POD, namespace: namespace.to_owned(), name: name.to_owned() })
    }

    #[must_use]
    pub fn object(&self, key: &Key) -> Option<Value> {
        self.shared.lock().store.get(key).ok().map(|object| (*object).clone())
    }

    /// All objects of a kind, of every namespace, as they are stored: whoever looks through them copies none.
    #[must_use]
    pub fn all(&self, kind: &'static Kind) -> Vec<Arc<Value>> {
        let state = self.shared.lock();
        let (everywhere, any) = (Collection { kind, namespace: None }, Selector::default());
        state.store.list(&everywhere, &any).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// The newest resource version, for whoever waits for the next change.
    #[must_use]
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.shared.revisions()
    }

    /// Changes from now on.
    #[must_use]
    pub fn subscribe(&self) -> Changes {
        let cursor = self.shared.lock().store.revision();
        let changed = self.shared.revisions();
        Changes { shared: Arc::clone(&self.shared), cursor, waiting: VecDeque::new(), changed }
    }

    /// Waits until `found` finds something; it looks now and after every change. The deadline is the caller's.
    pub async fn until<T>(&self, mut found: impl FnMut(&Self) -> Option<T>) -> T {
        wait(self.shared.revisions(), || found(self)).await
    }

    /// Requests so far, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Logged> {
        self.shared.log.all()
    }

    /// Number of matching requests so far.
    #[must_use]
    pub fn count(&self, filter: impl FnMut(&Logged) -> bool) -> usize {
        self.shared.log.count(filter)
    }

    /// Waits until at least `count` requests match (arrived, or answered if the filter looks at the code).
    pub async fn until_requests(&self, count: usize, filter: impl FnMut(&Logged) -> bool) {
        self.shared.log.until(count, filter).await;
    }

    /// The administrator's token.
    #[must_use]
    pub fn admin_token(&self) -> String {
        self.shared.lock().access.admin_token().to_owned()
    }

    /// Makes a token that lasts for a user who is no service account, as a static one of `--token-auth-file`. Members of `system:masters` may
    /// do everything; the others what roles give them.
    #[must_use]
    pub fn user_token(&self, user: &str, groups: &[&str]) -> String {
        let state = &mut *self.shared.lock();
        let token = state.store.ids().token();
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        state.access.add_user(token.clone(), user.to_owned(), groups);
        token
    }

    /// Binds a service account to roles with these grants, in the place of those of the last call. Other roles count as well.
    ///
    /// # Errors
    /// [`ApiError`] if a grant is in a namespace that is not there.
    pub fn allow(&self, account: &Account, grants: impl IntoIterator<Item = Grant>) -> Result<(), ApiError> {
        self.shared.change(|state, now| roles::bind(account, grants, &mut state.store, now))
    }

    /// Makes a token for a service account, bound to a pod if one is named.
    ///
    /// # Errors
    /// [`ApiError`] if the account or the pod is not there, or the pod runs under another account.
    pub fn token(
        &self,
        account: &Account,
        pod: Option<&str>,
        lifetime: Duration,
    ) -> Result<String, ApiError> {
        self.issue(account, pod, lifetime, |now| now)
    }

    fn issue(
        &self,
        account: &Account,
        pod: Option<&str>,
        lifetime: Duration,
        issued: impl Fn(Timestamp) -> Timestamp,
    ) -> Result<String, ApiError> {
        let (namespace, name) = (account.namespace.clone(), account.name.clone());
        let key = Key { kind: &kinds::SERVICE_ACCOUNT, namespace, name };
        let bound = pod.map(|name| json!({"kind": "Pod", "apiVersion": "v1", "name": name}));
        let request = json!({"spec": {"expirationSeconds": lifetime.as_secs(), "boundObjectRef": bound}});
        let answer = self
            .shared
            .change(|state, now| state.access.issue(&key, &request, &mut state.store, issued(now)))?;
        Ok(answer["status"]["token"].as_str().unwrap_or_default().to_owned())
    }

    /// Revokes a token at once; returns true if it existed.
    #[expect(clippy::must_use_candidate, reason = "the token is dead either way")]
    pub fn revoke(&self, token: &str) -> bool {
        self.shared.lock().access.revoke(token)
    }

    /// A token that expired a second ago, as a kubelet leaves it in a pod when it cannot renew it.
    ///
    /// # Errors
    /// As [`ApiServer::token`].
    pub fn expired_token(&self, account: &Account, pod: Option<&str>) -> Result<String, ApiError> {
        let life = SignedDuration::from_secs(1);
        let long_ago = |now: Timestamp| now.checked_sub(life + life).unwrap_or(now);
        self.issue(account, pod, Duration::from_secs(1), long_ago)
    }

    /// Looks every token up again the next time that it is used, as after ten seconds in which nobody used it.
    pub fn forget_tokens(&self) {
        self.shared.lock().access.forget();
    }

    /// Restarts with other signing keys, as far as clients notice: open watches end in good order, and tokens of service accounts that were
    /// issued so far are refused. Accounts and objects stay.
    pub fn rotate_keys(&self) {
        self.shared.lock().access.rotate();
        self.shared.end_watches();
    }

    /// Sets its clock that much ahead of the system's; a negative duration sets it behind.
    pub fn set_clock(&self, ahead: SignedDuration) {
        self.shared.set_ahead(ahead);
    }

    /// Does what follows from deletions, a moment after each, until it is aborted: what in a real cluster the garbage collector and the
    /// controller of namespaces do. Without it owners and namespaces leave their objects behind.
    pub async fn follow_deletions(&self) {
        let mut moved = self.shared.revisions();
        loop {
            moved.borrow_and_update();
            if self.shared.lock().store.has_duties() {
                tokio::time::sleep_until(Instant::now() + self.shared.deletion_lag()).await;
                if self.collect() {
                    continue;
                }
            }
            if moved.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Does what follows from the deletions so far, once; whether anything changed.
    #[expect(clippy::must_use_candidate, reason = "what is due is done either way")]
    pub fn collect(&self) -> bool {
        self.shared.change(|state, now| state.store.collect(now))
    }

    /// Turns feature gates on and off, as a server of another version has them.
    pub fn set_gates(&self, gates: Gates) {
        self.shared.lock().gates = gates;
    }

    /// Forgets the history of changes: watches from an older resource version get 410 Gone.
    pub fn compact(&self) {
        self.shared.lock().store.compact();
    }
}

async fn wait<T>(mut moved: watch::Receiver<u64>, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        moved.borrow_and_update();
        if let Some(found) = look() {
            return found;
        }
        if moved.changed().await.is_err() {
            // The sender lives as long as the server, which the caller borrows.
            std::future::pending::<()>().await;
        }
    }
}

/// Subscription to every change of every object.
#[derive(Clone)]
pub struct Changes {
    shared: Arc<Shared>,
    cursor: u64,
    waiting: VecDeque<Arc<Change>>,
    changed: watch::Receiver<u64>,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Changes").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl Changes {
    /// The next change, in order; none is missed.
    ///
    /// # Errors
    /// [`ApiError::Expired`] if the caller came so late that the history no longer has it.
    pub async fn next(&mut self) -> Result<Arc<Change>, ApiError> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Ok(change);
            }
            self.changed.borrow_and_update();
            self.catch_up()?;
            if self.waiting.is_empty() && self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn catch_up(&mut self) -> Result<(), ApiError> {
        let state = self.shared.lock();
        self.waiting.extend(state.store.since(self.cursor)?.cloned());
        self.cursor = state.store.revision();
        Ok(())
    }
}
