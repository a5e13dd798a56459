// SPDX-License-Identifier: Apache-2.0
//! Makes the calling thread's namespace hold a ruleset, in one transaction.

use std::io;

use redirect::ruleset::Ruleset;

use crate::encode::EncodeError;
use crate::read::ReadError;

/// What applying came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// There was nothing of ours; now there is.
    Created,
    /// Something of ours was there (half applied, older, upstream's) and was replaced.
    Replaced,
    /// The wanted rules were there; nothing was sent.
    Unchanged,
}

/// Why a ruleset could not be applied. Unless it says otherwise, the namespace is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The ruleset cannot be written for this back end; nothing was sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The rules that are there could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kernel has no nf_tables.
    #[error("failed to apply rules: this kernel has no nf_tables")]
    NoNfTables,
    /// The caller may not.
    #[error(
        "failed to apply rules: not permitted (needs CAP_NET_ADMIN in the network namespace's user namespace)"
    )]
    Permission,
    /// The socket failed.
    #[error("failed to apply rules: {0}")]
    Socket(#[source] io::Error),
}

/// Applies a ruleset for back end `nft-compat`.
///
/// # Errors
/// See [`ApplyError`].
pub fn apply(ruleset: &Ruleset) -> Result<Applied, ApplyError> {
    let _ = ruleset;
    todo!()
}
