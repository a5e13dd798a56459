// SPDX-License-Identifier: Apache-2.0
//! What is ours in tables that the iptables tools write: the chains to empty and the rules to delete, by number.

use redirect::ruleset::{Family, Table};

use crate::snapshot::Name;

/// A chain of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnChain {
    pub(crate) name: Name,
    /// Whether a rule of somebody else jumps to it, so that it cannot be deleted.
    pub(crate) held: bool,
}

/// A rule of ours in a built-in chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRule {
    pub(crate) chain: Name,
    /// 1-based, among all rules of the chain.
    pub(crate) position: usize,
}

/// What is ours in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableResidue {
    pub(crate) family: Family,
    pub(crate) table: Table,
    pub(crate) chains: Vec<OwnChain>,
    /// In order of position.
    pub(crate) rules: Vec<OwnRule>,
}

/// What is ours in a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Residue {
    /// The tables that hold anything of ours.
    pub(crate) tables: Vec<TableResidue>,
    /// Whether that is not exactly what is wanted.
    pub(crate) differs: bool,
}

impl Residue {
    pub(crate) fn table(&self, family: Family, table: Table) -> Option<&TableResidue> {
        self.tables.iter().find(|found| (found.family, found.table) == (family, table))
    }
}
