// SPDX-License-Identifier: Apache-2.0
//! One difference between found and wanted rules, and where it is.

use std::fmt;

use super::FoundFamily;

/// Where a chain is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChainPlace {
    /// The table's family.
    pub family: FoundFamily,
    /// The table's name.
    pub table: String,
    /// The chain's name.
    pub chain: String,
}

impl fmt::Display for ChainPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.family, self.table, self.chain)
    }
}

/// A rule of a place, by its 1-based position among all rules of its chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuleOf {
    /// Its chain.
    pub place: ChainPlace,
    /// Its position: that of the wanted rule if it is missing.
    pub position: usize,
    /// The rule without its chain.
    pub rule: String,
}

/// One difference, fit for a person through its `Display`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Difference {
    /// Nothing of ours is there at all.
    #[error("there is no redirection: all traffic bypasses the proxy")]
    NoRules,
    /// Two sets of rules of ours are there.
    #[error("rules are also in table {0} {1}: two sets of rules count and redirect twice")]
    SecondSet(FoundFamily, String),
    /// A table of the native back end is there that is not wanted.
    #[error("table {0} {1} is not expected")]
    UnexpectedTable(FoundFamily, String),
    /// A chain is not there.
    #[error("chain {0} is missing")]
    MissingChain(ChainPlace),
    /// A chain of ours is there that is not wanted.
    #[error("chain {0} is not expected")]
    UnexpectedChain(ChainPlace),
    /// The kernel does not call a chain that it should.
    #[error("chain {0} is there, and the kernel does not call it")]
    NotCalled(ChainPlace),
    /// A chain drops what none of its rules decides.
    #[error("chain {0} drops what no rule decides")]
    Drops(ChainPlace),
    /// A rule is not there.
    #[error("rule {} of {} is missing: {}", .0.position, .0.place, .0.rule)]
    Missing(RuleOf),
    /// A rule of ours is there that is not wanted, or once more than it is.
    #[error("rule {} of {} is not expected: {}", .0.position, .0.place, .0.rule)]
    Unexpected(RuleOf),
    /// All rules are there, in an order that decides otherwise.
    #[error("the rules of {0} are in another order")]
    Order(ChainPlace),
    /// A rule of somebody else comes before one of ours and may keep packets from it.
    #[error("rule {} of {} is somebody else's and comes before ours: {}", .0.position, .0.place, .0.rule)]
    Foreign(RuleOf),
    /// A rule of somebody else, in a nat chain that the kernel runs before ours, takes packets that ours would redirect.
    #[error(
        "rule {} of {} is somebody else's and takes packets past the proxy, as the kernel runs its chain before ours (registered later, or with a \
         lower priority): {}; have that chain registered with a priority above -100, or before the pod's ADD",
        .0.position, .0.place, .0.rule
    )]
    Overtaken(RuleOf),
}
