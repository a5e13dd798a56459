// SPDX-License-Identifier: Apache-2.0
//! Authentication and authorization: bearer tokens, and the roles of service accounts. Pure, like the store.
//!
//! A service account's token dies when its time is over, when it is revoked, or when its account or the pod that it is
//! bound to is gone (or replaced by one of the same name), or was to be gone a minute ago. One for other audiences is no token here. The shortest lifetime is one second, not
//! ten minutes as in a real cluster, so that expiry can be tested.
//!
//! **A token that was accepted stays accepted for ten seconds**, whatever becomes of its account: a kube-apiserver caches successes for
//! that long, counted from the look-up and not from the last use, and failures not at all (`TokenSuccessCacheTTL`, `TokenFailureCacheTTL`
//! in its authentication options). Seen on 1.34: an account that was deleted answers 403, as its roles are gone, to a token that was used
//! within ten seconds before, and 401 afterwards. The 401 says `Unauthorized` and nothing else; why is in the server's log alone.
//!
//! A token is a JWT with the claims of a real one, signed by nobody: who holds one can read when it expires.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::kinds;
use crate::rbac::{Account, Attributes, allowed};
use crate::roles;
use crate::store::{Key, Store};

/// Leeway for deletion timestamps of bound objects (`invalidIfDeletedBefore` of `pkg/serviceaccount/claims.go`).
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    Admin,
    /// Whoever sends no credentials at all. No role is for them.
    Anonymous,
    /// A node, or a program of the control plane.
    User {
        name: String,
        groups: Vec<String>,
    },
    Account {
        account: Account,
        /// Extra of the token beside the account: its pod, and its pod's node.
        extra: Extra,
    },
}

/// Group whose members may do everything.
const MASTERS: &str = "system:masters";

/// Extra key of the token's pod.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";

/// Keys of `authentication.kubernetes.io`, with the prefix, and what the token says.
pub(crate) type Extra = BTreeMap<&'static str, String>;

impl Identity {
    pub(crate) fn user(&self) -> String {
        match self {
            Self::Admin => "system:admin".to_owned(),
            Self::Anonymous => "system:anonymous".to_owned(),
            Self::User { name, .. } => name.clone(),
            Self::Account { account, .. } => account.user(),
        }
    }

    pub(crate) fn groups(&self) -> Vec<String> {
        match self {
            Self::Admin => [MASTERS, "system:authenticated"].map(str::to_owned).to_vec(),
            Self::Anonymous => vec!["system:unauthenticated".to_owned()],
            Self::User { groups, .. } => [&groups[..], &["system:authenticated".to_owned()]].concat(),
            Self::Account { account, .. } => account.groups(),
        }
    }
}

#[derive(Debug)]
struct Token {
    account: Key,
    /// Bound objects (account, pod), whose UIDs must not change.
    bound: Vec<(Key, String)>,
    extra: Extra,
    expires: Timestamp,
    /// It is for this server.
    is_ours: bool,
}

/// Tokens and the log of authorized requests.
#[derive(Debug)]
pub(crate) struct Access {
    admin: String,
    /// Users by their tokens, which last.
    users: BTreeMap<String, Identity>,
    tokens: BTreeMap<String, Token>,
    /// Whose the tokens are that were looked up lately, and until when nobody looks again.
    accepted: BTreeMap<String, (Identity, Timestamp)>,
    /// Duration of that cache.
    cached_for: SignedDuration,
}

impl Access {
    pub(crate) fn new(admin: String, cached_for: Duration) -> Self {
        let cached_for = SignedDuration::try_from(cached_for).unwrap_or(SignedDuration::MAX);
        Self { admin, users: BTreeMap::new(), tokens: BTreeMap::new(), accepted: BTreeMap::new(), cached_for }
    }

    /// Drops the cache of accepted tokens.
    pub(crate) fn forget(&mut self) {
        self.accepted.clear();
    }

    pub(crate) fn admin_token(&self) -> &str {
        &self.admin
    }

    /// Adds a static token (`--token-auth-file`).
    pub(crate) fn add_user(&mut self, token: String, name: String, groups: Vec<String>) {
        self.users.insert(token, Identity::User { name, groups });
    }

    /// Revokes a token; returns true if it existed.
    pub(crate) fn revoke(&mut self, token: &str) -> bool {
        self.accepted.remove(token);
        self.tokens.remove(token).is_some()
    }

    /// Refuses every service account's token that was issued so far, as a server with other signing keys.
    pub(crate) fn rotate(&mut self) {
        self.accepted.clear();
        self.tokens.clear();
    }

    pub(crate) fn identify(
        &mut self,
        token: &str,
        store: &Store,
        now: Timestamp,
    ) -> Result<Identity, ApiError> {
        if token == self.admin {
            return Ok(Identity::Admin);
        }
        if let Some(user) = self.users.get(token) {
            return Ok(user.clone());
        }
        if let Some((identity, until)) = self.accepted.get(token)
            && now < *until
        {
            return Ok(identity.clone());
        }
        self.accepted.remove(token);
        let identity = self.look_up(token, store, now)?;
        let until = now.checked_add(self.cached_for).unwrap_or(Timestamp::MAX);
        self.accepted.insert(token.to_owned(), (identity.clone(), until));
        Ok(identity)
    }

