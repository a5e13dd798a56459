// SPDX-License-Identifier: Apache-2.0
//! Rules to nf_tables messages, as `iptables-nft` 1.8.9 would have written them; pure. What is sent when, and what else is in
//! the namespace, is up to [`crate::plan`] and [`crate::apply()`].
//!
//! | part | what it does |
//! |---|---|
//! | `encode` | tables, chains, batches |
//! | `encode/rule` | a rule, and which expressions it has |
//! | `encode/list` | expressions as bytes |
//! | `encode/extension` | the C structures of xtables extensions |
//! | `encode/error` | what cannot be encoded |

mod error;
mod extension;
mod list;
mod rule;

use redirect::ruleset::{Chain, ChainRules, Dialect, Family, Rule, Ruleset, Table};

use crate::nft::{self, attribute, message};
use crate::wire::{ACK, CREATE, EXCL, Writer};

pub use error::{EncodeError, Unencodable};
pub use rule::expressions;
pub(crate) use rule::{Position, rule};

/// Room for the rules of an ordinary pod in both families, so that the buffer is allocated once.
const CAPACITY: usize = 16 * 1024;

/// The whole transaction for a namespace that holds none of our rules. With `generation` it commits only if the namespace's
/// rules are at that generation; 1 is a namespace whose nf_tables nobody ever touched.
///
/// # Errors
/// If a rule cannot be encoded, or the ruleset is not of the iptables dialect.
pub fn batch(ruleset: &Ruleset, generation: Option<u32>) -> Result<Vec<u8>, EncodeError> {
    let mut out = begin(ruleset, generation)?;
    for family in ruleset.families() {
        let chains = ruleset.chains(family);
        for chains in chains.chunk_by(|one, next| one.table == next.table) {
            fresh_table(&mut out, family, chains)?;
        }
    }
    Ok(end(out))
}

/// A table that is not there yet: our chains, then each built-in chain that has rules, in the order in which iptables makes them.
fn fresh_table(out: &mut Writer, family: Family, chains: &[ChainRules<'_>]) -> Result<(), EncodeError> {
    let Some(first) = chains.first() else { return Ok(()) };
    table(out, family, first.table);
    for chain in chains.iter().filter(|chain| !chain.chain.is_builtin()) {
        own_chain(out, family, chain.table, chain.chain);
    }
    for chain in chains {
        if let Some(hook) = Hook::of(chain.table, chain.chain) {
            base_chain(out, family, chain.table, chain.chain, hook);
        }
        for wanted in &chain.rules {
            rule(out, family, wanted, Position::End)?;
        }
    }
    Ok(())
}

/// Begins a transaction.
pub(crate) fn begin(ruleset: &Ruleset, generation: Option<u32>) -> Result<Writer, EncodeError> {
    if ruleset.dialect != Dialect::Iptables {
        return Err(EncodeError::Dialect);
    }
    let mut out = Writer::with_capacity(CAPACITY);
    out.message(message::BATCH_BEGIN, 0);
    let [high, low] = nft::BATCH_SUBSYSTEM;
    out.raw([nft::family::UNSPECIFIED, 0, high, low]);
    if let Some(generation) = generation {
        out.be32(attribute::BATCH_GENERATION, generation);
    }
    Ok(out)
}

/// Ends a transaction. Its last message is acknowledged if all before it were accepted.
pub(crate) fn end(mut out: Writer) -> Vec<u8> {
    out.acknowledge();
    out.message(message::BATCH_END, 0);
    let [high, low] = nft::BATCH_SUBSYSTEM;
    out.raw([nft::family::UNSPECIFIED, 0, high, low]);
    out.into_bytes()
}

/// Begins a message of nf_tables: `nfgenmsg` with version and resource id 0.
pub(crate) fn begin_message(out: &mut Writer, kind: u16, flags: u16, family: u8) {
    out.message(kind, flags);
    out.raw([family, 0, 0, 0]);
}

/// The kernel's number of a family.
pub(crate) fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => nft::family::IPV4,
        Family::V6 => nft::family::IPV6,
    }
}

/// Creates a table, or leaves it as it is.
pub(crate) fn table(out: &mut Writer, family: Family, table: Table) {
    begin_message(out, message::NEW_TABLE, CREATE, family_number(family));
    out.name(attribute::TABLE_NAME, table.name().as_bytes());
}

/// Creates a chain of ours; the transaction fails if it is there.
pub(crate) fn own_chain(out: &mut Writer, family: Family, table: Table, chain: Chain) {
    begin_message(out, message::NEW_CHAIN, CREATE | EXCL, family_number(family));
    out.name(attribute::CHAIN_TABLE, table.name().as_bytes());
    out.name(attribute::CHAIN_NAME, chain.name().as_bytes());
}

/// Creates a built-in chain. No policy is named: the kernel's default is accept, and naming it would reset that of a chain that
/// another writer made in between.
pub(crate) fn base_chain(out: &mut Writer, family: Family, table: Table, chain: Chain, hook: Hook) {
    begin_message(out, message::NEW_CHAIN, CREATE, family_number(family));
    out.name(attribute::CHAIN_TABLE, table.name().as_bytes());
    out.name(attribute::CHAIN_NAME, chain.name().as_bytes());
    let open = out.nest(attribute::CHAIN_HOOK);
    out.be32(attribute::HOOK_NUMBER, hook.number);
    out.attribute(attribute::HOOK_PRIORITY, hook.priority.to_be_bytes());
    out.close(open);
    out.name(attribute::CHAIN_TYPE, hook.kind.as_bytes());
}

/// Where the kernel calls a built-in chain from, as iptables registers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hook {
    /// `NF_INET_*`
    pub(crate) number: u32,
    /// Lower runs earlier.
    pub(crate) priority: i32,
    /// The chain's type.
    pub(crate) kind: &'static str,
}

impl Hook {
    /// The hook of a built-in chain; none for chains of ours.
    pub(crate) fn of(table: Table, chain: Chain) -> Option<Self> {
        let number = match chain {
            Chain::Prerouting => 0,
            Chain::Output => 3,
            _ => return None,
        };
        let (priority, kind) = match table {
            Table::Filter => (0, "filter"),
            // A mark that is set on a packet's way out must be able to change its route.
            Table::Mangle if chain == Chain::Output => (-150, "route"),
            Table::Mangle => (-150, "filter"),
            Table::Nat => (-100, "nat"),
            Table::Raw => (-300, "filter"),
        };
        Some(Self { number, priority, kind })
    }
}

/// The message that reads something back.
pub(crate) fn query(kind: u16, flags: u16) -> Writer {
    let mut out = Writer::with_capacity(64);
    begin_message(&mut out, kind, flags, nft::family::UNSPECIFIED);
    out
}

/// Asks whether the kernel has an xtables extension at a revision.
pub(crate) fn query_extension(family: u8, name: &[u8], revision: u32, is_target: u32) -> Vec<u8> {
    let mut out = Writer::with_capacity(64);
    begin_message(&mut out, message::COMPAT_GET, ACK, family);
    out.name(attribute::COMPAT_NAME, name);
    out.be32(attribute::COMPAT_REVISION, revision);
    out.be32(attribute::COMPAT_TYPE, is_target);
    out.into_bytes()
}

/// A rule as the command that adds it, for messages to people.
fn command(family: Family, wanted: &Rule) -> String {
    let tool = match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    };
    format!("{tool} -t {} {}", wanted.table.name(), redirect::text::command(wanted))
}
