// SPDX-License-Identifier: Apache-2.0
//! Failures of the lab's own machinery. A failure of the system under test is never one of these.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use cluster::LabError;

/// The harness failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Failed operation on a file or directory.
    #[error("failed to {what} {path:?}: {source}")]
    File {
        /// Operation.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Failed system call that concerns no file.
    #[error("failed to {what}: {source}")]
    System {
        /// Operation.
        what: &'static str,
        source: io::Error,
    },
    /// Nobody can ask an API server for it that is not the lab's.
    #[error("failed to {0}: the API server is not the lab's")]
    Foreign(&'static str),
    /// A network namespace cannot be entered.
    #[error(transparent)]
    Netns(#[from] netfilter::NetnsError),
    /// The kernel rejected a change of a link.
    #[error("failed to set a link up: {0}")]
    Link(#[from] rtnetlink::Error),
    /// The embedded API rejected a request of ours.
    #[error("failed to ask the API: {0}")]
    Api(#[source] Box<kube::Error>),
    /// JSON of ours cannot be written or read.
    #[error("failed to convert to or from JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A process could not be started or printed something unexpected.
    #[error("failed to run {program:?}: {why}")]
    Process { program: PathBuf, why: String },
    /// A mount that cannot follow the node's, in the words of containerd and CRI-O.
    #[error("path {path:?} is mounted on {mount:?} but it is not a shared or slave mount")]
    NotShared {
        /// Path of the volume.
        path: PathBuf,
        mount: &'static str,
    },
    /// An image that no node of the lab has, in the kubelet's words.
    #[error("{0}")]
    NoImage(String),
    /// Deadline exceeded.
    #[error("{what} did not happen within {deadline:?}")]
    Deadline {
        /// Expected event.
        what: String,
        /// Deadline.
        deadline: Duration,
    },
    /// A process of the lab's own was late: the machine is to blame, and not the system under test.
    #[error("the lab's own: {what} did not happen within {deadline:?}")]
    Late {
        /// Expected event.
        what: String,
        /// Deadline.
        deadline: Duration,
    },
    /// Not in this cluster.
    #[error("there is no {0}")]
    Missing(String),
    /// Another part of the lab.
    #[error(transparent)]
    Lab(#[from] LabError),
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { what, path: path.into(), source }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl From<Error> for LabError {
    fn from(error: Error) -> Self {
        match error {
            Error::Deadline { what, deadline } => Self::Deadline { what, deadline },
            Error::Lab(error) => error,
            Error::Foreign(what) => Self::unsupported(crate::TIER, what),
            other => Self::harness("run the node", other),
        }
    }
}
