// SPDX-License-Identifier: Apache-2.0
//! Properties of any packet under the rules of any configuration.

use std::net::{IpAddr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use redirect::Config;
use redirect::generate::ruleset;
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet};
use redirect::ruleset::{Chain, Dialect, Id, Origin, Rule, RulePlace, Ruleset, Scope, Table, Target};
use redirect::text;
use redirect::verdict::verdict;

use crate::cases;
use crate::configs::{config, iptables_config};
use crate::packets::packet;

/// A packet that a proxy of `config` sends: its user or its group is one of the proxy's.
fn of_proxy(config: &Config, mut packet: Packet, which: Index) -> Option<Packet> {
    packet.hook = Hook::Output;
    let owners: Vec<(bool, &Id)> = config
        .proxy_uids
        .iter()
        .map(|id| (true, id))
        .chain(config.proxy_gids.iter().map(|id| (false, id)))
        .collect();
    let (is_user, Id::Number(id)) = *which.get(if owners.is_empty() { return None } else { &owners }) else {
        return None;
    };
    let (own, other) =
        if is_user { (&mut packet.uid, &mut packet.gid) } else { (&mut packet.gid, &mut packet.uid) };
    *own = Some(*id);
    other.get_or_insert(1000);
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
    let place = prop_oneof![Just(RulePlace::Append), (0..9u16).prop_map(RulePlace::Insert)];
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
    (select(vec![Dialect::Iptables, Dialect::Nft]), vec(rule, 0..30)).prop_map(|(dialect, rules)| Ruleset {
        dialect,
        ipv6: true,
        rules,
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Holds for upstream's rules of both dialects without exception: what redirects ahead of the proxy's own RETURN asks for
    /// `-o lo`. Excluded ports, DNS capture and included ports all come behind it or only return.
    #[test]
    fn nothing_that_the_proxy_sends_out_is_redirected(config in config(), packet in packet(), which: Index) {
        let packet = of_proxy(&config, packet, which).filter(|packet| packet.interface != "lo");
        if let Some(packet) = packet {
            let verdict = verdict(&ruleset(&config).unwrap(), &packet);
            prop_assert_eq!(verdict.outcome, Outcome::Untouched, "{:?}", verdict.steps);
        }
    }

    /// That is how the app reaches its own service. Only TCP to the pod's own addresses, never to the tunnel's port.
    #[test]
    fn what_the_proxy_sends_over_lo_goes_nowhere_but_to_its_inbound_side(config in config(), packet in packet(), which: Index) {
        let Some(packet) = of_proxy(&config, Packet { interface: "lo".into(), ..packet }, which) else { return Ok(()) };
        let verdict = verdict(&ruleset(&config).unwrap(), &packet);
        let inbound = Outcome::Redirected { port: config.inbound_capture_port };
        match (verdict.outcome, packet.layer4) {
            (Outcome::Untouched, _) => {}
            (outcome, Layer4::Tcp { destination, .. }) => {
                prop_assert_eq!(outcome, inbound, "{:?}", verdict.steps);
                prop_assert_ne!(destination, config.inbound_tunnel_port);
                prop_assert_ne!(packet.destination, IpAddr::V6(Ipv6Addr::LOCALHOST));
            }
            (outcome, other) => prop_assert!(false, "{other:?} ends as {outcome:?}"),
        }
    }

    #[test]
    fn steps_are_rules_that_the_packet_meets_in_the_order_of_tables(config in config(), packet in packet()) {
        let ruleset = ruleset(&config).unwrap();
        let (chains, name): (_, fn(Chain) -> &'static str) = match ruleset.dialect {
            Dialect::Iptables => (ruleset.chains(packet.family()), Chain::name),
            Dialect::Nft => (ruleset.inet_chains(), Chain::native_name),
        };
        let steps = verdict(&ruleset, &packet).steps;
        for step in &steps {
            let chain = chains.iter().find(|at| at.table == step.table && name(at.chain) == step.chain);
            let rule = chain.and_then(|at| at.rules.get(step.position - 1));
            prop_assert_eq!(rule.map(|rule| text::rule(ruleset.dialect, rule).into()), Some(step.rule.clone()));
        }
        let order = |table| [Table::Raw, Table::Mangle, Table::Nat].iter().position(|&other| other == table);
        prop_assert!(steps.is_sorted_by_key(|step| order(step.table)));
        let nat = steps.iter().any(|step| step.table == Table::Nat);
        prop_assert!(!nat || packet.connection == Connection::New);
    }

    #[test]
    fn a_family_without_rules_is_untouched(mut config in iptables_config(), packet in packet()) {
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
