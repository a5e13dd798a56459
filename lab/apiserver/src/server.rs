// SPDX-License-Identifier: Apache-2.0
//! From an HTTP request to its answer: who asks, the log, the faults, whether it is allowed, and then the store. The same
//! for a request over a socket and for one in process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::Frame;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::access::{Access, Identity};
use crate::error::ApiError;
use crate::faults::{Effect, Faults};
use crate::kinds;
use crate::log::{Log, Logged};
use crate::operate::{Answer, Call, operate};
use crate::rbac::Attributes;
use crate::route::{Query, Route, Target, Verb};
use crate::store::Store;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An answer's body.
pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What a real API server accepts in one request.
const BODY_LIMIT: usize = 3 << 20;

/// Where the time comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The request has no answer: its connection is closed.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// A fault dropped the connection.
    #[error("the connection was dropped by a fault")]
    Dropped,
    /// A fault broke the body off.
    #[error("the body was truncated by a fault")]
    Truncated,
}

/// What changes under one lock.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) access: Access,
}

/// What all handles, clients and connections of one API server share.
pub(crate) struct Shared {
    state: Mutex<State>,
    log: Mutex<Log>,
    revision: watch::Sender<u64>,
    /// Counts arrivals and answers.
    requests: watch::Sender<u64>,
    faults: Faults,
    clock: Clock,
    bookmark_every: Duration,
}

enum Reply {
    Whole(StatusCode, Vec<u8>),
    Watch(stream::BoxStream<'static, Bytes>),
}

impl Shared {
    pub(crate) fn new(state: State, log: Log, clock: Clock, bookmark_every: Duration) -> Self {
        Self {
            revision: watch::Sender::new(state.store.revision()),
            state: Mutex::new(state),
            log: Mutex::new(log),
            requests: watch::Sender::new(0),
            faults: Faults::default(),
            clock,
            bookmark_every,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn bookmark_every(&self) -> Duration {
        self.bookmark_every
    }

    /// The newest resource version, for those who wait for the next.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// Moves whenever a request arrives or is answered.
    pub(crate) fn traffic(&self) -> watch::Receiver<u64> {
        self.requests.subscribe()
    }

    /// Changes the state, then wakes those who wait for changes.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = (self.clock)();
        let mut state = self.lock();
        let result = change(&mut state, now);
        let newest = state.store.revision();
        drop(state);
        self.revision.send_if_modified(|revision| {
            let moved = newest > *revision;
            *revision = newest.max(*revision);
            moved
        });
        result
    }

    /// Answers a request; one without a token is made by `default`, if there is one.
    pub(crate) async fn answer<B>(
        self: Arc<Self>,
        default: Option<Identity>,
        request: Request<B>,
    ) -> Result<Response<Body>, Unanswered>
    where
        B: hyper::body::Body + Send,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let query = Query::of(&parts.uri);
        let route = Route::of(&parts.method, parts.uri.path(), &query);
        let who = self.identify(default, &parts.headers);
        let user = who.as_ref().map_or_else(|_| "system:anonymous".to_owned(), Identity::user);
        let order = self.arrived(&parts, route.verb, &user);
        let (holds, fate) = self.faults.meet(route.verb, parts.uri.path(), &user);
        for hold in holds {
            hold.wait().await;
        }
        let response = match fate {
            Some(Effect::Drop) => return Err(Unanswered::Dropped),
            Some(Effect::Garbage) => whole(StatusCode::OK, b"<html>\xff not JSON".to_vec()),
            Some(Effect::Answer { code, retry_after }) => failure(&ApiError::Injected { code, retry_after }),
            Some(Effect::Truncate) => truncated(self.reply(order, who, &parts, route, query, body).await),
            Some(Effect::Hold(_)) | None => match self.reply(order, who, &parts, route, query, body).await {
                Ok(Reply::Whole(code, bytes)) => whole(code, bytes),
                Ok(Reply::Watch(lines)) => streamed(lines),
                Err(error) => failure(&error),
            },
        };
        self.log().answered(order, response.status().as_u16());
        self.requests.send_modify(|moves| *moves += 1);
        Ok(response)
    }

    fn identify(&self, default: Option<Identity>, headers: &HeaderMap) -> Result<Identity, ApiError> {
        let Some(header) = headers.get(AUTHORIZATION) else { return default.ok_or(ApiError::Unauthorized) };
        let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        let state = self.lock();
        state.access.identify(token.ok_or(ApiError::Unauthorized)?.trim(), &state.store, (self.clock)())
    }

