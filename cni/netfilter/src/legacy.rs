// SPDX-License-Identifier: Apache-2.0
//! Tables of legacy iptables, which nf_tables does not show: what the calling thread's namespace holds of them, read in process.
//!
//! | part | what it does |
//! |---|---|
//! | `legacy` | which tables there are, and all of them |
//! | `legacy/socket` | asks the kernel for one table |
//! | `legacy/layout` | its entries as chains and rules; pure |
//! | `legacy/rule` | the conditions and the target of an entry; pure |
//! | [`ours`] | what is ours, and whether it is what is wanted; pure |
//!
//! A table is made by asking for it, and stays, so only those are read that somebody made. A table without rules is none to us:
//! `iptables-legacy -L` is enough to make it.

mod layout;
pub mod ours;
pub(crate) mod rule;
mod socket;

use std::io;

use redirect::found::{FoundFamily, FoundRules, FoundTable};
use redirect::ruleset::{Family, Ruleset, Table};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read as read_file};

use crate::netns::own_proc;

pub(crate) use socket::available;

/// Failure to read a table.
#[derive(Debug, thiserror::Error)]
pub enum LegacyError {
    /// `/proc` does not say which there are.
    #[error("list tables of legacy iptables: read {path}")]
    List {
        /// Where they are listed.
        path: &'static str,
        /// The system's reason.
        #[source]
        reason: io::Error,
    },
    /// The kernel does not say what one holds.
    #[error("read legacy table {table}")]
    Read {
        /// Its name.
        table: &'static str,
        /// The kernel's reason.
        #[source]
        reason: io::Error,
    },
    /// The caller may not.
    #[error(
        "read legacy table {table}: not permitted (needs CAP_NET_ADMIN in the user namespace that owns the network namespace)"
    )]
    Permission {
        /// Its name.
        table: &'static str,
    },
    /// The kernel's reply is malformed.
    #[error("read legacy table {table}: malformed reply from the kernel")]
    Malformed {
        /// Its name.
        table: &'static str,
    },
}

/// Reads the tables of both families that exist in the calling thread's namespace. Makes none.
///
/// # Errors
/// See [`LegacyError`].
pub fn read() -> Result<FoundRules, LegacyError> {
    let mut tables = read_family(Family::V4)?;
    tables.extend(read_family(Family::V6)?);
    Ok(FoundRules { tables })
}

/// Reads those of one family.
///
/// # Errors
/// See [`LegacyError`].
pub fn read_family(family: Family) -> Result<Vec<FoundTable>, LegacyError> {
    let names = tables(family)?;
    let there = Table::ALL.into_iter().filter(|table| names.iter().any(|name| name == table.name()));
    let read = |table: Table| {
        let chains = socket::chains(family, table)?;
        Ok(FoundTable { family: FoundFamily::Legacy(family), name: table.name().to_owned(), chains })
    };
    there.map(read).collect()
}

/// The legacy tables that exist in the calling thread's namespace for a family. None where the kernel has no legacy back end.
///
/// # Errors
/// [`LegacyError::List`].
pub fn tables(family: Family) -> Result<Vec<String>, LegacyError> {
    // The thread's own: /proc/net follows the main thread.
    let path = match family {
        Family::V4 => own_proc!("net/ip_tables_names"),
        Family::V6 => own_proc!("net/ip6_tables_names"),
    };
    names(path).map_err(|reason| LegacyError::List { path, reason })
}

/// True if the kernel has every table that the rules of `ruleset` are in. Makes them: only for a namespace whose legacy tables are about to be
/// written.
pub(crate) fn has_tables_for(ruleset: &Ruleset) -> bool {
    ruleset.families().all(|family| {
        let mut needed =
            Table::ALL.into_iter().filter(|table| ruleset.rules_of(family, *table).next().is_some());
        needed.all(|table| available(family, table))
    })
}

fn names(path: &str) -> io::Result<Vec<String>> {
    let file = match open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => file,
        // Only listed where the legacy back end is built in or loaded; a missing /proc is another matter.
        Err(Errno::NOENT) => {
            return std::fs::metadata(own_proc!("net")).map(|_| Vec::new());
        }
        Err(errno) => return Err(errno.into()),
    };
    let mut names = Vec::new();
    let mut buffer = [0; 512];
    loop {
        match read_file(&file, &mut buffer) {
            Ok(0) => break,
            Ok(length) => names.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(String::from_utf8_lossy(&names).lines().map(str::to_owned).collect())
}
