// SPDX-License-Identifier: Apache-2.0
//! The cluster's certificate authority, where the lab holds its key: its own and those of clusters that it has started.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::LabError;

/// A certificate, those of the authorities between it and the root, and its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "said above")]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// A certificate authority.
pub trait Issuer: fmt::Debug + Send + Sync {
    /// Its certificate, as PEM.
    fn ca(&self) -> String;

    /// A server, reached under these names and addresses; nobody takes its certificate before `valid_from`, if that is given.
    fn issue(&self, names: &[String], valid_from: Option<SystemTime>) -> Result<Identity, LabError>;

    /// Another authority of the same name, with a key of another algorithm: what takes its place when it is replaced.
    fn successor(&self) -> Result<Arc<dyn Issuer>, LabError>;

    /// An authority below this one. Its servers show its certificate as well, and [`Self::ca`] is the root's.
    fn intermediate(&self) -> Result<Arc<dyn Issuer>, LabError>;
}
