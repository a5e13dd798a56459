// SPDX-License-Identifier: Apache-2.0
//! What holds for any packet under the rules of any configuration.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use redirect::Config;
use redirect::generate::ruleset;
use redirect::packet::{Connection, Hook, Outcome, Packet};
use redirect::ruleset::{Chain, Dialect, Id, Origin, Place, Rule, Ruleset, Scope, Table, Target};
use redirect::text;
use redirect::verdict::verdict;

use crate::configs::config;
use crate::packets::packet;

/// A packet that a proxy of `config` sends.
fn of_proxy(config: &Config, mut packet: Packet, by_group: bool) -> Option<Packet> {
    packet.hook = Hook::Output;
    let number = |ids: &[Id]| match ids.first() {
        Some(Id::Number(id)) => Some(*id),
        _ => None,
    };
    if by_group {
        packet.gid = Some(number(&config.proxy_gids)?);
        packet.uid.get_or_insert(1000);
    } else {
        packet.uid = Some(number(&config.proxy_uids)?);
        packet.gid.get_or_insert(1000);
    }
    Some(packet)
}

/// Any rules at all, loops included: what the kernel would refuse must still be judged in finite time.
fn any_ruleset() -> impl Strategy<Value = Ruleset> {
    use Chain::*;
    let chains = vec![Prerouting, Output, IstioInbound, IstioOutput, IstioRedirect, IstioDivert];
    let target = prop_oneof![
        4 => select(chains.clone()).prop_map(Target::Jump),
        1 => select(vec![Target::Accept, Target::Return, Target::Drop, Target::SetMark(7), Target::CtZone(3)]),
    ];
    let place = prop_oneof![Just(Place::Append), (0..9u16).prop_map(Place::Insert)];
    let table = select(vec![Table::Raw, Table::Mangle, Table::Nat]);
    let rule = (table, select(chains), place, target).prop_map(|(table, chain, place, target)| Rule {
        table,
        chain,
        scope: Scope::Both,
        place,
        matches: Vec::new(),
        target,
        origin: Origin::Always,
    });
    vec(rule, 0..30).prop_map(|rules| Ruleset { dialect: Dialect::Iptables, ipv6: true, rules })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Holds for upstream's rules without exception: what redirects ahead of the proxy's own RETURN asks for `-o lo`. (On
    /// `lo` the proxy's packets are redirected on purpose: that is how the app reaches its own service.)
    #[test]
    fn nothing_that_the_proxy_sends_out_is_redirected(config in config(), packet in packet(), by_group: bool) {
        let packet = of_proxy(&config, packet, by_group).filter(|packet| packet.interface != "lo");
        if let Some(packet) = packet {
            let verdict = verdict(&ruleset(&config).unwrap(), &packet);
            prop_assert_eq!(verdict.outcome, Outcome::Untouched, "{:?}", verdict.steps);
        }
    }

    #[test]
    fn steps_are_rules_of_the_packet_s_family_in_the_order_of_tables(config in config(), packet in packet()) {
        let ruleset = ruleset(&config).unwrap();
        let chains = ruleset.chains(packet.family());
        let steps = verdict(&ruleset, &packet).steps;
        for step in &steps {
            let chain = chains.iter().find(|at| at.table == step.table && at.chain.name() == step.chain);
            let rule = chain.and_then(|at| at.rules.get(step.position - 1));
            prop_assert_eq!(rule.map(|rule| text::rule(ruleset.dialect, rule)), Some(step.rule.clone()));
        }
        let order = |table| [Table::Raw, Table::Mangle, Table::Nat].iter().position(|&other| other == table);
        prop_assert!(steps.is_sorted_by_key(|step| order(step.table)));
        let nat = steps.iter().any(|step| step.table == Table::Nat);
        prop_assert!(!nat || packet.connection == Connection::New);
    }

    #[test]
    fn a_family_without_rules_is_untouched(mut config in config(), packet in packet()) {
        config.ipv6 = false;
        if packet.destination.is_ipv6() {
            let verdict = verdict(&ruleset(&config).unwrap(), &packet);
            prop_assert_eq!((verdict.outcome, verdict.steps.len()), (Outcome::Untouched, 0));
        }
    }

    #[test]
    fn only_invalid_packets_are_dropped_and_only_on_request(config in config(), packet in packet()) {
        let dropped = verdict(&ruleset(&config).unwrap(), &packet).outcome == Outcome::Dropped;
        prop_assert!(!dropped || (config.drop_invalid && packet.connection == Connection::Invalid));
    }

    #[test]
    fn any_ruleset_is_judged(ruleset in any_ruleset(), packet in packet()) {
        let verdict = verdict(&ruleset, &packet);
        prop_assert!(verdict.steps.iter().all(|step| step.position > 0));
    }
}
