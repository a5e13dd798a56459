// SPDX-License-Identifier: Apache-2.0
//! nf_tables' snapshot as [`redirect::found`], and compared as such; pure.

use redirect::found::compare::{Difference, Form, to_rewrite};
use redirect::found::{ChainKind, Entry, FoundChain, FoundFamily, FoundHook, FoundRules, FoundTable, Policy};
use redirect::ruleset::{Dialect, Family, Ruleset};

use crate::decode::decode;
use crate::describe::describe;
use crate::snapshot::{ChainState, NfFamily, Snapshot, TableState};

/// Everything that nf_tables holds.
#[must_use]
pub fn found_rules(snapshot: &Snapshot) -> FoundRules {
    let mut found = without_text(snapshot);
    for (table, state) in found.tables.iter_mut().zip(&snapshot.tables) {
        for (chain, held) in table.chains.iter_mut().zip(&state.chains) {
            for (rule, held) in chain.rules.iter_mut().zip(&held.rules) {
                rule.text = describe(state.family, &held.expressions);
            }
        }
    }
    found
}

/// The same for those who print no rule.
pub(crate) fn without_text(snapshot: &Snapshot) -> FoundRules {
    FoundRules { tables: snapshot.tables.iter().map(table).collect() }
}

/// Changes from writing `wanted` into a snapshot's namespace ([`to_rewrite`]), but for where the kernel calls chains from.
#[must_use]
pub fn compare(snapshot: &Snapshot, wanted: &Ruleset) -> Vec<Difference> {
    match differences(&without_text(snapshot), wanted) {
        same if same.is_empty() => same,
        _ => differences(&found_rules(snapshot), wanted),
    }
}

pub(crate) fn differences(found: &FoundRules, wanted: &Ruleset) -> Vec<Difference> {
    to_rewrite(found, wanted, form(wanted.dialect))
}

/// Form of a dialect in nf_tables.
fn form(dialect: Dialect) -> Form {
    match dialect {
        Dialect::Iptables => Form::Iptables,
        Dialect::Nft => Form::Native,
    }
}

pub(crate) fn family(family: NfFamily) -> FoundFamily {
    match family {
        NfFamily::Ip => FoundFamily::One(Family::V4),
        NfFamily::Ip6 => FoundFamily::One(Family::V6),
        NfFamily::Inet => FoundFamily::Inet,
    }
}

fn table(state: &TableState) -> FoundTable {
    // The kernel does not call the chains of a dormant table.
    let is_called = state.flags & crate::nft::TABLE_DORMANT == 0;
    FoundTable {
        family: family(state.family),
        name: state.name.to_string(),
        chains: state.chains.iter().map(|found| chain(state.family, found, is_called)).collect(),
    }
}

/// The hooks by their number (`NF_INET_*`).
const HOOKS: [FoundHook; 5] =
    [FoundHook::Prerouting, FoundHook::Input, FoundHook::Forward, FoundHook::Output, FoundHook::Postrouting];

