// SPDX-License-Identifier: Apache-2.0
//! Failures of the lab on a cluster that is not its own.

use std::time::Duration;

use cluster::LabError;
use kube::core::Status;

/// Subject of messages, on both tiers: the cluster is somebody's, or the run has started it.
pub const TIER: &str = "this cluster";

/// The harness failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kubeconfig cannot be used.
    #[error("{path} cannot be used: {why}")]
    Kubeconfig { path: String, why: String },
    /// The API server rejected a request.
    #[error("cannot {what}: {source}")]
    Api {
        /// Operation.
        what: String,
        source: Box<kube::Error>,
    },
    /// Permissions are missing, a text for each resource.
    #[error("the user of this kubeconfig may not, in any namespace: {}", .0.join("; "))]
    Denied(Vec<String>),
    /// A watch of an object failed.
    #[error("cannot watch {what}: {why}")]
    Watch { what: String, why: String },
    /// The hand does not answer, or cannot do what it was asked for.
    #[error("hand on node {node}: {why}")]
    Hand { node: String, why: String },
    /// JSON of ours cannot be written or read.
    #[error("cannot convert to or from JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Deadline exceeded.
    #[error("{what} did not happen within {deadline:?}")]
    Deadline { what: String, deadline: Duration },
    /// Leftovers of an end, a line each.
    #[error("{}", .0.join("; "))]
    Left(Vec<String>),
    /// The cluster has a node agent: scenarios would replace and delete it.
    #[error(
        "the cluster has a node agent of its own, DaemonSet {0}: scenarios that deploy one would replace and then delete it. Uninstall it first (what a killed run left: cnilab clean --kubeconfig FILE), or leave --agent-image out"
    )]
    Occupied(String),
    /// Another run has begun in the cluster, and has not ended.
    #[error(
        "namespace {0} is of another run, and scenarios that deploy a node agent have the cluster to themselves: let it end (what a killed run left: cnilab clean --kubeconfig FILE)"
    )]
    Shared(String),
    /// Linux nodes that are not ready, or cordoned: scenarios would deploy the node agent there, and nobody would look after it.
    #[error(
        "not ready or cordoned: {}. A node agent would be deployed there as well, and nothing that it changes be put back: see to these nodes, remove them from the cluster, or leave --agent-image out",
        .0.join(", ")
    )]
    Unusable(Vec<String>),
    /// Not in this cluster.
    #[error("there is no {0}")]
    Missing(String),
    /// Impossible in this cluster; others can.
    #[error("this cluster cannot {0}")]
    Unmet(String),
    /// Impossible in a cluster that is not the lab's own.
    #[error("this cluster cannot {0}")]
    Unsupported(String),
}

impl Error {
    pub(crate) fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api { what, source: Box::new(source) }
    }

    /// True if an object was to be made that is there.
    pub(crate) fn is_about_one_that_is_there(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// True if an object has changed since it was looked at.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status().is_some_and(Status::is_conflict)
    }

    fn status(&self) -> Option<&Status> {
        let Self::Api { source, .. } = self else { return None };
        if let kube::Error::Api(status) = &**source { Some(status) } else { None }
    }
}

impl From<Error> for LabError {
    fn from(error: Error) -> Self {
        match error {
            Error::Deadline { what, deadline } => Self::Deadline { what, deadline },
            Error::Unsupported(what) => Self::unsupported(TIER, what),
            Error::Unmet(what) => Self::Unmet(what),
            other => Self::harness("use the cluster", other),
        }
    }
}
