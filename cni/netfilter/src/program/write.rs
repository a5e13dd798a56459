// SPDX-License-Identifier: Apache-2.0
//! Rules through one back end, and away with those that another back end left: a namespace ends with one set.

use redirect::found::FoundRules;
use redirect::ruleset::Ruleset;

use super::{Options, ProgramError};
use crate::apply::{self, Applied, ApplyError, Removed, apply};
use crate::backend::Backend;
use crate::iptables::{self, Unsandboxed, Variant};
use crate::legacy;
use crate::ours::native_tables;
use crate::read::read;

/// Outcome of writing.
pub(super) struct Written {
    pub(super) applied: Applied,
    pub(super) unsandboxed: Option<Unsandboxed>,
    /// Cause, if rules of another back end are left. The new ones stand.
    pub(super) left: Option<ProgramError>,
}

impl Written {
    /// Notes whether rules of another back end went.
    fn instead(mut self, went: Result<bool, ProgramError>) -> Self {
        match went {
            Ok(true) if self.applied == Applied::Created => self.applied = Applied::Replaced,
            Ok(_) => {}
            Err(error) => self.left = Some(error),
        }
        self
    }
}

impl From<iptables::ToolsResult> for Written {
    fn from(done: iptables::ToolsResult) -> Self {
        Self { applied: done.applied, unsandboxed: done.unsandboxed, left: None }
    }
}

/// Writes through one back end; then, when the new rules stand, removes what others left. `legacy` is what the namespace held before.
pub(super) fn write(
    backend: Backend,
    ruleset: &Ruleset,
    legacy: &FoundRules,
    options: &Options,
) -> Result<Written, ProgramError> {
    let written = match backend {
        Backend::NftCompat | Backend::Nft => {
            Written { applied: apply(ruleset)?, unsandboxed: None, left: None }
        }
        Backend::IptablesNft => {
            let written = Written::from(iptables::apply(Variant::Nft, ruleset, options)?);
            written.instead(remove_native_tables(ruleset))
        }
        Backend::IptablesLegacy => {
            let written = Written::from(iptables::apply(Variant::Legacy, ruleset, options)?);
            return Ok(written.instead(remove_from_nf_tables()));
        }
    };
    Ok(match written.left {
        None => written.instead(replace_in_legacy(legacy, ruleset, options)),
        Some(_) => written,
    })
}

/// Removes what is ours, and what of `known` is there, from every back end. True if there was anything.
pub(super) fn remove(known: &Ruleset, options: &Options) -> Result<bool, ProgramError> {
    // The one goes even if the other fails.
    let (in_nf_tables, legacy) = (remove_from_nf_tables(), legacy::read());
    let in_legacy = remove_from_legacy(&legacy?, known, options)?;
    Ok(in_nf_tables? || in_legacy)
}

fn remove_from_legacy(legacy: &FoundRules, known: &Ruleset, options: &Options) -> Result<bool, ProgramError> {
    if !legacy::ours::has_traces_of_ours(legacy) {
        return Ok(false);
    }
    iptables::remove(Variant::Legacy, known, options)?;
    Ok(true)
}

/// Removes what is in legacy tables when the new rules stand elsewhere. Chains without rules lead no packet anywhere: that they cannot be
/// removed (an image without tools) is no reason to fail.
fn replace_in_legacy(legacy: &FoundRules, known: &Ruleset, options: &Options) -> Result<bool, ProgramError> {
    let harmless = legacy::ours::has_only_empty_chains(legacy, known);
    match remove_from_legacy(legacy, known, options) {
        Err(_) if harmless => Ok(false),
        removed => removed,
    }
}

fn remove_from_nf_tables() -> Result<bool, ProgramError> {
    Ok(apply::remove()? == Removed::Rules)
}

/// Removes the native tables beside what iptables-nft wrote, which is what is wanted.
fn remove_native_tables(written: &Ruleset) -> Result<bool, ProgramError> {
    let snapshot = read().map_err(ApplyError::from)?;
    let there = native_tables(&snapshot).next().is_some();
    if there {
        apply(written)?;
    }
    Ok(there)
}