fn chain(family: NfFamily, state: &ChainState, is_called: bool) -> FoundChain {
    let entry = state.base.as_ref().filter(|_| is_called).and_then(|base| {
        Some(Entry {
            hook: *HOOKS.get(usize::try_from(base.hook).ok()?)?,
            priority: base.priority,
            kind: if base.kind == "nat" { ChainKind::First } else { ChainKind::Every },
            policy: if base.policy == 0 { Policy::Drop } else { Policy::Accept },
        })
    });
    FoundChain {
        name: state.name.to_string(),
        entry,
        rules: state.rules.iter().map(|found| decode(family, found)).collect(),
        handle: Some(state.handle),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redirect::Config;
    use redirect::found::compare::differences;
    use redirect::generate::ruleset;
    use redirect::list::Selection;
    use redirect::packet::{Connection, Hook, Layer4, Packet};
    use redirect::ruleset::Cidr;
    use redirect::verdict::{found_verdict, verdict};

    use super::*;
    use crate::encode::batch;
    use crate::fake::{commit, ordinary, rulesets, untouched};
    use crate::snapshot::Snapshot;

    fn applied(wanted: &Ruleset) -> Snapshot {
        let mut snapshot = untouched();
        commit(&mut snapshot, &batch(wanted, None).unwrap());
        snapshot
    }

    fn held(wanted: &Ruleset) -> FoundRules {
        found_rules(&applied(wanted))
    }

    proptest! {
        #[test]
        fn what_the_kernel_holds_of_a_ruleset_is_that_ruleset(wanted in rulesets()) {
            prop_assert_eq!(differences(&held(&wanted), &wanted, form(wanted.dialect)), []);
        }
    }

    /// Packets to any address of each family, of the app and of others, of each protocol.
    fn packets() -> Vec<Packet> {
        let ends =
            [("10.0.0.2", "10.1.2.3"), ("fd00::2", "fd00:1::3"), ("127.0.0.1", "127.0.0.1"), ("::1", "::1")];
        let mut packets = Vec::new();
        for (source, destination) in ends {
            for hook in [Hook::Prerouting, Hook::Output] {
                for (uid, interface) in
                    [(Some(1000), "eth0"), (Some(1337), "eth0"), (Some(1000), "lo"), (None, "eth1")]
                {
                    let ports = (40_000, 8080);
                    for layer4 in [
                        Layer4::Tcp { source: ports.0, destination: ports.1 },
                        Layer4::Udp { source: ports.0, destination: 53 },
                        Layer4::Other(1),
                    ] {
                        packets.push(Packet {
                            hook,
                            source: source.parse().unwrap(),
                            destination: destination.parse().unwrap(),
                            layer4,
                            interface: interface.into(),
                            uid,
                            gid: uid,
                            connection: Connection::New,
                            mark: 0,
                            connmark: 0,
                        });
                    }
                }
            }
        }
        packets
    }

    /// Ranges that are everything, nothing, or everything of a family.
    fn ranges() -> Vec<Selection<Cidr>> {
        let [v4, v6] = ["0.0.0.0", "::"].map(|any| Cidr { address: any.parse().unwrap(), length: 0 });
        let lists = [vec![], vec![v4], vec![v6], vec![v4, v6]].map(Selection::List);
        [Selection::All].into_iter().chain(lists).collect()
    }

    fn list(ranges: &Selection<Cidr>) -> Vec<Cidr> {
        match ranges {
            Selection::All => Vec::new(),
            Selection::List(list) => list.clone(),
        }
    }

    #[test]
    fn what_compares_equal_in_the_kernel_decides_equally() {
        let (ranges, packets) = (ranges(), packets());
        for dialect in [Dialect::Iptables, Dialect::Nft] {
            for ipv6 in [false, true] {
                let mut all = Vec::new();
                for include in &ranges {
                    for exclude in &ranges[1..] {
                        let config = Config {
                            dialect,
                            ipv6,
                            outbound_ranges_include: include.clone(),
                            outbound_ranges_exclude: list(exclude),
                            ..ordinary()
                        };
                        all.push(ruleset(&config).unwrap());
                    }
                }
                for held in &all {
                    let snapshot = applied(held);
                    let found = found_rules(&snapshot);
                    for wanted in all.iter().filter(|wanted| compare(&snapshot, wanted).is_empty()) {
                        for packet in &packets {
                            let outcome = verdict(wanted, packet).outcome;
                            assert_eq!(
                                verdict(held, packet).outcome,
                                outcome,
                                "{packet:?}\n{wanted:?}\n{held:?}"
                            );
                            assert_eq!(
                                found_verdict(&found, packet).outcome,
                                Ok(outcome),
                                "{packet:?}\n{held:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn another_ruleset_is_another() {
        let wanted = ruleset(&ordinary()).unwrap();
        let other = ruleset(&Config { proxy_port: 1, ..ordinary() }).unwrap();
        assert_eq!(differences(&held(&other), &wanted, Form::Iptables).len(), 4, "a port in two families");
    }

    #[test]
    fn a_dormant_table_is_not_called() {
        let wanted = ruleset(&ordinary()).unwrap();
        let mut snapshot = applied(&wanted);
        snapshot.tables[0].flags = crate::nft::TABLE_DORMANT;
        let found = found_rules(&snapshot);
        let said = differences(&found, &wanted, Form::Iptables);
        assert!(
            said.iter().any(|said| said.to_string().ends_with("the kernel does not call it")),
            "{said:?}"
        );
    }
}
