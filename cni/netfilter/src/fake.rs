// SPDX-License-Identifier: Apache-2.0
//! A kernel that commits transactions to a snapshot, for tests of what is planned without one. The real kernel has the last word
//! in `tests/kernel`.

use std::collections::VecDeque;

use proptest::prelude::*;
use redirect::config::{Config, Dns, Mode};
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{Dialect, Port, Ruleset};

use crate::expression::{keys, spell_out};
use crate::nft::{self, attribute, message};
use crate::snapshot::{ChainState, NfFamily, RuleState, Snapshot, TableState};
use crate::wire::{Malformed, Message, attributes, be32, be64, messages, text};
use crate::{read, wire};

/// Commits a batch, or panics where the kernel would refuse it.
pub(crate) fn commit(snapshot: &mut Snapshot, batch: &[u8]) {
    let all: Vec<_> = messages(batch).collect::<Result<_, _>>().unwrap();
    let [begin, steps @ .., end] = all.as_slice() else { panic!("no batch") };
    assert_eq!((begin.kind, end.kind), (message::BATCH_BEGIN, message::BATCH_END));
    let generation = attributes(&begin.body[4..]).next().map(|found| be32(found.unwrap().1).unwrap());
    assert!(generation.is_none_or(|generation| generation == snapshot.generation), "ERESTART");
    let mut sets = VecDeque::new();
    for (index, step) in steps.iter().enumerate() {
        let is_last = index + 1 == steps.len();
        assert_eq!(step.flags & wire::ACK != 0, is_last, "the last step is acknowledged, and only that");
        assert_eq!(step.sequence, begin.sequence + 1 + u32::try_from(index).unwrap());
        self::step(snapshot, &mut sets, step);
    }
    assert_eq!(sets.len(), 0, "no rule asks for it");
    for table in &snapshot.tables {
        for jump in table.chains.iter().flat_map(|chain| &chain.rules) {
            if let Some(target) = crate::expression::jumps_to(&jump.expressions) {
                assert!(
                    table.chains.iter().any(|chain| chain.name.as_bytes() == target),
                    "EBUSY: dangling jump"
                );
            }
        }
    }
    snapshot.generation += 1;
}

/// Elements of sets that wait for their rule.
type Sets = VecDeque<Vec<Vec<u8>>>;

fn step(snapshot: &mut Snapshot, sets: &mut Sets, step: &Message<'_>) {
    let family = NfFamily::of(step.body[0]).unwrap();
    let body = &step.body[nft::GENERIC_HEADER..];
    let find = |kind: u16| {
        attributes(body).map(Result::unwrap).find(|(found, _)| *found == kind).map(|(_, payload)| payload)
    };
    let name = text(find(attribute::TABLE_NAME).unwrap());
    let tables = &mut snapshot.tables;
    let table = tables.iter().position(|table| table.family == family && table.name.as_bytes() == name);
    match step.kind {
        message::NEW_TABLE if table.is_none() => read::table(tables, family, body).unwrap(),
        message::NEW_TABLE => {}
        message::DEL_TABLE => drop(tables.remove(table.expect("ENOENT"))),
        message::NEW_CHAIN => {
            new_chain(tables, family, (step, body), text(find(attribute::CHAIN_NAME).unwrap()))
        }
        message::DEL_CHAIN => {
            let chain = text(find(attribute::CHAIN_NAME).unwrap());
            let chains = &mut tables[table.expect("ENOENT")].chains;
            let at = chains.iter().position(|state| state.name.as_bytes() == chain).expect("ENOENT");
            assert!(chains.remove(at).rules.is_empty(), "EBUSY");
        }
        message::NEW_RULE => {
            let before = find(attribute::RULE_POSITION).map(|handle| be64(handle).unwrap());
            new_rule(tables, family, body, before);
            for rule in
                tables.iter_mut().flat_map(|table| &mut table.chains).flat_map(|chain| &mut chain.rules)
            {
                let find = |_: &[u8]| Ok::<_, Malformed>(sets.pop_front());
                if let Some(spelled) = spell_out(&rule.expressions, find).unwrap() {
                    rule.expressions = spelled;
                }
            }
        }
        message::NEW_SET => {}
        message::NEW_SET_ELEMENT => {
            sets.push_back(keys(find(attribute::ELEMENTS).unwrap()).unwrap().unwrap());
        }
        message::DEL_RULE => {
            let chain = text(find(attribute::RULE_CHAIN).unwrap());
            let rules = rules(&mut tables[table.expect("ENOENT")], chain);
            match find(attribute::RULE_HANDLE).map(|handle| be64(handle).unwrap()) {
                Some(handle) => {
                    let at = rules.iter().position(|rule| rule.handle == handle).expect("ENOENT");
                    rules.remove(at);
                }
                None => rules.clear(),
            }
        }
        kind => panic!("message {kind}"),
    }
}