    fn look_up(&self, token: &str, store: &Store, now: Timestamp) -> Result<Identity, ApiError> {
        let token = self.tokens.get(token).ok_or(ApiError::Unauthorized)?;
        let is_over = |object: &Value| {
            let deleted = object["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse().ok());
            deleted.is_some_and(|at: Timestamp| at.checked_add(LEEWAY).is_ok_and(|end| end < now))
        };
        let lives = |(key, uid): &(Key, String)| {
            store.get(key).is_ok_and(|object| object["metadata"]["uid"] == uid.as_str() && !is_over(&object))
        };
        if now >= token.expires || !token.is_ours || !token.bound.iter().all(lives) {
            return Err(ApiError::Unauthorized);
        }
        let Key { namespace, name, .. } = token.account.clone();
        Ok(Identity::Account { account: Account { namespace, name }, extra: token.extra.clone() })
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
        let mut extra = Extra::new();
        if let Some((key, pod)) = bound_pod(account, &request["spec"]["boundObjectRef"], store)? {
            extra = extra_of(&pod, store);
            bound.push((key, uid_of(&pod)));
        }
        let lifetime = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600).max(1);
        let expires = now.checked_add(SignedDuration::from_secs(lifetime)).unwrap_or(Timestamp::MAX);
        let audiences = Some(&request["spec"]["audiences"]).filter(|list| !list.is_null()).cloned();
        let audiences = audiences.unwrap_or_else(|| json!([ISSUER]));
        let secret = jwt(account, &bound, &audiences, (now, expires), &store.ids().token());
        let mut answer = json!({
            "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": request["spec"],
            "metadata": {"name": account.name, "namespace": account.namespace},
            "status": {"token": secret, "expirationTimestamp": crate::store::seconds(expires)},
        });
        if answer["spec"].is_object() || answer["spec"].is_null() {
            answer["spec"]["expirationSeconds"] = json!(lifetime);
            answer["spec"]["audiences"] = audiences.clone();
            answer["spec"]["boundObjectRef"] = request["spec"]["boundObjectRef"].clone();
        }
        let is_ours = audiences.as_array().is_some_and(|all| all.is_empty() || all.contains(&json!(ISSUER)));
        self.tokens.insert(secret, Token { account: account.clone(), bound, extra, expires, is_ours });
        Ok(answer)
    }
}

/// Issuer of tokens, and their audience by default.
const ISSUER: &str = "https://kubernetes.default.svc";

/// Token as a real server writes it, but for its signature.
fn jwt(
    account: &Key,
    bound: &[(Key, String)],
    audiences: &Value,
    (issued, expires): (Timestamp, Timestamp),
    secret: &str,
) -> String {
    let Key { namespace, name, .. } = account;
    let of = |kind: &str| {
        let found = bound.iter().find(|(key, _)| key.kind.name == kind);
        found.map(|(key, uid)| json!({"name": key.name, "uid": uid}))
    };
    let mut about = json!({"namespace": namespace, "serviceaccount": of("ServiceAccount")});
    if let Some(pod) = of("Pod") {
        about["pod"] = pod;
    }
    let claims = json!({
        "aud": audiences, "exp": expires.as_second(), "iat": issued.as_second(), "iss": ISSUER, "kubernetes.io": about,
        "nbf": issued.as_second(), "sub": format!("system:serviceaccount:{namespace}:{name}"),
    });
    let header = json!({"alg": "RS256", "kid": "lab"});
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(header.to_string()), part(claims.to_string()), part(secret.to_owned()))
}

/// True for members of `system:masters`.
pub(crate) fn is_master(who: &Identity) -> bool {
    match who {
        Identity::Admin => true,
        Identity::User { groups, .. } => groups.iter().any(|group| group == MASTERS),
        Identity::Anonymous | Identity::Account { .. } => false,
    }
}

/// Authorizes a request.
pub(crate) fn may(who: &Identity, request: &Attributes, store: &Store) -> bool {
    match who {
        Identity::Anonymous => false,
        _ if is_master(who) => true,
        _ => allowed(&roles::grants(&who.user(), &who.groups(), store), request),
    }
}

/// Extra of a token that is bound to a pod.
fn extra_of(pod: &Value, store: &Store) -> Extra {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut extra = Extra::from([
        (POD_NAME, text(&pod["metadata"]["name"])),
        ("authentication.kubernetes.io/pod-uid", uid_of(pod)),
    ]);
    if let Some(name) = pod["spec"]["nodeName"].as_str() {
        extra.insert("authentication.kubernetes.io/node-name", name.to_owned());
        let node = Key { kind: &kinds::NODE, namespace: String::new(), name: name.to_owned() };
        if let Ok(node) = store.get(&node) {
            extra.insert("authentication.kubernetes.io/node-uid", uid_of(&node));
        }
    }
    extra
}

fn uid_of(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// The pod that a token is to be bound to, if any: it must run under the account, and be the one that is meant.
fn bound_pod(account: &Key, reference: &Value, store: &Store) -> Result<Option<(Key, Arc<Value>)>, ApiError> {
    if reference.is_null() {
        return Ok(None);
    }
    let (Some("Pod"), Some(name)) = (reference["kind"].as_str(), reference["name"].as_str()) else {
        let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
        let why =
            format!("cannot bind token to object of type {}, Kind={}", text("apiVersion"), text("kind"));
        return Err(ApiError::BadRequest(why));
    };
    let key = Key { kind: &kinds::POD, namespace: account.namespace.clone(), name: name.to_owned() };
    let pod = store.get(&key)?;
    let own = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    if own != account.name {
        return Err(ApiError::BadRequest(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            account.name
        )));
    }
    let uid = uid_of(&pod);
    if let Some(wanted) = reference["uid"].as_str().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(ApiError::Precondition { kind: key.kind, name: key.name, why });
    }
    Ok(Some((key, pod)))
}
