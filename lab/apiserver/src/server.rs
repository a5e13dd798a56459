// SPDX-License-Identifier: Apache-2.0
//! From an HTTP request to its answer: who asks, the log, whether it is allowed, and then the store. The same
//! for a request over a socket and for one in process.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::upgrade::OnUpgrade;
use listen::{Body, BoxError};
use serde_json::{Value, json};

use crate::access::{self, Identity};
use crate::answer::{self, Reply, encoded};
use crate::call::{Call, Warnings};
use crate::discovery;
use crate::error::ApiError;
use crate::kinds;
use crate::log::Logged;
use crate::operate::operate;
use crate::rbac::Attributes;
use crate::reads;
use crate::review;
use crate::route::{Query, Route, Target, Verb};
use crate::shared::Shared;
use crate::store::Store;
use crate::table::Form;

/// Maximum size of a request's body, as in a real API server.
const BODY_LIMIT: usize = 3 << 20;

impl Shared {
    /// Answers a request; one without a token is made by `default`, if there is one.
    pub(crate) async fn answer<B>(
        self: Arc<Self>,
        default: Option<Identity>,
        request: Request<B>,
    ) -> Result<Response<Body>, Infallible>
    where
        B: hyper::body::Body + Send,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let query = Query::of(&parts.uri);
        let route = Route::of(&parts.method, parts.uri.path(), &query);
        let who = self.identify(default, &parts.headers);
        let order = self.arrived(&parts, &route, &query, who.as_ref().ok());
        let warnings = Warnings::default();
        let told = Arc::clone(&warnings);
        let arrived = Arrived { order, who, route, query, upgrade, warnings };
        let mut response = answer::answer(self.reply(arrived, &parts, body).await);
        answer::date(&mut response, self.now());
        answer::warn(&mut response, &told.lock());
        self.log.edit(order, |entry| entry.code = Some(response.status().as_u16()));
        Ok(response)
    }

    fn identify(&self, default: Option<Identity>, headers: &HeaderMap) -> Result<Identity, ApiError> {
        let Some(header) = headers.get(AUTHORIZATION) else {
            return Ok(default.unwrap_or(Identity::Anonymous));
        };
        let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        let state = &mut *self.lock();
        state.access.identify(token.ok_or(ApiError::Unauthorized)?.trim(), &state.store, self.now())
    }

    fn arrived(&self, parts: &Parts, route: &Route, query: &Query, who: Option<&Identity>) -> u64 {
        let (resource, name) = route.named(query);
        self.log.arrived(|order| Logged {
            order,
            verb: route.verb,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            resource,
            name,
            user: who.map_or_else(|| "system:anonymous".to_owned(), Identity::user),
            read: None,
            code: None,
            missing: None,
        })
    }

    /// Authorizes a request; the log keeps the missing grant.
    fn authorize(&self, who: &Identity, route: &Route, query: &Query, order: u64) -> Result<(), ApiError> {
        let Target::Resource { collection, .. } = &route.target else { return Ok(()) };
        let selected = query.get("fieldSelector").and_then(crate::selector::exact_name);
        let Some(request) = Attributes::of(route.verb, &route.target, selected) else { return Ok(()) };
        let store = &self.lock().store;
        if access::may(who, &request, store) {
            return store.require_served(collection.kind);
        }
        self.log.edit(order, |entry| entry.missing = Some(request.smallest()));
        Err(request.refusal(collection.kind, &who.user()))
    }

    /// Answers a path that is no resource: discovery, for whoever is known.
    fn page(&self, who: &Identity, target: &Target, parts: &Parts) -> Result<Reply, ApiError> {
        let path = parts.uri.path();
        let store = &self.lock().store;
        let served = |kind: &kinds::Kind| store.require_served(kind).is_ok();
        let is_path = *target == Target::Path;
        let body = is_path.then(|| discovery::discovery(path, &served)).flatten();
        let is_known = access::is_master(who) || *who != Identity::Anonymous && body.is_some();
        if is_path && !is_known {
            let verb = parts.method.as_str().to_lowercase();
            return Err(ApiError::Path { user: who.user(), verb, path: path.to_owned() });
        }
        let body = body.ok_or_else(|| nobody_has(path, store))?;
        Ok(Reply::Whole(StatusCode::OK, encoded(&body)))
    }

    async fn reply<B>(self: &Arc<Self>, arrived: Arrived, parts: &Parts, body: B) -> Result<Reply, ApiError>
    where
        B: hyper::body::Body + Send,
        B::Error: Into<BoxError>,
    {
        let Arrived { order, who, route, query, upgrade, warnings } = arrived;
        let path = parts.uri.path();
        let who = who?;
        if let Some(reply) = public(path) {
            return Ok(reply);
        }
        self.authorize(&who, &route, &query, order)?;
        if let Target::Review(review) = route.target {
            if route.verb != Verb::Create {
                return Err(ApiError::MethodNotAllowed);
            }
            let body = whole(body).await?;
            let answer = review::answer(&who, review, &body, &self.lock().store)?;
            return Ok(Reply::Whole(StatusCode::CREATED, encoded(&answer)));
        }
        let Target::Resource { collection, .. } = &route.target else {
            return self.page(&who, &route.target, parts);
        };
        if let Target::Resource { name: Some(name), subresource: Some(sub), .. } = &route.target {
            match sub.as_str() {
                "log" => return self.logs(&collection.key(name), &query).await,
                "exec" => return self.exec(&collection.key(name), &query, parts, upgrade),
                "proxy" => return self.proxied(&collection.key(name), parts, whole(body).await?).await,
                _ => {}
            }
        }
        let gates = self.lock().gates;
        reads::validate(route.verb, &query, gates)?;
        let read = reads::read(route.verb, &query, gates)?;
        self.log.edit(order, |entry| entry.read = read);
        let body = whole(body).await?;
        let content_type =
            parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let content_type = content_type.to_owned();
        let form = Form::of(&parts.headers, &query);
        let call = Call { who, verb: route.verb, query, content_type, body, form, warnings };
        if route.verb == Verb::Watch {
            return Ok(Reply::Watch(crate::watch::watch(self, collection, &call)?));
        }
        let kind = collection.kind;
        let (call, target) = self.through_webhooks(call, route.target).await?;
        let (code, outcome) =
            self.change(|state, now| operate(&call, &target, &mut state.store, &mut state.access, now))?;
        // Large lists are written when nobody waits for the lock any more.
        Ok(Reply::Whole(code, outcome.bytes(kind, form, self.now())))
    }
}