fn new_chain(tables: &mut [TableState], family: NfFamily, (step, body): (&Message<'_>, &[u8]), name: &[u8]) {
    let exists = tables
        .iter()
        .filter(|table| table.family == family)
        .filter(|table| Some(table.name.as_bytes()) == table_name(body))
        .any(|table| table.chains.iter().any(|chain| chain.name.as_bytes() == name));
    assert!(!(exists && step.flags & wire::EXCL != 0), "EEXIST");
    if !exists {
        let handle = next_handle(tables);
        read::chain(tables, family, body, &mut read::Place::default()).unwrap().expect("ENOENT");
        let chains = tables.iter_mut().flat_map(|table| &mut table.chains);
        chains.filter(|chain| chain.handle == 0).for_each(|chain| chain.handle = handle);
    }
}

/// One counter for chains and rules, as in the kernel. Tests give the rules of others numbers from FOREIGN on.
fn next_handle(tables: &[TableState]) -> u64 {
    let chains = tables.iter().flat_map(|table| &table.chains);
    let handles =
        chains.flat_map(|chain| [chain.handle].into_iter().chain(chain.rules.iter().map(|rule| rule.handle)));
    1 + handles.filter(|handle| *handle < FOREIGN).max().unwrap_or(0)
}

fn table_name(body: &[u8]) -> Option<&[u8]> {
    attributes(body)
        .map(Result::unwrap)
        .find(|(kind, _)| *kind == attribute::TABLE_NAME)
        .map(|(_, name)| text(name))
}

fn rules<'a>(table: &'a mut TableState, chain: &[u8]) -> &'a mut Vec<RuleState> {
    let found = table.chains.iter_mut().find(|state| state.name.as_bytes() == chain);
    &mut found.expect("ENOENT").rules
}

fn new_rule(tables: &mut [TableState], family: NfFamily, body: &[u8], before: Option<u64>) {
    let handle = next_handle(tables);
    read::rule(tables, family, body, &mut read::Place::default()).unwrap().expect("ENOENT");
    let added = |chain: &ChainState| chain.rules.iter().position(|rule| rule.handle == 0);
    let chain =
        tables.iter_mut().flat_map(|table| &mut table.chains).find(|chain| added(chain).is_some()).unwrap();
    let mut rule = chain.rules.pop().unwrap();
    rule.handle = handle;
    let at = match before {
        Some(before) => chain.rules.iter().position(|rule| rule.handle == before).expect("ENOENT"),
        None => chain.rules.len(),
    };
    chain.rules.insert(at, rule);
}

/// From here on rules belong to others.
pub(crate) const FOREIGN: u64 = 100_000;

/// A namespace that nobody touched.
pub(crate) fn untouched() -> Snapshot {
    Snapshot { generation: nft::UNTOUCHED, tables: Vec::new() }
}

/// Config of an ordinary pod.
pub(crate) fn ordinary() -> Config {
    Config {
        ipv6: true,
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: vec![Port::One(15020), Port::One(15021)],
        outbound_ranges_include: Selection::All,
        ..Config::default()
    }
}

/// Rule sets that differ in dialect, tables, chains, inserts and families.
pub(crate) fn rulesets() -> impl Strategy<Value = Ruleset> {
    prop_oneof![rulesets_of(Dialect::Iptables), rulesets_of(Dialect::Nft)]
}

/// The same of one dialect.
pub(crate) fn rulesets_of(dialect: Dialect) -> impl Strategy<Value = Ruleset> {
    let interfaces = || proptest::collection::vec(prop_oneof!["eth[0-2]", "vm[0-2]"], 0..3);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flags, interfaces(), interfaces(), proptest::collection::vec(any::<u16>(), 0..4)).prop_map(
        move |((ipv6, tproxy, dns, drop_invalid), excluded, virtual_interfaces, ports)| {
            ruleset(&Config {
                dialect,
                ipv6,
                mode: if tproxy { Mode::Tproxy } else { Mode::Redirect },
                dns: if dns { Dns::All } else { Dns::Off },
                drop_invalid,
                exclude_interfaces: excluded.into_iter().map(Into::into).collect(),
                virtual_interfaces: virtual_interfaces.into_iter().map(Into::into).collect(),
                outbound_ports_exclude: ports.into_iter().map(Port::One).collect(),
                ..ordinary()
            })
            .unwrap()
        },
    )
}
