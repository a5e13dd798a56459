// SPDX-License-Identifier: Apache-2.0
//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use apiserver::PkiError;
use cluster::LabError;

/// Failure of a build, or of a cluster's start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to {what} {path}: {source}")]
    File { what: &'static str, path: PathBuf, source: io::Error },
    #[error("failed to {0}: {1}")]
    System(&'static str, #[source] io::Error),
    #[error("failed to read {path}: {why}")]
    Recipes { path: PathBuf, why: String },
    #[error("no component is called {0:?}: cnilab components list")]
    Unknown(String),
    /// A component that was not built.
    #[error(
        "{binary} is not in {directory}: cnilab components build {component}, or XDG_CACHE_HOME names the cache that has it"
    )]
    Missing { binary: String, component: String, directory: PathBuf },
    /// A path of the machine that nodes need.
    #[error(
        "nodes do not see {path}: each has a {own} of its own. Move the checkout (or CARGO_TARGET_DIR), or the cache of components (XDG_CACHE_HOME)"
    )]
    Hidden { path: PathBuf, own: &'static str },
    /// A program that the machine's distribution has.
    #[error("there is no {0} in PATH: install it")]
    NotInstalled(String),
    #[error("failed to build {binary}: {why}")]
    Build { binary: String, why: String },
    #[error(transparent)]
    Certificate(#[from] PkiError),
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("failed to set up the network: {0}")]
    Network(#[from] rtnetlink::Error),
    /// A program of the cluster ended, or was not ready in time.
    #[error("{program} {why}; its log: {log}")]
    Program { program: String, why: String, log: PathBuf },
    #[error("failed to ask the API server: {0}")]
    Api(#[from] kube::Error),
    #[error("failed to {0}: {1}")]
    Other(&'static str, String),
}

impl Error {
    /// Wraps the error of an operation on a file.
    pub fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}

impl From<Error> for LabError {
    fn from(error: Error) -> Self {
        match error {
            Error::Lab(error) => error,
            Error::Other(what, why) => Self::harness(what, why),
            Error::System(what, source) => Self::harness(what, source),
            other => Self::harness("run the cluster", other),
        }
    }
}
