// SPDX-License-Identifier: Apache-2.0
//! Chooses a back end from what is wanted and what is there; pure.

use std::fmt;

use super::facts::{LegacyUse, NodeFeatures};
use super::{Backend, Choice, Reason, Wish};
use crate::iptables::Variant;

/// Missing prerequisite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingPrerequisite {
    /// The kernel has no nf_tables.
    NfTables,
    /// nf_tables cannot run iptables' extensions.
    NftCompat,
    /// nf_tables cannot run the native rules.
    NativeRules,
    /// The kernel has no table `nat` for legacy iptables.
    LegacyNat,
    /// The tools of a variant are not installed.
    Tools(Variant),
}

impl fmt::Display for MissingPrerequisite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NfTables => out.write_str("the kernel has no nf_tables (CONFIG_NF_TABLES)"),
            Self::NftCompat => {
                out.write_str("the kernel's nf_tables cannot run iptables' extensions (CONFIG_NFT_COMPAT)")
            }
            Self::NativeRules => {
                out.write_str("the kernel's nf_tables lacks redirection (CONFIG_NFT_NAT, CONFIG_NFT_REDIR)")
            }
            Self::LegacyNat => {
                out.write_str("the kernel has no table nat for legacy iptables (CONFIG_IP_NF_NAT)")
            }
            Self::Tools(variant) => write!(out, "the iptables tools of variant {variant} are not installed"),
        }
    }
}

/// No back end can do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoBackend {
    /// The one that was asked for cannot.
    #[error("use back end {backend}: {lack}")]
    Asked {
        /// The one that was asked for.
        backend: Backend,
        lack: MissingPrerequisite,
    },
    /// None can.
    #[error("find a back end: {nf_tables}, and {legacy}")]
    Nothing {
        /// Missing in nf_tables.
        nf_tables: MissingPrerequisite,
        /// Missing in legacy iptables.
        legacy: MissingPrerequisite,
    },
}

/// The back end of a node.
///
/// # Errors
/// If what is wanted cannot work here, or nothing can.
pub fn choose(wish: Wish, facts: &NodeFeatures) -> Result<Choice, NoBackend> {
    if let Wish::Only(backend) = wish {
        return match lacks(backend, facts) {
            None => Ok(Choice { backend, reason: Reason::Asked }),
            Some(lack) => Err(NoBackend::Asked { backend, lack }),
        };
    }
    let reason = if facts.nf_tables { Reason::NoNftCompat } else { Reason::NoNfTables };
    match [Backend::NftCompat, Backend::Nft, Backend::IptablesLegacy].map(|one| lacks(one, facts)) {
        [None, ..] => Ok(Choice { backend: Backend::NftCompat, reason: Reason::Usual }),
        [_, None, _] => Ok(Choice { backend: Backend::Nft, reason }),
        [_, _, None] => Ok(Choice { backend: Backend::IptablesLegacy, reason }),
        [_, Some(nf_tables), Some(legacy)] => Err(NoBackend::Nothing { nf_tables, legacy }),
    }
}

/// First missing prerequisite.
#[must_use]
pub fn lacks(backend: Backend, facts: &NodeFeatures) -> Option<MissingPrerequisite> {
    let wanted: &[(bool, MissingPrerequisite)] = match backend {
        Backend::NftCompat => &[
            (facts.nf_tables, MissingPrerequisite::NfTables),
            (facts.nft_compat, MissingPrerequisite::NftCompat),
        ],
        Backend::Nft => &[
            (facts.nf_tables, MissingPrerequisite::NfTables),
            (facts.native, MissingPrerequisite::NativeRules),
        ],
        Backend::IptablesNft => &[
            (facts.nf_tables, MissingPrerequisite::NfTables),
            (facts.nft_compat, MissingPrerequisite::NftCompat),
            (facts.nft_tools, MissingPrerequisite::Tools(Variant::Nft)),
        ],
        Backend::IptablesLegacy => &[
            (facts.legacy.nat, MissingPrerequisite::LegacyNat),
            (facts.legacy_tools, MissingPrerequisite::Tools(Variant::Legacy)),
        ],
    };
    wanted.iter().find(|(has, _)| !has).map(|(_, lack)| *lack)
}

