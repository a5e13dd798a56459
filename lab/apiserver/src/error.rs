// SPDX-License-Identifier: Apache-2.0
//! Why a request failed, with the HTTP code, reason and `metav1.Status` object that the real API server would send.

use http::StatusCode;
use serde_json::{Value, json};

use crate::kinds::Kind;

/// A failed request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// No such object.
    #[error("{} \"{name}\" not found", kind.qualified())]
    NotFound {
        /// Its kind.
        kind: &'static Kind,
        /// Its name.
        name: String,
    },
    /// Nothing is served under this path.
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    /// The path does not take this method.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// An object of that name is there.
    #[error("{} \"{name}\" already exists", kind.qualified())]
    AlreadyExists {
        /// Its kind.
        kind: &'static Kind,
        /// Its name.
        name: String,
    },
    /// A precondition (uid, resource version) does not hold.
    #[error("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified())]
    Conflict {
        /// The object's kind.
        kind: &'static Kind,
        /// The object's name.
        name: String,
        /// Which precondition.
        why: String,
    },
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// The object is not acceptable.
    #[error("{} \"{name}\" is invalid: {why}", kind.qualified())]
    Invalid {
        /// Its kind.
        kind: &'static Kind,
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The parameters of a list or a watch do not go together.
    #[error("ListOptions.meta.k8s.io \"\" is invalid: {0}")]
    ListOptions(String),
    /// A patch does not fit the object.
    #[error("the server rejected our request due to an error in our request")]
    Rejected,
    /// No valid credentials.
    #[error("Unauthorized")]
    Unauthorized,
    /// Something forbids this, whoever asks.
    #[error("{0}")]
    Forbidden(String),
    /// The user may not do this.
    #[error("{}{} is forbidden: {why}", kind.qualified(), name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default())]
    Denied {
        /// The kind that it is about.
        kind: &'static Kind,
        /// The object, if it is about one.
        name: Option<String>,
        /// Who cannot do what where.
        why: String,
    },
    /// The namespace is being deleted, so that nothing can be created in it.
    #[error(
        "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
        kind.qualified()
    )]
    Terminating {
        /// The kind that was to be created.
        kind: &'static Kind,
        /// The object that was.
        name: String,
        /// The namespace.
        namespace: String,
    },
    /// An admission policy denies it.
    #[error("{} \"{name}\" is forbidden: {why}", kind.qualified())]
    Policy {
        /// The kind that it is about.
        kind: &'static Kind,
        /// The object.
        name: String,
        /// The policy, its binding and its reason.
        why: String,
        /// The code that goes with its reason.
        code: StatusCode,
    },
    /// The changes since this resource version are no longer kept.
    #[error("too old resource version: {asked} ({oldest})")]
    Expired {
        /// What was asked for.
        asked: u64,
        /// The oldest that is kept.
        oldest: u64,
    },
    /// The version that the pages of a list are of is no longer kept.
    #[error(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter."
    )]
    ContinueExpired,
    /// The resource version is in the future.
    #[error("Timeout: Too large resource version: {asked}, current: {current}")]
    TooLargeVersion {
        /// What was asked for.
        asked: u64,
        /// The newest there is.
        current: u64,
    },
    /// A streamed list, where etcd does not say how far its watches have come.
    #[error(
        "a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled"
    )]
    NoWatchProgress,
    /// The body is of a type that is not understood.
    #[error("the body of the request was in an unknown format: {0}")]
    MediaType(String),
    /// The body is too large.
    #[error("the body of the request is too large")]
    TooLarge,
    /// A fault that the lab asked for.
    #[error("injected fault")]
    Injected {
        /// The HTTP code.
        code: StatusCode,
        /// Seconds of the `Retry-After` header.
        retry_after: Option<u32>,
    },
}

impl ApiError {
    /// The HTTP code.
    #[must_use]
    pub fn code(&self) -> StatusCode {
        match self {
            Self::NotFound { .. } | Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::AlreadyExists { .. } | Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Invalid { .. } | Self::ListOptions(_) | Self::Rejected => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::Denied { .. } | Self::Terminating { .. } => StatusCode::FORBIDDEN,
            Self::Expired { .. } | Self::ContinueExpired => StatusCode::GONE,
            Self::TooLargeVersion { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::NoWatchProgress => StatusCode::INTERNAL_SERVER_ERROR,
            Self::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Policy { code, .. } | Self::Injected { code, .. } => *code,
        }
    }

    /// The machine-readable reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::Expired { .. } | Self::ContinueExpired => "Expired",
            _ => reason_of(self.code()),
        }
    }

    /// Seconds of the `Retry-After` header, if it is to be sent.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::Injected { retry_after, .. } => *retry_after,
            Self::TooLargeVersion { .. } => Some(1),
            _ => None,
        }
    }

    /// The `metav1.Status` object.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "reason": self.reason(), "code": self.code().as_u16(),
        });
        if let Self::NotFound { kind, name }
        | Self::AlreadyExists { kind, name }
        | Self::Conflict { kind, name, .. }
        | Self::Invalid { kind, name, .. }
        | Self::Policy { kind, name, .. } = self
        {
            status["details"] = json!({"name": name, "group": kind.group, "kind": kind.plural});
        }
        if let Self::Denied { kind, name, .. } = self {
            status["details"] = json!({"group": kind.group, "kind": kind.plural});
            if let Some(name) = name {
                status["details"]["name"] = json!(name);
            }
        }
        if let Self::Terminating { kind, name, namespace } = self {
            let cause = json!({
                "reason": "NamespaceTerminating", "field": "metadata.namespace",
                "message": format!("namespace {namespace} is being terminated"),
            });
            status["details"] =
                json!({"name": name, "group": kind.group, "kind": kind.plural, "causes": [cause]});
        }
        if let Self::TooLargeVersion { .. } = self {
            let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
            status["details"] = json!({"causes": [cause]});
        }
        if let Some(seconds) = self.retry_after() {
            status["details"]["retryAfterSeconds"] = json!(seconds);
        }
        status
    }
}

fn reason_of(code: StatusCode) -> &'static str {
    match code.as_u16() {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    }
}
