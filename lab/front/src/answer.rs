// SPDX-License-Identifier: Apache-2.0
//! Answers of the front's own, and the server's broken ones.

use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use listen::{Body, BoxError};
use serde_json::{Value, json};

/// Why a connection ends without an answer, or within one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the connection was dropped by a fault")]
    Dropped,
    #[error("the body was truncated by a fault")]
    Truncated,
}

/// The `metav1.Status` of an injected failure.
pub(crate) fn status(code: u16, retry_after: Option<u32>) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "injected fault", "reason": reason(code), "code": code,
    });
    if let Some(seconds) = retry_after {
        status["details"] = json!({ "retryAfterSeconds": seconds });
    }
    status
}

fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}

pub(crate) fn failure(code: u16, retry_after: Option<u32>) -> Response<Body> {
    let code_of_status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = whole(code_of_status, status(code, retry_after).to_string().into());
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// As an API server that is too busy for its handlers (`tooManyRequests` in `apiserver/pkg/server/filters`), or somebody before it.
pub(crate) fn page(code: u16) -> Response<Body> {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (kind, text) = match code {
        StatusCode::TOO_MANY_REQUESTS => {
            ("text/plain; charset=utf-8", "Too many requests, please try again later.\n".to_owned())
        }
        code => (
            "text/html",
            format!("<html><head><title>{code}</title></head><body><h1>{code}</h1></body></html>"),
        ),
    };
    let mut response = whole(code, text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if code == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1_u32));
    }
    response
}

pub(crate) fn garbage() -> Response<Body> {
    whole(StatusCode::OK, Bytes::from_static(b"<html>\xff not JSON"))
}

pub(crate) fn whole(code: StatusCode, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// Announces the whole body, sends half of it, and breaks off. A watch has no whole body: it breaks off within its first event.
pub(crate) async fn truncated(response: Response<Body>, is_watch: bool) -> Result<Response<Body>, BoxError> {
    let (mut parts, body) = response.into_parts();
    let bytes = if is_watch && parts.status.is_success() {
        Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{\"kind\"")
    } else {
        body.collect().await?.to_bytes()
    };
    let length = bytes.len();
    let half = stream::iter([Ok(Frame::data(bytes.slice(..length / 2)))]);
    let broken = stream::once(async {
        // What was sent is flushed first.
        tokio::task::yield_now().await;
        Err(BoxError::from(Broken::Truncated))
    });
    parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(Response::from_parts(parts, StreamBody::new(half.chain(broken)).boxed_unsync()))
}

/// The same body, a few bytes at a time.
pub(crate) fn dripping(response: Response<Body>, bytes: usize, every: Duration) -> Response<Body> {
    let bytes = bytes.max(1);
    response.map(|body| {
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
        StreamBody::new(drops).boxed_unsync()
    })
}

#[expect(clippy::disallowed_methods, reason = "the pause is the fault that was asked for")]
pub(crate) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

/// Message of a denial, by RBAC or by admission: not every 403 is one, as a namespace that is being terminated answers so as well.
pub(crate) fn denial(code: StatusCode, body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let message = status["message"].as_str()?;
    let causes = status["details"]["causes"].as_array();
    let is_terminating = |all: &Vec<Value>| all.iter().any(|one| one["reason"] == "NamespaceTerminating");
    let is_forbidden = code == StatusCode::FORBIDDEN && !causes.is_some_and(is_terminating);
    let is_policys = message.contains("ValidatingAdmissionPolicy");
    (is_forbidden || is_policys).then(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_told_from_other_failures() {
        let of = |code: u16, message: &str, cause: &str| {
            let body = json!({"message": message, "details": {"causes": [{"reason": cause}]}}).to_string();
            denial(StatusCode::from_u16(code).unwrap(), body.as_bytes()).is_some()
        };
        assert!(of(403, "pods is forbidden: User \"u\" cannot list resource \"pods\"", ""));
        assert!(of(422, "pods \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no", ""));
        assert!(!of(403, "events \"e\" is forbidden: unable to create new content", "NamespaceTerminating"));
        assert!(!of(422, "Pod \"a\" is invalid", "") && !of(404, "pods \"a\" not found", ""));
        assert_eq!(denial(StatusCode::FORBIDDEN, b"<html>"), None);
    }
}
