// SPDX-License-Identifier: Apache-2.0
//! Rules to nf_tables messages, as `iptables-nft` 1.8.9 would have written them, or, for rules of the native dialect, `nft` 1.0.6;
//! pure. What is sent when, and what else is in the namespace, is up to [`crate::plan`] and [`crate::apply()`].
//!
//! | part | what it does |
//! |---|---|
//! | `encode` | tables, chains, batches |
//! | `encode/rule` | a rule's message |
//! | `encode/compat` | the expressions of a rule of iptables |
//! | `encode/native` | the expressions of a rule of the native back end |
//! | `encode/prefix` | address prefixes as bytes of a packet |
//! | `encode/set` | the sets that native rules ask for |
//! | `encode/list` | expressions as bytes |
//! | `encode/extension` | the C structures of xtables extensions |
//! | `encode/error` | what cannot be encoded |

mod compat;
mod error;
mod extension;
mod list;
mod native;
mod prefix;
mod rule;
mod set;

use redirect::ruleset::{BaseChain, Chain, ChainRules, Dialect, Rule, Ruleset, Table};

use crate::home::Home;
use crate::nft::{self, attribute, message};
use crate::snapshot::NfFamily;
use crate::wire::{ACK, CREATE, DUMP, EXCL, Writer};
use list::List;

pub use error::{EncodeError, Unencodable};
pub use rule::expressions;
pub(crate) use rule::{Position, rule};

/// Room for the rules of an ordinary pod in both families, so that the buffer is allocated once.
const CAPACITY: usize = 16 * 1024;

/// The whole transaction for a namespace that holds none of our rules. With `generation` it commits only if the namespace's
/// rules are at that generation; 1 is a namespace whose nf_tables nobody ever touched.
///
/// # Errors
/// If a rule cannot be encoded.
pub fn batch(ruleset: &Ruleset, generation: Option<u32>) -> Result<Vec<u8>, EncodeError> {
    let mut out = begin(generation);
    match ruleset.dialect {
        Dialect::Iptables => {
            for family in ruleset.families() {
                for chains in ruleset.chains(family).chunk_by(|one, next| one.table == next.table) {
                    iptables_table(&mut out, family.into(), chains)?;
                }
            }
        }
        Dialect::Nft => native_tables(&mut out, ruleset)?,
    }
    Ok(end(out))
}