async fn whole<B>(body: B) -> Result<Bytes, ApiError>
where
    B: hyper::body::Body + Send,
    B::Error: Into<BoxError>,
{
    Ok(Limited::new(body, BODY_LIMIT).collect().await.map_err(|_| ApiError::TooLarge)?.to_bytes())
}

/// The error of a path that nobody serves: of a known group it is a status.
fn nobody_has(path: &str, store: &Store) -> ApiError {
    let base = path.split('/').take(3).collect::<Vec<_>>().join("/");
    let served = |kind: &kinds::Kind| store.require_served(kind).is_ok();
    match base.starts_with("/api") && discovery::discovery(&base, &served).is_some() && base != path {
        true => ApiError::NoSuchPath,
        false => ApiError::NoSuchPage,
    }
}

/// A request that is in the log.
struct Arrived {
    order: u64,
    who: Result<Identity, ApiError>,
    route: Route,
    query: Query,
    /// The connection, if it can be upgraded.
    upgrade: Option<OnUpgrade>,
    warnings: Warnings,
}

/// Paths without authentication.
fn public(path: &str) -> Option<Reply> {
    let text = match path {
        "/healthz" | "/readyz" | "/livez" => "ok".to_owned(),
        "/version" => version().to_string(),
        _ => return None,
    };
    Some(Reply::Whole(StatusCode::OK, text.into_bytes()))
}

/// The imitated version.
fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.4+millrace", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}
