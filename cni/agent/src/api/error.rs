// SPDX-License-Identifier: Apache-2.0
//! Every way in which a request can fail, sorted once. What to do about each is its caller's business.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header::RETRY_AFTER, header::WWW_AUTHENTICATE};
use kube::core::Status;
use protocol::error::with_sources;

/// Upper bound for `Retry-After`.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Maximum length kept of a server's message.
const MESSAGE_LIMIT: usize = 500;

/// A 401, or no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Unauthorized {
    /// The server's message, or why there is no token.
    pub message: String,
    pub token: Token,
}

/// Classification of a token that the API server rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Token {
    /// The account's tokens were accepted before, and this one has not expired.
    Proven,
    /// Expired, by its own `exp` or by the API server.
    Expired,
    /// Another request with it is accepted.
    Accepted,
    /// The API server was out of reach or ended its watch early, and has not accepted the token since: it may have restarted with other
    /// signing keys, or the token may have ended with its pod meanwhile.
    Doubtful,
    /// The pod that it is bound to is gone or past its grace period by a minute, or may be: the API server was out of reach.
    Unbound,
    /// No token of its account was ever accepted, or it does not say when it expires.
    #[default]
    Unproven,
}

impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Proven => "the token was accepted before and has not expired",
            Self::Expired => "the token has expired",
            Self::Accepted => "another request with the token is accepted",
            Self::Doubtful => {
                "the API server's watch was cut before, so that its signing keys may have changed or the token's pod may be over"
            }
            Self::Unbound => "the token's pod is over, or may be",
            Self::Unproven => "no token of this account was accepted before",
        })
    }
}

/// Failure of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// No connection, time-out, or a truncated response.
    #[error("cannot reach the API server: {0}")]
    Unreachable(String),
    /// 401, or no token.
    #[error("the API server rejected the credentials: {0}")]
    Unauthorized(Unauthorized),
    /// 403
    #[error("denied by the API server: {0}")]
    Forbidden(String),
    /// 404
    #[error("not found at the API server: {0}")]
    NotFound(String),
    /// 409
    #[error("conflict with another version at the API server: {0}")]
    Conflict(String),
    /// 410: the resource version has expired.
    #[error("the API server no longer has that resource version: {0}")]
    Gone(String),
    /// 504: the version that was asked for is larger than any that the server knows, as after etcd was restored from a backup.
    #[error("the API server does not have that resource version yet: {0}")]
    TooLargeVersion(String),
    /// 429
    #[error("the API server is too busy: {message}")]
    Throttled { message: String, retry_after: Option<Duration> },
    /// 5xx
    #[error("the API server failed: {code} {message}")]
    Server { code: u16, message: String, retry_after: Option<Duration> },
    /// Another 4xx.
    #[error("the API server rejected the request: {code} {message}")]
    Refused { code: u16, message: String },
    /// Malformed response.
    #[error("malformed response of the API server: {0}")]
    Malformed(String),
}

impl ApiError {
    /// Label value in metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Unauthorized(_) => "unauthorized",
            Self::Forbidden(_) => "forbidden",
            Self::NotFound(_) => "not_found",
            Self::Conflict(_) => "conflict",
            Self::Gone(_) => "gone",
            Self::TooLargeVersion(_) => "version_too_large",
            Self::Throttled { .. } => "throttled",
            Self::Server { .. } => "server_error",
            Self::Refused { .. } => "refused",
            Self::Malformed(_) => "malformed",
        }
    }

    /// The server's `Retry-After`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Server { retry_after, .. } => {
                retry_after.map(|time| time.min(LONGEST_RETRY_AFTER))
            }
            _ => None,
        }
    }

    /// Maps an unsuccessful response. Its body need not be a `Status`: proxies answer, too.
    pub(super) fn of_answer(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        // Only seconds: no API server sends a date.
        let header = headers.get(RETRY_AFTER).and_then(|text| text.to_str().ok()?.trim().parse().ok());
        let status = serde_json::from_slice::<Status>(body).unwrap_or_default();
        if is_too_large_version(&status) {
            return Self::TooLargeVersion(shortened(status.message));
        }
        let message = match status.message {
            words if words.is_empty() => String::from_utf8_lossy(body).trim().to_owned(),
            words => words,
        };
        if code == StatusCode::UNAUTHORIZED {
            return Self::unauthorized(message, headers);
        }
        Self::sorted(code.as_u16(), message, header.map(Duration::from_secs))
    }

    /// A kube-apiserver says no more than `Unauthorized`; what authenticates in front of one may say that the token expired (RFC 6750, 3.1).
    fn unauthorized(message: String, headers: &HeaderMap) -> Self {
        let challenge = headers.get(WWW_AUTHENTICATE).and_then(|text| text.to_str().ok()).unwrap_or_default();
        let says_expired =
            [message.as_str(), challenge].iter().any(|text| text.to_lowercase().contains("expired"));
        let token = if says_expired { Token::Expired } else { Token::default() };
        Self::Unauthorized(Unauthorized { message: shortened(message), token })
    }

    /// The same, with what we know of the token that was sent. The API server's word is better.
    pub(super) fn with_token(mut self, sent: Token) -> Self {
        if let Self::Unauthorized(Unauthorized { token: token @ Token::Unproven, .. }) = &mut self {
            *token = sent;
        }
        self
    }

    /// Maps an `ERROR` event of a watch.
    pub(super) fn of_status(status: Status) -> Self {
        if is_too_large_version(&status) {
            return Self::TooLargeVersion(shortened(status.message));
        }
        let seconds = status.details.map_or(0, |details| details.retry_after_seconds);
        let retry_after = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        Self::sorted(status.code, status.message, retry_after)
    }

    fn sorted(code: u16, message: String, retry_after: Option<Duration>) -> Self {
        let message = shortened(message);
        match code {
            401 => Self::Unauthorized(Unauthorized { message, token: Token::default() }),
            403 => Self::Forbidden(message),
            404 => Self::NotFound(message),
            409 => Self::Conflict(message),
            410 => Self::Gone(message),
            429 => Self::Throttled { message, retry_after },
            400..=499 => Self::Refused { code, message },
            _ => Self::Server { code, message, retry_after },
        }
    }

    /// True for the API server's words that there is no object of that name. Another 404 says nothing of it: a path that nobody serves there, or a
    /// load balancer's.
    #[must_use]
    pub fn is_gone(&self, name: &str) -> bool {
        matches!(self, Self::NotFound(message) if message.contains(&format!("\"{name}\" not found")))
    }

    /// Maps a response that did not arrive whole.
    pub(super) fn of_client(error: &kube::Error) -> Self {
        if let kube::Error::Service(inner) = error
            && let Some(account) = inner.downcast_ref::<super::account::AccountError>()
        {
            return Self::Unauthorized(Unauthorized {
                message: account.to_string(),
                token: Token::default(),
            });
        }
        Self::Unreachable(with_sources(error))
    }
}

