// SPDX-License-Identifier: Apache-2.0
//! Where the tables of a ruleset live: those of iptables once in each IP family, those of the native back end in family `inet`,
//! under names of their own.

use redirect::ruleset::{Chain, Family, Table};

use crate::snapshot::NfFamily;

/// A table of a ruleset in a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) family: NfFamily,
    pub(crate) table: Table,
}

impl Home {
    /// True for a table of the native back end.
    pub(crate) fn is_native(self) -> bool {
        self.family == NfFamily::Inet
    }

    /// The table's name.
    pub(crate) fn table_name(self) -> &'static str {
        if self.is_native() { self.table.native_name() } else { self.table.name() }
    }

    /// The name of a chain in it.
    pub(crate) fn chain_name(self, chain: Chain) -> &'static str {
        if self.is_native() { chain.native_name() } else { chain.name() }
    }
}

/// Where iptables keeps a family.
impl From<Family> for NfFamily {
    fn from(family: Family) -> Self {
        match family {
            Family::V4 => Self::Ip,
            Family::V6 => Self::Ip6,
        }
    }
}
