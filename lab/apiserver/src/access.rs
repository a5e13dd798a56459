// SPDX-License-Identifier: Apache-2.0
//! Who asks, and whether they may: bearer tokens and what each service account is allowed. Pure, like the store.
//!
//! A service account's token dies when its time is over, when it is revoked, or when its account or the pod that it is
//! bound to is gone (or replaced by one of the same name). Audiences are ignored. The shortest lifetime is one second, not
//! ten minutes as in a real cluster, so that expiry can be tested.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::kinds::Kind;
use crate::rbac::{Attributes, Grant, allowed, unused};
use crate::store::{Key, Store};

/// A service account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    Admin,
    Account(Account),
}

impl Identity {
    pub(crate) fn user(&self) -> String {
        match self {
            Self::Admin => "system:admin".to_owned(),
            Self::Account(account) => format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        }
    }
}

#[derive(Debug)]
struct Token {
    account: Key,
    /// The objects (account, pod) whose uids must still be these.
    bound: Vec<(Key, String)>,
    expires: Timestamp,
}

/// Tokens and grants.
#[derive(Debug)]
pub(crate) struct Access {
    admin: String,
    tokens: BTreeMap<String, Token>,
    grants: BTreeMap<Account, Vec<Grant>>,
    /// How often each account was allowed what.
    used: BTreeMap<Account, BTreeMap<Attributes, u64>>,
}

impl Access {
    pub(crate) fn new(admin: String) -> Self {
        Self { admin, tokens: BTreeMap::new(), grants: BTreeMap::new(), used: BTreeMap::new() }
    }

    pub(crate) fn admin_token(&self) -> &str {
        &self.admin
    }

    pub(crate) fn set_grants(&mut self, account: Account, grants: Vec<Grant>) {
        self.grants.insert(account, grants);
    }

    /// Whether there was such a token.
    pub(crate) fn revoke(&mut self, token: &str) -> bool {
        self.tokens.remove(token).is_some()
    }

    pub(crate) fn identify(&self, token: &str, store: &Store, now: Timestamp) -> Result<Identity, ApiError> {
        if token == self.admin {
            return Ok(Identity::Admin);
        }
        let token = self.tokens.get(token).ok_or(ApiError::Unauthorized)?;
        let lives = |(key, uid): &(Key, String)| {
            store.get(key).is_ok_and(|object| object["metadata"]["uid"] == uid.as_str())
        };
        if now >= token.expires || !token.bound.iter().all(lives) {
            return Err(ApiError::Unauthorized);
        }
        let Key { namespace, name, .. } = token.account.clone();
        Ok(Identity::Account(Account { namespace, name }))
    }

    /// Whether somebody may do it.
    pub(crate) fn may(&self, who: &Identity, request: &Attributes) -> bool {
        let Identity::Account(account) = who else { return true };
        self.grants.get(account).is_some_and(|grants| allowed(grants, request))
    }

    /// Whether somebody may do it, who does it then: what an account was allowed is counted.
    pub(crate) fn allows(&mut self, who: &Identity, request: &Attributes) -> bool {
        if !self.may(who, request) {
            return false;
        }
        let Identity::Account(account) = who else { return true };
        let used = self.used.entry(account.clone()).or_default();
        *used.entry(request.clone()).or_default() += 1;
        true
    }

    /// What an account was allowed so far, and how often.
    pub(crate) fn used(&self, account: &Account) -> BTreeMap<Attributes, u64> {
        self.used.get(account).cloned().unwrap_or_default()
    }

    /// What an account may do and has never done.
    pub(crate) fn unused(&self, account: &Account) -> Vec<Grant> {
        unused(self.grants.get(account).map_or(&[], Vec::as_slice), &self.used(account))
    }

    /// Answers a `TokenRequest` for a service account.
    pub(crate) fn issue(
        &mut self,
        account: &Key,
        request: &Value,
        store: &mut Store,
        now: Timestamp,
    ) -> Result<Value, ApiError> {
        let mut bound = vec![(account.clone(), uid_of(&*store.get(account)?))];
        bound.extend(bound_pod(account, &request["spec"]["boundObjectRef"], store)?);
        let lifetime = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600).max(1);
        let expires = now.checked_add(SignedDuration::from_secs(lifetime)).unwrap_or(Timestamp::MAX);
        let secret = store.ids().token();
        let mut answer = json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": request["spec"],
            "metadata": {"name": account.name, "namespace": account.namespace},
            "status": {"token": secret, "expirationTimestamp": crate::store::seconds(expires)},
        });
        if answer["spec"].is_object() {
            answer["spec"]["expirationSeconds"] = json!(lifetime);
        }
        self.tokens.insert(secret, Token { account: account.clone(), bound, expires });
        Ok(answer)
    }
}

fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// The pod that a token is to be bound to, if any: it must run under the account, and be the one that is meant.
fn bound_pod(account: &Key, reference: &Value, store: &Store) -> Result<Option<(Key, String)>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let (Some("Pod"), Some(name)) = (reference["kind"].as_str(), reference["name"].as_str()) else {
        return Err(ApiError::BadRequest("tokens can be bound to pods only".to_owned()));
    };
    let kind = Kind::find("", "v1", "pods").ok_or(ApiError::NoSuchPath)?;
    let key = Key { kind, namespace: account.namespace.clone(), name: name.to_owned() };
    let pod = store.get(&key)?;
    let own = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    if own != account.name {
        return Err(ApiError::Forbidden(format!(
            "cannot bind token for serviceaccount {:?} to pod running with service account {own:?}",
            account.name
        )));
    }
    let uid = uid_of(&pod);
    if reference["uid"].as_str().is_some_and(|wanted| wanted != uid) {
        let why = "the UID in the bound object reference does not match the UID of the pod".to_owned();
        return Err(ApiError::Conflict { kind, name: key.name, why });
    }
    Ok(Some((key, uid)))
}
