// SPDX-License-Identifier: Apache-2.0
//! Reads everything that nf_tables holds in the calling thread's namespace.

use std::io;

use crate::snapshot::Snapshot;

/// Why rules could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The kernel has no nf_tables.
    #[error("failed to read rules: this kernel has no nf_tables")]
    NoNfTables,
    /// The caller may not.
    #[error(
        "failed to read rules: not permitted (needs CAP_NET_ADMIN in the network namespace's user namespace)"
    )]
    Permission,
    /// Others kept changing rules while they were read.
    #[error("failed to read rules: they changed during each of {attempts} attempts")]
    Busy {
        /// How often it was tried.
        attempts: u32,
    },
    /// The socket failed.
    #[error("failed to read rules: {0}")]
    Socket(#[source] io::Error),
    /// A reply that cannot be decoded.
    #[error("failed to read rules: malformed reply from the kernel")]
    Malformed,
}

/// Reads all tables, chains and rules at one generation.
///
/// # Errors
/// See [`ReadError`].
pub fn read() -> Result<Snapshot, ReadError> {
    todo!()
}
