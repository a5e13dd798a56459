// SPDX-License-Identifier: Apache-2.0
//! The chosen back end, and why.

use std::fmt;

use super::Backend;
use crate::apply::ApplyError;
use crate::iptables::IptablesError;
use crate::read::ReadError;

/// A back end with the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The back end.
    pub backend: Backend,
    pub reason: Reason,
}

/// Reason for the choice of a back end.
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
            Self::NoNftCompat => {
                "the kernel's nf_tables cannot run what iptables rules need (nft_compat, chains of type nat)"
            }
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

/// Next choice after a back end that the kernel turned out not to have; `None` if the error is about something else, or
/// nothing is left.
#[must_use]
pub fn after(tried: Backend, error: &ApplyError) -> Option<Choice> {
    let (backend, reason) = match (tried, error) {
        (
            Backend::NftCompat | Backend::Nft,
            ApplyError::NoNfTables | ApplyError::Read(ReadError::NoNfTables),
        ) => (Backend::IptablesLegacy, Reason::NoNfTables),
        (Backend::NftCompat, lack) if lack.is_lack() => (Backend::Nft, Reason::NoNftCompat),
        (Backend::Nft, lack) if lack.is_lack() => (Backend::IptablesLegacy, Reason::NoNftCompat),
        _ => return None,
    };
    Some(Choice { backend, reason })
}

/// Next choice after the tools of legacy iptables failed; `None` if the same may succeed later, or through other tools. `node` is the node's back
/// end: rules of others are no reason against it where nothing can write beside them.
#[must_use]
pub fn after_tools(failed: Choice, node: Backend, error: &IptablesError) -> Option<Choice> {
    let cannot_write = matches!(
        error,
        IptablesError::NoTool { .. }
            | IptablesError::Start { .. }
            | IptablesError::Failed { .. }
            | IptablesError::Unproven { .. }
    );
    if failed.backend != Backend::IptablesLegacy || !cannot_write || error.is_retriable() {
        return None;
    }
    let backend = if node == Backend::IptablesLegacy { Backend::NftCompat } else { node };
    let reason = match failed.reason {
        Reason::LegacyRules => Reason::LegacyRulesOutOfReach,
        _ => Reason::Usual,
    };
    let next = Choice { backend, reason };
    Some(next)
}

#[cfg(test)]
mod tests {
    use redirect::generate::ruleset;

    use super::*;
    use crate::encode;
    use crate::fake::ordinary;
    use crate::iptables::decide::Purpose;
    use crate::iptables::{Problem, Variant};
    use crate::snapshot::Name;
    use crate::step::Step;

    #[test]
    fn whatever_the_kernel_lacks_the_next_back_end_is_tried() {
        let batch = encode::batch(&ruleset(&ordinary()).unwrap(), None).unwrap();
        let step = || Box::new(Step::of(&batch, 1));
        let name = || Name::new(b"nat");
        let next = |tried, error: &ApplyError| after(tried, error).map(|next| (next.backend, next.reason));
        let none = [ApplyError::NoNfTables, ApplyError::Read(ReadError::NoNfTables)];
        for error in none {
            for tried in [Backend::NftCompat, Backend::Nft] {
                let expected = (Backend::IptablesLegacy, Reason::NoNfTables);
                assert_eq!(next(tried, &error), Some(expected), "{error}");
            }
        }
        let some = [
            ApplyError::NoNftCompat,
            ApplyError::NoExtension { step: step(), extension: name() },
            ApplyError::NoExpression { step: step(), expression: name() },
            ApplyError::NoChainType { step: step(), kind: name() },
            ApplyError::NoFamily { step: step() },
        ];
        for error in some {
            let expected =
                [(Backend::Nft, Reason::NoNftCompat), (Backend::IptablesLegacy, Reason::NoNftCompat)];
            let found = [Backend::NftCompat, Backend::Nft].map(|tried| next(tried, &error));
            assert_eq!(found, expected.map(Some), "{error}");
        }
        let other = [ApplyError::Permission, ApplyError::NotAcknowledged, ApplyError::Busy { attempts: 1 }];
        for error in other {
            assert_eq!(Backend::ALL.map(|tried| next(tried, &error)), [None; 4], "{error}");
        }
    }

    #[test]
    fn tools_that_cannot_write_legacy_tables_leave_it_to_nf_tables() {
        let tool = || "iptables-legacy-restore".to_owned();
        let failed = |problem| IptablesError::Failed { tool: tool(), problem, message: String::new() };
        let none = IptablesError::NoTool { tool: "iptables-legacy-restore", variant: Variant::Legacy };
        let not_started =
            IptablesError::Start { tool: tool(), reason: std::io::ErrorKind::PermissionDenied.into() };
        let unproven = IptablesError::Unproven { variant: Variant::Legacy, purpose: Purpose::Apply };
        let finals = [
            failed(Problem::Other),
            failed(Problem::Version),
            failed(Problem::Unknown),
            none,
            not_started,
            unproven,
        ];
        let legacy = |reason| Choice { backend: Backend::IptablesLegacy, reason };
        let chosen = |backend, reason| Some(Choice { reason, backend });
        for error in &finals {
            let after = |reason, node| after_tools(legacy(reason), node, error);
            let out_of_reach = Reason::LegacyRulesOutOfReach;
            for node in [Backend::NftCompat, Backend::Nft] {
                assert_eq!(after(Reason::LegacyRules, node), chosen(node, out_of_reach), "{error}");
            }
            for reason in [Reason::NoNfTables, Reason::NoNftCompat] {
                let usual = chosen(Backend::NftCompat, Reason::Usual);
                assert_eq!(
                    after(reason, Backend::IptablesLegacy),
                    usual,
                    "a record may be of another kernel"
                );
            }
            let others = Choice { backend: Backend::IptablesNft, reason: Reason::Asked };
            assert_eq!(after_tools(others, Backend::NftCompat, error), None, "{error}");
        }
        let limit = std::time::Duration::from_secs(1);
        let later = [
            failed(Problem::Resource),
            IptablesError::Timeout { tool: tool(), limit },
            IptablesError::Locked { tool: tool(), lock: "/run/xtables.lock", holder: None },
        ];
        for error in &later {
            assert_eq!(after_tools(legacy(Reason::LegacyRules), Backend::NftCompat, error), None, "{error}");
        }
    }
}