/// A table that is not there yet: our chains, then each built-in chain that has rules, in the order in which iptables makes them.
fn iptables_table(out: &mut Writer, family: NfFamily, chains: &[ChainRules<'_>]) -> Result<(), EncodeError> {
    let Some(first) = chains.first() else { return Ok(()) };
    let home = Home { family, table: first.table };
    table(out, home);
    for chain in chains.iter().filter(|chain| !chain.chain.is_builtin()) {
        own_chain(out, home, chain.chain);
    }
    for chain in chains {
        if let Some(hook) = Hook::of(home.table, chain.chain) {
            base_chain(out, home, chain.chain, hook);
        }
        for wanted in &chain.rules {
            rule(out, family, wanted, Position::End)?;
        }
    }
    Ok(())
}

/// The tables of the native back end, none of which is there yet: of each its chains, then their rules.
pub(crate) fn native_tables(out: &mut Writer, ruleset: &Ruleset) -> Result<(), EncodeError> {
    for chains in ruleset.inet_chains().chunk_by(|one, next| one.table == next.table) {
        let Some(first) = chains.first() else { continue };
        let home = Home { family: NfFamily::Inet, table: first.table };
        table(out, home);
        for ChainRules { chain, .. } in chains {
            match Hook::of(home.table, *chain) {
                Some(hook) => base_chain(out, home, *chain, hook),
                None => own_chain(out, home, *chain),
            }
        }
        for wanted in chains.iter().flat_map(|chain| &chain.rules) {
            rule(out, home.family, wanted, Position::End)?;
        }
    }
    Ok(())
}

/// Begins a transaction.
pub(crate) fn begin(generation: Option<u32>) -> Writer {
    let mut out = Writer::with_capacity(CAPACITY);
    out.message(message::BATCH_BEGIN, 0);
    let [high, low] = nft::BATCH_SUBSYSTEM;
    out.raw([nft::family::UNSPECIFIED, 0, high, low]);
    if let Some(generation) = generation {
        out.be32(attribute::BATCH_GENERATION, generation);
    }
    out
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

/// Creates a table, or leaves it as it is.
pub(crate) fn table(out: &mut Writer, home: Home) {
    begin_message(out, message::NEW_TABLE, CREATE, home.family.number());
    out.name(attribute::TABLE_NAME, home.table_name().as_bytes());
}

/// Creates a chain of ours; the transaction fails if it is there.
pub(crate) fn own_chain(out: &mut Writer, home: Home, chain: Chain) {
    begin_message(out, message::NEW_CHAIN, CREATE | EXCL, home.family.number());
    out.name(attribute::CHAIN_TABLE, home.table_name().as_bytes());
    out.name(attribute::CHAIN_NAME, home.chain_name(chain).as_bytes());
}

/// Creates a built-in chain. No policy is named: the kernel's default is accept, and naming it would reset that of a chain that
/// another writer made in between.
pub(crate) fn base_chain(out: &mut Writer, home: Home, chain: Chain, hook: Hook) {
    begin_message(out, message::NEW_CHAIN, CREATE, home.family.number());
    out.name(attribute::CHAIN_TABLE, home.table_name().as_bytes());
    out.name(attribute::CHAIN_NAME, home.chain_name(chain).as_bytes());
    let open = out.nest(attribute::CHAIN_HOOK);
    out.be32(attribute::HOOK_NUMBER, hook.number);
    out.attribute(attribute::HOOK_PRIORITY, hook.priority.to_be_bytes());
    out.close(open);
    out.name(attribute::CHAIN_TYPE, hook.kind.as_bytes());
}

/// Where the kernel calls a built-in chain from, as iptables registers it, and the native back end, too.
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
        let BaseChain { kind, priority } = BaseChain::of(table, chain)?;
        Some(Self { number, priority, kind: kind.name() })
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

/// Asks for the elements of a set.
pub(crate) fn query_elements(family: u8, table: &[u8], set: &[u8]) -> Vec<u8> {
    let mut out = Writer::with_capacity(64);
    begin_message(&mut out, message::GET_SET_ELEMENT, DUMP, family);
    out.name(attribute::ELEMENTS_TABLE, table);
    out.name(attribute::ELEMENTS_SET, set);
    out.into_bytes()
}

/// Asks for a rule of one expression, in a transaction without end: the kernel tries it and takes it back.
pub(crate) fn query_expression(family: NfFamily, element: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"istio-proxy-probe";
    let mut out = begin(None);
    begin_message(&mut out, message::NEW_TABLE, CREATE, family.number());
    out.name(attribute::TABLE_NAME, NAME);
    begin_message(&mut out, message::NEW_CHAIN, CREATE, family.number());
    out.name(attribute::CHAIN_TABLE, NAME);
    out.name(attribute::CHAIN_NAME, NAME);
    begin_message(&mut out, message::NEW_RULE, CREATE, family.number());
    out.name(attribute::RULE_TABLE, NAME);
    out.name(attribute::RULE_CHAIN, NAME);
    let list = out.nest(attribute::RULE_EXPRESSIONS);
    out.bytes(attribute::LIST_ELEMENT, element);
    out.close(list);
    out.into_bytes()
}

/// A rule as the command that adds it, for messages to people.
fn command(family: NfFamily, wanted: &Rule) -> String {
    let command = |dialect| redirect::text::command(dialect, wanted);
    match family {
        NfFamily::Inet => format!("nft {}", command(Dialect::Nft)),
        NfFamily::Ip => format!("iptables -t {} {}", wanted.table.name(), command(Dialect::Iptables)),
        NfFamily::Ip6 => format!("ip6tables -t {} {}", wanted.table.name(), command(Dialect::Iptables)),
    }
}

#[cfg(test)]
mod tests {
    use redirect::generate::ruleset;
    use redirect::ruleset::{Cidr, Id, Match, Owner, Port, Protocol, Sense};

    use super::*;
    use crate::fake::ordinary;
    use crate::wire::{attributes, be32, messages};

    #[test]
    fn a_batch_names_the_generation_it_was_written_for() {
        let rules = ruleset(&ordinary()).unwrap();
        let generation = |batch: &[u8]| {
            let begin = messages(batch).next().unwrap().unwrap();
            assert_eq!(begin.kind, message::BATCH_BEGIN);
            attributes(&begin.body[nft::GENERIC_HEADER..]).next().map(|found| be32(found.unwrap().1).unwrap())
        };
        assert_eq!(generation(&batch(&rules, Some(77)).unwrap()), Some(77));
        assert_eq!(generation(&batch(&rules, None).unwrap()), None);
    }

    #[test]
    fn a_batch_has_a_message_for_each_table_chain_and_rule() {
        let rules = ruleset(&ordinary()).unwrap();
        let batch = batch(&rules, None).unwrap();
        let count = |kind| messages(&batch).filter(|message| message.unwrap().kind == kind).count();
        assert_eq!(count(message::NEW_TABLE), 2);
        assert_eq!(count(message::NEW_CHAIN), 2 * 6);
        let wanted: usize = rules.families().map(|family| rules.rules_of(family, Table::Nat).count()).sum();
        assert_eq!(count(message::NEW_RULE), wanted);
        assert_eq!(messages(&batch).last().unwrap().unwrap().kind, message::BATCH_END);
    }

    /// Error for the first rule of an ordinary pod with this condition added to its protocol.
    fn refused(conditions: &[Match]) -> Unencodable {
        let mut rules = ruleset(&ordinary()).unwrap();
        rules.rules[0].matches = conditions.to_vec();
        match batch(&rules, None) {
            Err(EncodeError::Rule { rule, value }) => {
                assert!(rule.starts_with("iptables -t nat -A ISTIO_INBOUND "), "{rule}");
                value
            }
            other => panic!("{conditions:?}: {other:?}"),
        }
    }

    #[test]
    fn what_the_kernel_cannot_hold_is_refused_by_name() {
        let tcp = Match::Protocol(Protocol::Tcp);
        let port = |sense, port| [tcp.clone(), Match::DestinationPort(sense, port)];
        assert_eq!(
            refused(&port(Sense::Is, Port::Verbatim("http".into()))),
            Unencodable::Port("http".into())
        );
        assert_eq!(refused(&port(Sense::Is, Port::Range(9, 8))), Unencodable::PortRange { low: 9, high: 8 });
        assert_eq!(refused(&port(Sense::Not, Port::Range(0, u16::MAX))), Unencodable::NoPortLeft);
        assert_eq!(refused(&port(Sense::Not, Port::Verbatim(":".into()))), Unencodable::NoPortLeft);
        let portless = Match::SourcePort(Sense::Is, Port::One(1));
        assert_eq!(refused(&[portless]), Unencodable::PortWithoutProtocol);
        for ports in [0, 16] {
            let many = Match::DestinationPorts(Sense::Is, vec![1; ports]);
            assert_eq!(refused(&[tcp.clone(), many]), Unencodable::PortCount(ports));
        }
        let owner = |id| Match::Owner(Sense::Is, Owner::Gid(id));
        assert_eq!(refused(&[owner(Id::Name("staff".into()))]), Unencodable::Name("staff".into()));
        assert_eq!(refused(&[owner(Id::Number(u32::MAX))]), Unencodable::Id(u32::MAX));
        for name in ["", "1234567890123456", "a\0b"] {
            assert_eq!(refused(&[Match::InInterface(name.into())]), Unencodable::Interface(name.into()));
        }
        let many = vec![owner(Id::Number(1)); 200];
        assert_eq!(refused(&many), Unencodable::TooLong(202));
        assert_eq!(refused(&vec![owner(Id::Number(1)); 2000]), Unencodable::TooLong(2002));
    }

    #[test]
    fn half_a_range_is_a_range() {
        for (half, whole) in [("30000:", (30000, u16::MAX)), (":1023", (0, 1023)), ("9:", (9, u16::MAX))] {
            for (family, sense) in
                [(NfFamily::Ip, Sense::Is), (NfFamily::Inet, Sense::Is), (NfFamily::Inet, Sense::Not)]
            {
                let bytes = |port| {
                    let mut rule = ruleset(&ordinary()).unwrap().rules.remove(0);
                    rule.matches = vec![Match::Protocol(Protocol::Tcp), Match::DestinationPort(sense, port)];
                    expressions(family, &rule).unwrap()
                };
                assert_eq!(bytes(Port::Verbatim(half.into())), bytes(Port::Range(whole.0, whole.1)));
            }
        }
    }

    #[test]
    fn addresses_that_do_not_fit_are_refused_by_name() {
        let cidr = |address: &str, length| Cidr { address: address.parse().unwrap(), length };
        let v6 = cidr("2001:db8::", 32);
        assert_eq!(refused(&[Match::Source(Sense::Is, v6)]), Unencodable::Family(v6));
        let long = cidr("192.0.2.1", 33);
        assert_eq!(refused(&[Match::Source(Sense::Is, long)]), Unencodable::Prefix(long));
        let all = cidr("0.0.0.0", 0);
        assert_eq!(refused(&[Match::Destination(Sense::Not, all)]), Unencodable::NoAddressLeft(all));
    }
}
