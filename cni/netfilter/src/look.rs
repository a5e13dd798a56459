// SPDX-License-Identifier: Apache-2.0
//! Reads everything that the calling thread's namespace holds, in nf_tables and in legacy iptables.

use redirect::found::FoundRules;

use crate::legacy::{self, LegacyError};
use crate::read::{ReadError, read};
use crate::snapshot::Snapshot;

/// Failure to read a namespace's rules.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// Those of nf_tables cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Those of legacy iptables cannot be read.
    #[error(transparent)]
    Legacy(#[from] LegacyError),
}

/// All of it, ready to be judged and compared.
///
/// # Errors
/// It cannot be read.
pub fn look() -> Result<FoundRules, LookError> {
    let mut found = crate::found_rules(&in_nf_tables()?);
    found.tables.extend(legacy::read()?.tables);
    Ok(found)
}

/// True if rules of ours are there, of any version and any back end.
///
/// # Errors
/// It cannot be read.
pub fn holds_rules_of_ours() -> Result<bool, LookError> {
    let found = crate::has_rules_of_ours(&in_nf_tables()?);
    Ok(found || legacy::read()?.hold_ours())
}

/// A kernel without nf_tables holds nothing in it.
fn in_nf_tables() -> Result<Snapshot, LookError> {
    match read() {
        Ok(held) => Ok(held),
        Err(ReadError::NoNfTables) => Ok(Snapshot::default()),
        Err(error) => Err(error.into()),
    }
}
