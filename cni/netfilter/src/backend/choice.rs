// SPDX-License-Identifier: Apache-2.0
//! Which back end is taken, and why.

use std::fmt;

use super::Backend;
use crate::apply::ApplyError;

/// A back end with the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The back end.
    pub backend: Backend,
    /// Why this one.
    pub reason: Reason,
}

/// Why a back end was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing speaks against the usual one.
    Usual,
    /// An operator asked for it.
    Asked,
    /// The kernel cannot run iptables' extensions in nf_tables.
    NoNftCompat,
    /// The kernel has no nf_tables.
    NoNfTables,
    /// The pod holds rules of somebody else in tables of legacy iptables.
    LegacyRules,
    /// As [`Reason::LegacyRules`], but nothing here can write such tables.
    LegacyRulesOutOfReach,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Usual,
        Self::Asked,
        Self::NoNftCompat,
        Self::NoNfTables,
        Self::LegacyRules,
        Self::LegacyRulesOutOfReach,
    ];

    /// The name in records and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Asked => "asked",
            Self::NoNftCompat => "no-nft-compat",
            Self::NoNfTables => "no-nf-tables",
            Self::LegacyRules => "legacy-rules",
            Self::LegacyRulesOutOfReach => "legacy-rules-out-of-reach",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Usual => "the kernel has nf_tables and nft_compat",
            Self::Asked => "it was asked for",
            Self::NoNftCompat => "the kernel's nf_tables cannot run what iptables rules need (nft_compat)",
            Self::NoNfTables => "the kernel has no nf_tables",
            Self::LegacyRules => "the pod holds rules of others in tables of legacy iptables",
            Self::LegacyRulesOutOfReach => {
                "the pod holds rules of others in tables of legacy iptables, but nothing here can write those"
            }
        })
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.backend, self.reason)
    }
}

/// What to try next after a back end that the kernel turned out not to have; `None` if the error is about something else, or
/// nothing is left.
#[must_use]
pub fn after(tried: Backend, error: &ApplyError) -> Option<Choice> {
    let (backend, reason) = match (tried, error) {
        (Backend::NftCompat, ApplyError::NoNftCompat | ApplyError::NoExtension { .. }) => {
            (Backend::Nft, Reason::NoNftCompat)
        }
        (Backend::NftCompat | Backend::Nft, ApplyError::NoNfTables) => {
            (Backend::IptablesLegacy, Reason::NoNfTables)
        }
        _ => return None,
    };
    Some(Choice { backend, reason })
}
