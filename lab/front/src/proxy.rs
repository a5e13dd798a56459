// SPDX-License-Identifier: Apache-2.0
//! One request, from its arrival to its answer: the record, the faults, the server.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use cluster::{Asked, Chaos, Effect, Fault, Filter, Front, InitialEvents, Issuer, LabError, Verb};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use listen::{Answer, Arrivals, Body, BoxError, Handler, ServeError, ServerHandle, Tls, Unanswered};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::answer::{self, Broken};
use crate::forward::Upstream;
use crate::identity::{BoundPod, Identity};
use crate::past;
use crate::request;
use crate::rules::Rules;
use crate::stream::stream;

/// Maximum size of a request's body, as in a real API server.
const BODY_LIMIT: usize = 3 << 20;

/// Number of a request that is not recorded.
const UNRECORDED: u64 = u64::MAX;

/// Pods that have asked, by UID.
#[derive(Default)]
struct Pods {
    present: BTreeSet<String>,
    /// Of a former scenario: while they end they may ask once more.
    former: BTreeSet<String>,
}

/// A front: a handle that is cheap to clone.
#[derive(Clone)]
pub struct Proxy {
    upstream: Upstream,
    names: Arc<[String]>,
    tls: Tls,
    rules: Arc<Rules>,
    record: Arc<Arrivals<Asked>>,
    pods: Arc<Mutex<Pods>>,
    chaos: Chaos,
    began: Instant,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Proxy").finish_non_exhaustive()
    }
}

impl Proxy {
    /// Before a server that is reached under these names and addresses, without faults; without TLS until it is certified.
    #[must_use]
    pub fn new(upstream: Upstream, names: Vec<String>) -> Self {
        Self {
            upstream,
            names: names.into(),
            tls: Tls::default(),
            rules: Arc::default(),
            record: Arc::default(),
            pods: Arc::default(),
            chaos: Chaos::default(),
            began: Instant::now(),
        }
    }

    /// The same, with events of watches that are late by chance.
    #[must_use]
    pub fn perturbed(self, chaos: Chaos) -> Self {
        Self { chaos, ..self }
    }

    /// Serves a listener until the handle is dropped. Must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// [`ServeError`] if the listener cannot be used.
    pub fn serve(&self, listener: std::net::TcpListener) -> Result<ServerHandle, ServeError> {
        listen::serve(self.clone(), listener, &self.tls)
    }

    /// Changes whenever a request arrives or is answered.
    #[must_use]
    pub fn traffic(&self) -> watch::Receiver<u64> {
        self.record.traffic()
    }

    /// Answers a request, or closes its connection.
    ///
    /// # Errors
    /// A fault drops it, or the server cannot be reached.
    pub async fn answer<B>(&self, request: Request<B>) -> Result<Response<Body>, BoxError>
    where
        B: hyper::body::Body + Send,
        B::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        let mut asked = request::asked(&parts, self.began.elapsed());
        asked.order = match self.is_of_former_pod(&parts.headers) {
            true => UNRECORDED,
            false => self.record.arrived(|order| Asked { order, ..asked.clone() }),
        };
        let (holds, fate) = self.rules.meet(&asked);
        for hold in holds {
            hold.wait().await;
        }
        let body = Limited::new(body, BODY_LIMIT).collect().await?.to_bytes();
        if let Some(Effect::Past(then)) = fate {
            parts.uri = past::list(asked.verb, &parts.uri, then).unwrap_or(parts.uri);
        }
        let Sent { response, denied } = match fate {
            Some(Effect::Drop) => return Err(Broken::Dropped.into()),
            Some(Effect::Page(code)) => Sent::own(answer::page(code)),
            Some(Effect::Garbage) => Sent::own(answer::garbage()),
            Some(Effect::Answer { code, retry_after }) => Sent::own(answer::failure(code, retry_after)),
            _ => self.send(&asked, parts, body).await?,
        };
        let response = match fate {
            Some(Effect::Truncate) => answer::truncated(response, asked.verb == Verb::Watch).await?,
            Some(Effect::Drip { bytes, every }) => answer::dripping(response, bytes, every),
            _ => response,
        };
        let code = Some(response.status().as_u16());
        self.record.edit(asked.order, |one| (one.code, one.denied) = (code, denied));
        Ok(response)
    }

    /// Notes the pod of a request; true if it has asked before the front began anew.
    fn is_of_former_pod(&self, headers: &HeaderMap) -> bool {
        let bound = Identity::of(headers).pod.filter(|pod| !pod.uid.is_empty());
        let Some(BoundPod { uid, .. }) = bound else { return false };
        let mut pods = self.pods.lock();
        let is_former = pods.former.contains(&uid);
        if !is_former {
            pods.present.insert(uid);
        }
        is_former
    }

    /// Sends a request on.
    async fn send(&self, asked: &Asked, parts: Parts, body: Bytes) -> Result<Sent, BoxError> {
        let response = self.upstream.forward(parts, body).await?;
        if response.status().is_client_error() {
            return self.refused(asked, response).await;
        }
        if asked.verb != Verb::Watch || response.status() != StatusCode::OK {
            return Ok(Sent::own(response));
        }
        let response =
            response.map(|body| stream(body, asked.clone(), &self.rules, &self.record, self.chaos.clone()));
        Ok(Sent::own(response))
    }

    /// Notes what the server did not grant.
    async fn refused(&self, asked: &Asked, response: Response<Body>) -> Result<Sent, BoxError> {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        if asked.initial.is_some() && parts.status == StatusCode::UNPROCESSABLE_ENTITY {
            self.record.edit(asked.order, |one| one.initial = Some(InitialEvents::Refused));
        }
        let denied = answer::denial(parts.status, &bytes);
        Ok(Sent { response: Response::from_parts(parts, answer::full(bytes)), denied })
    }
}

/// An answer, and what it denies.
struct Sent {
    response: Response<Body>,
    denied: Option<String>,
}

impl Sent {
    fn own(response: Response<Body>) -> Self {
        Self { response, denied: None }
    }
}

impl Handler for Proxy {
    /// Applies a fault to a new connection.
    async fn connected(&self, stream: TcpStream) -> Option<TcpStream> {
        if !self.rules.resets_connections() {
            return Some(stream);
        }
        // Closed without lingering: the client sees a reset.
        let _best_effort = stream.set_zero_linger();
        None
    }

    fn answer(self, request: Request<Incoming>) -> Answer {
        Box::pin(async move { Self::answer(&self, request).await.map_err(Unanswered) })
    }
}

#[async_trait]
impl Front for Proxy {
    fn add(&self, fault: Fault) {
        self.rules.add(fault);
    }

    fn clear(&self) {
        self.rules.clear();
    }

    fn renew(&self) {
        self.rules.clear();
        let mut pods = self.pods.lock();
        let present = std::mem::take(&mut pods.present);
        pods.former.extend(present);
        self.record.clear();
    }

    fn reset_connections(&self) {
        self.rules.reset_connections();
    }

    async fn certify(&self, issuer: &dyn Issuer, valid_from: Option<SystemTime>) -> Result<(), LabError> {
        let identity = issuer.issue(&self.names, valid_from)?;
        let former = self.tls.certify(&identity.certificate, &identity.key);
        former.map_err(|error| LabError::harness("serve with another certificate", error))?.await;
        Ok(())
    }

    fn requests(&self) -> Vec<Asked> {
        self.record.all()
    }

    fn count(&self, filter: Filter<'_>) -> usize {
        self.record.count(filter)
    }

    async fn until_requests(&self, count: usize, filter: Filter<'_>) {
        self.record.until(count, filter).await;
    }
}
