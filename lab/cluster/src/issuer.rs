// SPDX-License-Identifier: Apache-2.0
//! The cluster's certificate authority, where the lab holds its key: its own and those of clusters that it has started.

use crate::LabError;

/// A certificate authority.
pub trait Issuer: Send + Sync {
    /// Its certificate, as PEM.
    fn ca(&self) -> String;

    /// A server's certificate for these names, and its key, as PEM.
    fn issue(&self, names: &[String]) -> Result<(String, String), LabError>;
}
