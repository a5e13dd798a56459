// SPDX-License-Identifier: Apache-2.0
//! Answers as HTTP: whole ones, streams, and the broken ones that faults ask for.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE, WARNING,
};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;

use crate::error::ApiError;
use crate::exec::Handshake;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

pub(crate) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Lines of a watch, or the end of its connection.
pub(crate) type Lines = BoxStream<'static, Result<Bytes, Unanswered>>;

/// No response: the connection is closed.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// Dropped by a fault.
    #[error("the connection was dropped by a fault")]
    Dropped,
    /// Truncated by a fault.
    #[error("the body was truncated by a fault")]
    Truncated,
}

/// Response.
pub(crate) enum Reply {
    Whole(StatusCode, Vec<u8>),
    Watch(Lines),
    /// Output of a container.
    Text(Lines),
    /// The connection becomes a WebSocket.
    Switch(Handshake),
}

pub(crate) fn answer(reply: Result<Reply, ApiError>) -> Response<Body> {
    match reply {
        Ok(Reply::Whole(code, bytes)) => whole(code, bytes),
        Ok(Reply::Watch(lines)) => response(StatusCode::OK, streamed(lines)),
        Ok(Reply::Text(lines)) => {
            let mut response = response(StatusCode::OK, streamed(lines));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            response
        }
        Ok(Reply::Switch(handshake)) => switched(&handshake),
        Err(error) => failure(&error),
    }
}

fn switched(handshake: &Handshake) -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(handshake.protocol));
    if let Ok(accept) = HeaderValue::try_from(&handshake.accept) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

fn response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn whole(code: StatusCode, bytes: Vec<u8>) -> Response<Body> {
    response(code, Full::new(Bytes::from(bytes)).map_err(|never| match never {}).boxed_unsync())
}

/// Adds `Warning` headers, as kubectl prints them.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

pub(crate) fn failure(error: &ApiError) -> Response<Body> {
    let mut response = whole(error.code(), error.status().to_string().into_bytes());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn streamed(lines: Lines) -> Body {
    StreamBody::new(lines.map(|line| line.map(Frame::data).map_err(BoxError::from))).boxed_unsync()
}

/// Announces the whole body, sends half of it, and breaks off.
pub(crate) fn truncated(reply: Result<Reply, ApiError>) -> Response<Body> {
    let (code, bytes) = match reply {
        Ok(Reply::Whole(code, bytes)) => (code, Bytes::from(bytes)),
        Ok(Reply::Watch(_) | Reply::Text(_) | Reply::Switch(_)) => {
            (StatusCode::OK, Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"kind\""))
        }
        Err(error) => (error.code(), Bytes::from(error.status().to_string())),
    };
    let length = bytes.len();
    let half = stream::iter([Ok(bytes.slice(..length / 2))]);
    let mut response = response(code, streamed(half.chain(broken()).boxed()));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// Closes the connection after flushing.
fn broken() -> Lines {
    stream::once(async {
        tokio::task::yield_now().await;
        Err(Unanswered::Truncated)
    })
    .boxed()
}

/// The same body, a few bytes at a time.
pub(crate) fn dripping(reply: Result<Reply, ApiError>, bytes: usize, every: Duration) -> Response<Body> {
    let answered = answer(reply);
    let (parts, body) = answered.into_parts();
    let bytes = bytes.max(1);
    let drops = body.into_data_stream().flat_map(move |piece| {
        let pieces: Vec<Result<Bytes, BoxError>> = match piece {
            Ok(piece) => {
                let starts = (0..piece.len()).step_by(bytes);
                starts.map(|start| Ok(piece.slice(start..piece.len().min(start + bytes)))).collect()
            }
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces).then(move |piece| async move {
            pause(every).await;
            piece.map(Frame::data)
        })
    });
    Response::from_parts(parts, StreamBody::new(drops).boxed_unsync())
}

#[expect(clippy::disallowed_methods, reason = "the pause is the fault that was asked for")]
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}
