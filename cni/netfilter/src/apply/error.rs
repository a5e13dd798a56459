// SPDX-License-Identifier: Apache-2.0
//! Why a ruleset could not be applied.

use std::io;

use crate::encode::EncodeError;
use crate::plan::PlanError;
use crate::read::ReadError;
use crate::snapshot::Name;
use crate::step::Step;

/// Failure to apply a ruleset. The namespace is as it was, except where a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The ruleset cannot be written for this back end; nothing was sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The ruleset cannot go next to what is there; nothing was sent.
    #[error(transparent)]
    Plan(PlanError),
    /// The rules that are there could not be read; nothing was sent.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kernel has no nf_tables.
    #[error("apply rules: this kernel has no nf_tables")]
    NoNfTables,
    /// The kernel has nf_tables, but not what runs iptables' extensions in it.
    #[error("apply rules: this kernel has no nft_compat (CONFIG_NFT_COMPAT)")]
    NoNftCompat,
    /// The kernel lacks an extension.
    #[error("{step}: this kernel has no xtables extension {extension:?} for it")]
    NoExtension {
        /// The rule that needs it.
        step: Box<Step>,
        /// The extension.
        extension: Name,
    },
    /// The kernel lacks an expression, or what it needs to do in this rule.
    #[error("{step}: this kernel has no expression {expression:?} that can do it")]
    NoExpression {
        /// The rule that needs it.
        step: Box<Step>,
        /// The expression.
        expression: Name,
    },
    /// The kernel has no chains of that type in that family: `nat` in `inet` came with Linux 5.2.
    #[error("{step}: this kernel has no chains of type {kind} in family {family}", family = .step.family)]
    NoChainType {
        /// The chain.
        step: Box<Step>,
        /// Its type.
        kind: Name,
    },
    /// The kernel has no tables of that family.
    #[error("{step}: this kernel has no tables of family {family}", family = .step.family)]
    NoFamily {
        /// The table.
        step: Box<Step>,
    },
    /// The caller may not.
    #[error(
        "apply rules: not permitted (needs CAP_NET_ADMIN in the user namespace that owns the network namespace)"
    )]
    Permission,
    /// A rule names a user or group that this user namespace does not have, or this is not the user namespace that owns the
    /// network namespace.
    #[error(
        "{step}: its user or group is not mapped in the user namespace that owns the network namespace, or the caller is in another"
    )]
    UnmappedOwner {
        /// The rule.
        step: Box<Step>,
    },
    /// Others kept changing rules.
    #[error("apply rules: others changed rules during each of {attempts} attempts")]
    Busy { attempts: u32 },
    /// The kernel refused a step.
    #[error("{step}")]
    Refused {
        /// The step.
        step: Box<Step>,
        /// The kernel's reason.
        #[source]
        reason: io::Error,
    },
    /// The transaction is longer than what the kernel takes at once, and the caller may not raise that; nothing was sent.
    #[error("apply rules: {bytes} bytes are more than net.core.wmem_max lets this user send at once")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The kernel did not say that it accepted the transaction, nor that it did not. What the namespace holds is not known.
    #[error("apply rules: the kernel did not acknowledge the transaction")]
    NotAcknowledged,
    /// The socket failed. What the namespace holds is not known if that happened on the way back.
    #[error("apply rules")]
    Socket(#[source] io::Error),
}

impl ApplyError {
    /// True if the kernel lacks something, so that another back end may do.
    #[must_use]
    pub fn is_lack(&self) -> bool {
        matches!(
            self,
            Self::NoNfTables
                | Self::Read(ReadError::NoNfTables)
                | Self::NoNftCompat
                | Self::NoExtension { .. }
                | Self::NoExpression { .. }
                | Self::NoChainType { .. }
                | Self::NoFamily { .. }
        )
    }
}

impl From<PlanError> for ApplyError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Encode(error) => Self::Encode(error),
            error => Self::Plan(error),
        }
    }
}