/// The back end of a pod on a node that has one. Only rules of others in tables of legacy iptables override it, and only where the operator
/// named none.
#[must_use]
pub fn for_pod(wish: Wish, node: Choice, legacy: LegacyUse) -> Choice {
    match (wish, node.backend, legacy) {
        (Wish::Only(backend), ..) => Choice { backend, reason: Reason::Asked },
        (Wish::Auto, Backend::IptablesLegacy, _) | (Wish::Auto, _, LegacyUse::NoRulesOfOthers) => node,
        (Wish::Auto, _, LegacyUse::RulesOfOthers) => {
            Choice { backend: Backend::IptablesLegacy, reason: Reason::LegacyRules }
        }
        (Wish::Auto, _, LegacyUse::RulesOutOfReach) => {
            Choice { reason: Reason::LegacyRulesOutOfReach, ..node }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::LegacyTables;
    use super::*;

    const TABLES: LegacyTables = LegacyTables { filter: true, mangle: true, nat: true, raw: true };
    const NONE: LegacyTables = LegacyTables { filter: false, mangle: false, nat: false, raw: false };
    const BOTH: NodeFeatures = NodeFeatures {
        nf_tables: true,
        nft_compat: true,
        native: true,
        legacy: TABLES,
        legacy_v6: TABLES,
        ipv6: true,
        legacy_tools: true,
        nft_tools: true,
    };
    const LEGACY_ONLY: NodeFeatures =
        NodeFeatures { nf_tables: false, nft_compat: false, native: false, ..BOTH };
    const NO_COMPAT: NodeFeatures = NodeFeatures { nft_compat: false, ..BOTH };
    const NO_IP_TABLES: NodeFeatures = NodeFeatures { legacy: NONE, legacy_v6: NONE, ..BOTH };
    const NO_TOOLS: NodeFeatures = NodeFeatures { legacy_tools: false, nft_tools: false, ..BOTH };
    const NO_NAT: LegacyTables = LegacyTables { nat: false, ..TABLES };

    #[test]
    fn auto_is_right_on_every_node() {
        let found = |backend, reason| Ok(Choice { backend, reason });
        let usual = found(Backend::NftCompat, Reason::Usual);
        let cases = [
            ("both", BOTH, usual),
            ("nft only (istio#58185)", NodeFeatures { legacy_tools: false, ..NO_IP_TABLES }, usual),
            ("no tools at all (istio#50198)", NO_TOOLS, usual),
            ("nat missing in legacy (istio#57380)", NodeFeatures { legacy: NO_NAT, ..BOTH }, usual),
            ("no IPv6", NodeFeatures { ipv6: false, legacy_v6: NONE, ..BOTH }, usual),
            ("no nft_compat", NO_COMPAT, found(Backend::Nft, Reason::NoNftCompat)),
            ("legacy only", LEGACY_ONLY, found(Backend::IptablesLegacy, Reason::NoNfTables)),
            (
                "nf_tables that can do nothing for us",
                NodeFeatures { nft_compat: false, native: false, ..BOTH },
                found(Backend::IptablesLegacy, Reason::NoNftCompat),
            ),
            (
                "legacy only, nat missing",
                NodeFeatures { legacy: NO_NAT, ..LEGACY_ONLY },
                Err(NoBackend::Nothing {
                    nf_tables: MissingPrerequisite::NfTables,
                    legacy: MissingPrerequisite::LegacyNat,
                }),
            ),
            (
                "legacy only, no tools",
                NodeFeatures { legacy_tools: false, ..LEGACY_ONLY },
                Err(NoBackend::Nothing {
                    nf_tables: MissingPrerequisite::NfTables,
                    legacy: MissingPrerequisite::Tools(Variant::Legacy),
                }),
            ),
        ];
        for (name, facts, expected) in cases {
            assert_eq!(choose(Wish::Auto, &facts), expected, "{name}");
        }
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused_with_what_it_lacks() {
        let cases = [
            (Backend::NftCompat, NO_COMPAT, Some(MissingPrerequisite::NftCompat)),
            (Backend::NftCompat, NO_TOOLS, None),
            (Backend::Nft, NO_COMPAT, None),
            (Backend::Nft, LEGACY_ONLY, Some(MissingPrerequisite::NfTables)),
            (Backend::IptablesNft, NO_TOOLS, Some(MissingPrerequisite::Tools(Variant::Nft))),
            (Backend::IptablesNft, NO_COMPAT, Some(MissingPrerequisite::NftCompat)),
            (Backend::IptablesLegacy, NO_IP_TABLES, Some(MissingPrerequisite::LegacyNat)),
            (Backend::IptablesLegacy, BOTH, None),
        ];
        for (backend, facts, lack) in cases {
            let expected = match lack {
                None => Ok(Choice { backend, reason: Reason::Asked }),
                Some(lack) => Err(NoBackend::Asked { backend, lack }),
            };
            assert_eq!(choose(Wish::Only(backend), &facts), expected);
        }
        let refused = choose(Wish::Only(Backend::IptablesNft), &NO_TOOLS).unwrap_err().to_string();
        assert_eq!(refused, "use back end iptables-nft: the iptables tools of variant nft are not installed");
    }

    #[test]
    fn only_legacy_rules_of_others_override_a_node() {
        use LegacyUse::{NoRulesOfOthers, RulesOfOthers, RulesOutOfReach};
        let usual = Choice { backend: Backend::NftCompat, reason: Reason::Usual };
        let legacy = Choice { backend: Backend::IptablesLegacy, reason: Reason::NoNfTables };
        let override_ = Choice { backend: Backend::IptablesLegacy, reason: Reason::LegacyRules };
        let stuck = Choice { reason: Reason::LegacyRulesOutOfReach, ..usual };
        assert_eq!(for_pod(Wish::Auto, usual, NoRulesOfOthers), usual, "chains without rules (istio#56983)");
        assert_eq!(for_pod(Wish::Auto, usual, RulesOfOthers), override_);
        assert_eq!(for_pod(Wish::Auto, usual, RulesOutOfReach), stuck);
        for use_ in [NoRulesOfOthers, RulesOfOthers, RulesOutOfReach] {
            assert_eq!(for_pod(Wish::Auto, legacy, use_), legacy, "already where the others are");
            let asked = Choice { backend: Backend::Nft, reason: Reason::Asked };
            assert_eq!(for_pod(Wish::Only(Backend::Nft), usual, use_), asked);
        }
    }
}
