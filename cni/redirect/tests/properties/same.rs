// SPDX-License-Identifier: Apache-2.0
//! Rules that the comparer takes for the wanted ones decide about every packet as those do.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use redirect::Config;
use redirect::found::compare::{Form, differences};
use redirect::found::ours::Ours;
use redirect::found::{FoundRules, native, save};
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::packet::{Connection, Layer4, Packet};
use redirect::ruleset::{Cidr, Dialect, Family, Match, Port, Ruleset};
use redirect::text;
use redirect::verdict::{found_verdict, verdict};

use crate::cases;
use crate::configs::{cidr, config, iptables_config, named_interface, port, selection};
use crate::former::former;
use crate::found::{is_writable, listing};
use crate::packets::packet;

fn any_of(family: Family) -> Cidr {
    let address = if family == Family::V4 { "0.0.0.0" } else { "::" };
    Cidr { address: address.parse().unwrap(), length: 0 }
}

/// All, nothing, everything of a family, or what any configuration has.
fn ranges() -> impl Strategy<Value = Selection<Cidr>> {
    let [v4, v6] = [Family::V4, Family::V6].map(any_of);
    let wide = vec![
        Selection::All,
        Selection::List(vec![]),
        Selection::List(vec![v4]),
        Selection::List(vec![v6]),
        Selection::List(vec![v4, v6]),
    ];
    prop_oneof![4 => select(wide), 1 => selection(cidr())]
}

/// Everything of a family or of none, or what any configuration has.
fn excluded() -> impl Strategy<Value = Vec<Cidr>> {
    let [v4, v6] = [Family::V4, Family::V6].map(any_of);
    prop_oneof![3 => select(vec![vec![], vec![v4], vec![v6]]), 1 => vec(cidr(), 0..3)]
}

fn ports() -> impl Strategy<Value = Vec<Port>> {
    prop_oneof![2 => Just(vec![]), 1 => Just(vec![Port::Range(0, u16::MAX)]), 1 => vec(port(), 0..3)]
}

/// A configuration, and itself with some values spelled in another way or changed.
fn pair() -> impl Strategy<Value = [Config; 2]> {
    let values = || {
        let every = select(vec!["+", "*"]).prop_map(std::borrow::Cow::Borrowed);
        let interfaces =
            || prop_oneof![4 => Just(vec![]), 1 => vec(named_interface(), 0..2), 1 => vec(every.clone(), 1)];
        (ranges(), excluded(), ports(), ports(), interfaces(), any::<bool>())
    };
    (config(), values(), values(), any::<[bool; 6]>()).prop_map(|(config, one, other, [a, b, c, d, e, f])| {
        let with = |(include, exclude, include_ports, exclude_ports, interfaces, ipv6)| Config {
            outbound_ranges_include: include,
            outbound_ranges_exclude: exclude,
            outbound_ports_include: include_ports,
            outbound_ports_exclude: exclude_ports,
            exclude_interfaces: interfaces,
            ipv6,
            ..config.clone()
        };
        let (first, mut second) = (with(one), with(other));
        let kept = &first;
        let keep = |is_kept, copy: &mut dyn FnMut()| {
            if is_kept {
                copy()
            }
        };
        keep(a, &mut || second.outbound_ranges_include.clone_from(&kept.outbound_ranges_include));
        keep(b, &mut || second.outbound_ranges_exclude.clone_from(&kept.outbound_ranges_exclude));
        keep(c, &mut || second.outbound_ports_include.clone_from(&kept.outbound_ports_include));
        keep(d, &mut || second.outbound_ports_exclude.clone_from(&kept.outbound_ports_exclude));
        keep(e, &mut || second.exclude_interfaces.clone_from(&kept.exclude_interfaces));
        keep(f, &mut || second.ipv6 = kept.ipv6);
        [first, second]
    })
}

/// A ruleset as a namespace lists it.
fn listed(rules: &Ruleset) -> FoundRules {
    if rules.dialect == Dialect::Nft {
        return native::parse(&listing(rules)).unwrap();
    }
    let tables = rules
        .families()
        .flat_map(|family| save::parse(&text::restore(rules, family), family).unwrap().tables)
        .collect();
    FoundRules { tables }
}

fn form(dialect: Dialect) -> Form {
    match dialect {
        Dialect::Iptables => Form::Iptables,
        Dialect::Nft => Form::Native,
    }
}