    fn arrived(&self, parts: &Parts, verb: Verb, user: &str) -> u64 {
        let order = self.log().arrived(Logged {
            order: 0,
            at: (self.clock)(),
            verb,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            user: user.to_owned(),
            code: None,
            missing: None,
        });
        self.requests.send_modify(|moves| *moves += 1);
        order
    }

    /// Whether it is allowed; the log keeps what was missing.
    fn authorize(&self, who: &Identity, route: &Route, query: &Query, order: u64) -> Result<(), ApiError> {
        let Target::Resource { collection, .. } = &route.target else { return Ok(()) };
        let selected = query.get("fieldSelector").and_then(crate::selector::exact_name);
        let Some(request) = Attributes::of(route.verb, &route.target, selected) else { return Ok(()) };
        let decided = self.lock().access.authorize(who, &request);
        decided.map_err(|missing| {
            self.log().denied(order, missing);
            request.refusal(collection.kind, &who.user())
        })
    }

    async fn reply<B>(
        self: &Arc<Self>,
        order: u64,
        who: Result<Identity, ApiError>,
        parts: &Parts,
        route: Route,
        query: Query,
        body: B,
    ) -> Result<Reply, ApiError>
    where
        B: hyper::body::Body + Send,
        B::Error: Into<BoxError>,
    {
        let path = parts.uri.path();
        if let Some(reply) = public(path) {
            return Ok(reply);
        }
        let who = who?;
        self.authorize(&who, &route, &query, order)?;
        let Target::Resource { collection, .. } = &route.target else {
            let found = Some(&route.target).filter(|target| **target == Target::Path);
            let body = found.and_then(|_| kinds::discovery(path)).ok_or(ApiError::NoSuchPath)?;
            return Ok(Reply::Whole(StatusCode::OK, body.to_string().into_bytes()));
        };
        let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(|_| ApiError::TooLarge)?.to_bytes();
        let content_type =
            parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let call = Call { verb: route.verb, query, content_type: content_type.to_owned(), body };
        if route.verb == Verb::Watch {
            return Ok(Reply::Watch(crate::watch::watch(self, collection, &call)?.boxed()));
        }
        let answer: Answer =
            self.change(|state, now| operate(&call, &route.target, &mut state.store, &mut state.access, now));
        let (code, value) = answer?;
        Ok(Reply::Whole(code, value.to_string().into_bytes()))
    }
}

/// What needs no credentials.
fn public(path: &str) -> Option<Reply> {
    let text = match path {
        "/healthz" | "/readyz" | "/livez" => "ok".to_owned(),
        "/version" => version().to_string(),
        _ => return None,
    };
    Some(Reply::Whole(StatusCode::OK, text.into_bytes()))
}

/// The version whose behaviour is imitated.
fn version() -> Value {
    json!({
        "major": "1", "minor": "34", "gitVersion": "v1.34.4+millrace", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
    })
}

fn response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn whole(code: StatusCode, bytes: Vec<u8>) -> Response<Body> {
    response(code, Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync())
}

fn failure(error: &ApiError) -> Response<Body> {
    let mut response = whole(error.code(), error.status().to_string().into_bytes());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn streamed(lines: stream::BoxStream<'static, Bytes>) -> Response<Body> {
    response(StatusCode::OK, StreamBody::new(lines.map(|line| Ok(Frame::data(line)))).boxed_unsync())
}

/// Announces the whole body, sends half of it, and breaks off.
fn truncated(reply: Result<Reply, ApiError>) -> Response<Body> {
    let (code, bytes) = match reply {
        Ok(Reply::Whole(code, bytes)) => (code, Bytes::from(bytes)),
        Ok(Reply::Watch(_)) => {
            (StatusCode::OK, Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"kind\""))
        }
        Err(error) => (error.code(), Bytes::from(error.status().to_string())),
    };
    let length = bytes.len();
    let half = stream::iter([Ok(Frame::data(bytes.slice(..length / 2)))]);
    let rest = stream::once(async {
        // What is written so far must leave before the error closes the connection.
        tokio::task::yield_now().await;
        Err(BoxError::from(Unanswered::Truncated))
    });
    let mut response = response(code, StreamBody::new(half.chain(rest)).boxed_unsync());
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}
