// SPDX-License-Identifier: Apache-2.0
//! Answers as HTTP: whole ones and streams.

use std::convert::Infallible;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use http::header::{
    CONNECTION, CONTENT_TYPE, DATE, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL,
    UPGRADE, WARNING,
};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;
use listen::Body;
use serde_json::Value;

use crate::error::ApiError;
use crate::exec::Handshake;

/// Lines of a watch, or output of a container.
pub(crate) type Lines = BoxStream<'static, Bytes>;

/// An object as JSON.
pub(crate) fn encoded(object: &Value) -> Vec<u8> {
    // Serialization fails on keys that are not strings, and a `Value` has no others.
    serde_json::to_vec(object).unwrap_or_default()
}

/// Response.
pub(crate) enum Reply {
    Whole(StatusCode, Vec<u8>),
    Watch(Lines),
    /// Output of a container.
    Text(Lines),
    /// A pod's own.
    Passed(Response<Body>),
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
        Ok(Reply::Passed(response)) => response,
        Ok(Reply::Switch(handshake)) => switched(&handshake),
        Err(error) => failure(&error),
    }
}

/// By the server's own clock, which may be another than the machine's.
pub(crate) fn date(response: &mut Response<Body>, now: Timestamp) {
    let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&now);
    if let Some(date) = date.ok().and_then(|date| HeaderValue::try_from(date).ok()) {
        response.headers_mut().entry(DATE).or_insert(date);
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
    if matches!(error, ApiError::NoSuchPage) {
        let mut response = whole(error.code(), error.to_string().into_bytes());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        return response;
    }
    let mut response = whole(error.code(), encoded(&error.status()));
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn streamed(lines: Lines) -> Body {
    let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(line)));
    StreamBody::new(frames).map_err(|never| match never {}).boxed_unsync()
}