/// A header without ports: iptables lists a rule for all ports as one for none.
fn has_header(packet: &Packet) -> bool {
    !matches!(packet.layer4, Layer4::Other(6 | 17))
}

/// Whether the comparer takes the second rules for the first, and the first packet that shows that it must not.
fn compared(pair: &[Config; 2], packets: &[Packet]) -> Option<(bool, Option<Packet>)> {
    let [wanted, held] = pair.each_ref().map(|config| ruleset(config).unwrap());
    if ![&wanted, &held].into_iter().all(is_writable) {
        return None;
    }
    let found = listed(&held);
    // What differs by foreign rules alone need not be written anew, and does not decide equally.
    let is_same = differences(&found, &wanted, form(wanted.dialect)).is_empty();
    let differs = |packet: &&Packet| {
        let [wanted, held] = [&wanted, &held].map(|rules| verdict(rules, packet));
        let end = |verdict: &redirect::packet::Verdict| {
            (verdict.outcome, verdict.mark, verdict.connmark, verdict.zone)
        };
        end(&wanted) != end(&held) || found_verdict(&found, packet).outcome != Ok(wanted.outcome)
    };
    let judged = |packet: &&Packet| wanted.dialect == Dialect::Nft || has_header(packet);
    Some((is_same, packets.iter().filter(judged).find(differs).cloned()))
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn what_compares_equal_decides_equally(pair in pair(), packets in vec(packet(), 24)) {
        let Some((is_same, differs)) = compared(&pair, &packets) else { return Ok(()) };
        if is_same {
            prop_assert_eq!(differs, None, "{:?}", pair);
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// But for interfaces, of which a listing does not say who excluded them.
    #[test]
    fn rules_of_former_releases_are_ours_and_those_of_others_are_not(config in iptables_config(), foreign in 0..4usize) {
        let config = Config { exclude_interfaces: vec![], virtual_interfaces: vec![], ..config };
        let rules = former(&config);
        let has_proxy = !config.proxy_uids.is_empty() || !config.proxy_gids.is_empty();
        prop_assume!(has_proxy && is_writable_in_text(&rules));
        let mut found = listed(&rules);
        let foreign = save::rule([
            "-p udp --dport 53 -j REDIRECT --to-ports 5353",
            "-p udp --dport 53 -m owner --uid-owner 4294967294 -j RETURN",
            "-p udp --dport 53 -j CT --notrack",
            "-p tcp --dport 53 -j REDIRECT --to-ports 15053",
        ][foreign]).unwrap();
        for chain in found.tables.iter_mut().flat_map(|table| &mut table.chains) {
            if chain.is_built_in() {
                chain.rules.insert(0, foreign.clone());
            }
        }
        for table in &found.tables {
            let ours = Ours::of(table, &[]);
            for chain in table.chains.iter().filter(|chain| chain.is_built_in()) {
                for rule in &chain.rules {
                    prop_assert_eq!(ours.has(chain, rule, &[]), rule.text != foreign.text, "{}: {}", chain.name, rule.text);
                }
            }
        }
    }
}

/// As [`is_writable`], but that names of groups are read as they are written.
fn is_writable_in_text(rules: &Ruleset) -> bool {
    let ports = |condition: &Match| match condition {
        Match::SourcePort(_, port) | Match::DestinationPort(_, port) => Some(port.clone()),
        _ => None,
    };
    let mut ports = rules.rules.iter().flat_map(|rule| &rule.matches).filter_map(ports);
    ports.all(|port| !matches!(port, Port::Verbatim(_)))
}

/// A property that compares nothing holds of everything: other spellings of the same rules do occur, in each dialect.
#[test]
fn pairs_are_equal_in_other_words_and_unequal() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    for dialect in [Dialect::Iptables, Dialect::Nft] {
        let (mut equal, mut unequal) = (0, 0);
        for _ in 0..4000 {
            let pair = pair().new_tree(&mut runner).unwrap().current();
            let pair = pair.map(|config| Config { dialect, ..config });
            let packets: Vec<_> = (0..4).map(|_| packet().new_tree(&mut runner).unwrap().current()).collect();
            match compared(&pair, &packets) {
                Some((true, None)) => equal += usize::from(pair[0] != pair[1]),
                Some((false, Some(packet))) => unequal += usize::from(packet.connection == Connection::New),
                _ => {}
            }
            if equal >= 5 && unequal >= 50 {
                break;
            }
        }
        assert!(equal >= 5 && unequal >= 50, "{dialect:?}: {equal} equal, {unequal} unequal");
    }
}
