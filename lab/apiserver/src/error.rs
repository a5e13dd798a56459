// SPDX-License-Identifier: Apache-2.0
//! Why a request failed, with the HTTP code, reason and `metav1.Status` object that the real API server would send.

use http::StatusCode;
use serde_json::{Value, json};

use crate::causes::{Causes, about, conflicts, disputed};
use crate::kinds::Kind;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApiError {
    #[error("{} \"{name}\" not found", kind.qualified())]
    NotFound { kind: &'static Kind, name: String },
    /// Unknown path.
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    /// Unsupported method.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// The object exists.
    #[error("{} \"{name}\" already exists", kind.qualified())]
    AlreadyExists { kind: &'static Kind, name: String },
    /// A precondition (uid, resource version) failed.
    #[error("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified())]
    Conflict {
        kind: &'static Kind,
        name: String,
        /// Failed precondition.
        why: String,
    },
    /// A precondition of a deletion failed.
    #[error("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.of_group())]
    Precondition { kind: &'static Kind, name: String, why: String },
    /// The object exists until its finalizers are gone.
    #[error("object is being deleted: {} \"{name}\" already exists", kind.qualified())]
    Ending { kind: &'static Kind, name: String },
    /// A path of nobody.
    #[error("404 page not found\n")]
    NoSuchPage,
    /// A path that is not for this user.
    #[error("forbidden: User \"{user}\" cannot {verb} path \"{path}\"")]
    Path { user: String, verb: String, path: String },
    /// A patch of an unknown type.
    #[error("415: Unsupported Media Type")]
    PatchType,
    /// An error without a reason.
    #[error("{0}")]
    Plain(String),
    /// Malformed request.
    #[error("{0}")]
    BadRequest(String),
    /// Invalid object.
    #[error("{} \"{name}\" is invalid: {why}", kind.of_group())]
    Invalid { kind: &'static Kind, name: String, why: Causes },
    /// An invalid scale of an object.
    #[error("Scale.autoscaling \"{0}\" is invalid: {1}")]
    Scale(String, Causes),
    /// Contradictory parameters.
    #[error("{kind}.meta.k8s.io \"\" is invalid: {why}")]
    Options {
        /// `ListOptions`, `CreateOptions`, …
        kind: &'static str,
        why: Causes,
    },
    /// Other managers want other values: who, and the field.
    #[error("Apply failed with {}", conflicts(.0))]
    Apply(Vec<(String, String)>),
    /// The patch does not fit the object.
    #[error("the server rejected our request due to an error in our request")]
    Rejected,
    /// Nobody answers in a pod.
    #[error("{0}")]
    Unreachable(String),
    /// No valid credentials.
    #[error("Unauthorized")]
    Unauthorized,
    /// Forbidden to everybody.
    #[error("{0}")]
    Forbidden(String),
    /// Not authorized.
    #[error("{}{} is forbidden: {why}", kind.qualified(), name.as_ref().map(|name| format!(" \"{name}\"")).unwrap_or_default())]
    Denied {
        kind: &'static Kind,
        name: Option<String>,
        /// User, verb and resource.
        why: String,
    },
    /// The namespace is terminating, so that nothing can be created in it.
    #[error(
        "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
        kind.qualified()
    )]
    Terminating { kind: &'static Kind, name: String, namespace: String },
    /// Denied by an admission policy.
    #[error("{} \"{name}\" is forbidden: {why}", kind.qualified())]
    Policy {
        kind: &'static Kind,
        name: String,
        /// The policy, its binding and its reason.
        why: String,
        /// Code of its reason.
        code: StatusCode,
    },
    /// Denied by a webhook.
    #[error("admission webhook \"{webhook}\" denied the request{why}")]
    Webhook {
        webhook: String,
        /// `: ` and its message, or that it has none.
        why: String,
        code: StatusCode,
        /// It named a reason.
        has_reason: bool,
    },
    /// The resource version has expired.
    #[error("too old resource version: {asked} ({oldest})")]
    Expired {
        asked: u64,
        /// Oldest that is kept.
        oldest: u64,
    },
    /// The resource version of a continue token has expired.
    #[error(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter."
    )]
    ContinueExpired,
    /// The resource version is in the future.
    #[error("Timeout: Too large resource version: {asked}, current: {current}")]
    TooLargeVersion {
        asked: u64,
        /// Newest.
        current: u64,
    },
    /// A streamed list, where etcd does not say how far its watches have come.
    #[error(
        "a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled"
    )]
    NoWatchProgress,
    /// Unsupported media type.
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    MediaType(&'static str),
    #[error("the body of the request is too large")]
    TooLarge,
    /// The server's own failure, or a kubelet's.
    #[error("Internal error occurred: {0}")]
    Internal(String),
}

impl ApiError {
    #[must_use]
    pub fn code(&self) -> StatusCode {
        match self {
            Self::NotFound { .. } | Self::NoSuchPath | Self::NoSuchPage => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::AlreadyExists { .. }
            | Self::Ending { .. }
            | Self::Apply(_)
            | Self::Precondition { .. }
            | Self::Conflict { .. } => StatusCode::CONFLICT,
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::Invalid { .. } | Self::Scale(..) | Self::Options { .. } | Self::Rejected => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) | Self::Path { .. } | Self::Denied { .. } | Self::Terminating { .. } => {
                StatusCode::FORBIDDEN
            }
            Self::Expired { .. } | Self::ContinueExpired => StatusCode::GONE,
            Self::TooLargeVersion { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::Unreachable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoWatchProgress | Self::Plain(_) | Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::MediaType(_) | Self::PatchType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Policy { code, .. } | Self::Webhook { code, .. } => *code,
        }
    }

    /// The machine-readable reason.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::AlreadyExists { .. } | Self::Ending { .. } => "AlreadyExists",
            Self::Expired { .. } | Self::ContinueExpired => "Expired",
            Self::Webhook { has_reason: false, .. } | Self::Plain(_) => "",
            _ => reason_of(self.code()),
        }
    }

    /// Seconds of the `Retry-After` header, if it is to be sent.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::TooLargeVersion { .. } => Some(1),
            _ => None,
        }
    }

    fn details(&self) -> Option<Value> {
        let mut details = match self {
            Self::NotFound { kind, name }
            | Self::AlreadyExists { kind, name }
            | Self::Ending { kind, name }
            | Self::Conflict { kind, name, .. }
            | Self::Policy { kind, name, .. }
            | Self::Terminating { kind, name, .. } => about(name, kind.group, kind.plural),
            Self::Denied { kind, name, .. } => {
                about(name.as_deref().unwrap_or_default(), kind.group, kind.plural)
            }
            Self::Invalid { kind, name, .. } | Self::Precondition { kind, name, .. } => {
                about(name, kind.group, kind.name)
            }
            Self::Scale(name, _) => about(name, "autoscaling", "Scale"),
            Self::Options { kind, .. } => about("", "meta.k8s.io", kind),
            Self::TooLargeVersion { .. }
            | Self::NoSuchPath
            | Self::MethodNotAllowed
            | Self::Rejected
            | Self::PatchType
            | Self::Path { .. }
            | Self::Apply(_) => json!({}),
            _ => return None,
        };
        match self {
            Self::Invalid { why, .. } | Self::Scale(_, why) | Self::Options { why, .. } => {
                details["causes"] = why.status()
            }
            Self::Apply(fields) => details["causes"] = fields.iter().map(disputed).collect(),
            Self::Policy { why, .. } => details["causes"] = json!([{"message": why}]),
            Self::Terminating { namespace, .. } => {
                details["causes"] = json!([{
                    "reason": "NamespaceTerminating", "field": "metadata.namespace",
                    "message": format!("namespace {namespace} is being terminated"),
                }]);
            }
            Self::TooLargeVersion { .. } => {
                let message = "Too large resource version";
                details["causes"] = json!([{"reason": "ResourceVersionTooLarge", "message": message}]);
            }
            _ => {}
        }
        Some(details)
    }

    /// The `metav1.Status` object.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "reason": self.reason(), "code": self.code().as_u16(),
        });
        if self.reason().is_empty()
            && let Some(status) = status.as_object_mut()
        {
            status.remove("reason");
        }
        if let Some(details) = self.details() {
            status["details"] = details;
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