fn is_too_large_version(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
}

fn shortened(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_LIMIT) {
        message.truncate(end);
    }
    message
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(code: u16, retry_after: Option<&str>, body: &str) -> ApiError {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        }
        ApiError::of_answer(StatusCode::from_u16(code).unwrap(), &headers, body.as_bytes())
    }

    #[test]
    fn each_code_has_its_kind() {
        let names: Vec<&str> = [401, 403, 404, 409, 410, 429, 400, 422, 500, 503, 504]
            .into_iter()
            .map(|code| of(code, None, "").name())
            .collect();
        let expected = [
            "unauthorized",
            "forbidden",
            "not_found",
            "conflict",
            "gone",
            "throttled",
            "refused",
            "refused",
            "server_error",
            "server_error",
            "server_error",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn the_words_come_from_a_status_or_from_whatever_is_there() {
        let status = r#"{"kind":"Status","message":"pods is forbidden","code":403}"#;
        assert_eq!(of(403, None, status), ApiError::Forbidden("pods is forbidden".to_owned()));
        assert_eq!(of(502, None, " bad gateway\n").to_string(), "the API server failed: 502 bad gateway");
        let ApiError::Forbidden(long) = of(403, None, &"\u{e4}".repeat(10_000)) else { panic!() };
        assert_eq!(long.chars().count(), MESSAGE_LIMIT);
    }

    #[test]
    fn a_token_is_what_the_server_says_expired() {
        let token = |headers: HeaderMap, body: &str, sent| match ApiError::of_answer(
            StatusCode::UNAUTHORIZED,
            &headers,
            body.as_bytes(),
        )
        .with_token(sent)
        {
            ApiError::Unauthorized(error) => error.token,
            other => panic!("{other}"),
        };
        let challenge = r#"Bearer error="invalid_token", error_description="The access token expired""#;
        let challenged: HeaderMap =
            [(WWW_AUTHENTICATE, HeaderValue::from_static(challenge))].into_iter().collect();
        for (headers, body, sent, want) in [
            (HeaderMap::new(), "Unauthorized", Token::Proven, Token::Proven),
            (HeaderMap::new(), "Unauthorized", Token::Unproven, Token::Unproven),
            (HeaderMap::new(), "service account token has Expired", Token::Proven, Token::Expired),
            (challenged, "", Token::Proven, Token::Expired),
        ] {
            assert_eq!(token(headers, body, sent), want, "{body}");
        }
    }

    #[test]
    fn retry_after_is_heeded_within_reason() {
        assert_eq!(of(429, Some("7"), "").retry_after(), Some(Duration::from_secs(7)));
        assert_eq!(of(503, Some(" 2 "), "").retry_after(), Some(Duration::from_secs(2)));
        assert_eq!(of(429, Some("86400"), "").retry_after(), Some(LONGEST_RETRY_AFTER));
        for unusable in [Some("Fri, 31 Dec 1999 23:59:59 GMT"), Some("-1"), None] {
            assert_eq!(of(429, unusable, "").retry_after(), None);
        }
        assert_eq!(of(404, Some("7"), "").retry_after(), None);
    }

    #[test]
    fn a_version_from_the_future_is_no_server_error() {
        let text = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 7",
            "details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1}}"#;
        assert_eq!(of(504, Some("1"), text).name(), "version_too_large");
        assert_eq!(ApiError::of_status(serde_json::from_str(text).unwrap()).name(), "version_too_large");
    }

    #[test]
    fn an_event_is_sorted_as_an_answer_is() {
        let status = |text: &str| ApiError::of_status(serde_json::from_str(text).unwrap());
        assert_eq!(status(r#"{"code":410,"message":"too old"}"#), ApiError::Gone("too old".to_owned()));
        let busy = status(r#"{"code":429,"details":{"retryAfterSeconds":3}}"#);
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(3)));
    }
}
