// SPDX-License-Identifier: Apache-2.0
//! Packets whose fate is known, under the rules of a sidecar with default settings and of a few others.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own data has to stop")]

use std::net::IpAddr;

use redirect::Config;
use redirect::config::{Dns, Mode};
use redirect::generate::ruleset;
use redirect::list::{Selection, inbound_ports, ports, ranges};
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet, Verdict};
use redirect::ruleset::{
    Chain, Dialect, Id, Match, Origin, Owner, Port, Rule, RulePlace, Ruleset, Scope, Sense, Table, Target,
};
use redirect::verdict::verdict;

/// Configuration of a pod without annotations.
fn sidecar() -> Config {
    Config {
        inbound_ports_include: inbound_ports("*"),
        inbound_ports_exclude: ports("15020,15021,15090"),
        outbound_ranges_include: Selection::All,
        outbound_ports_exclude: ports("15020"),
        ipv6: true,
        ..Config::default()
    }
}

fn tcp(hook: Hook, interface: &'static str, to: (&str, u16)) -> Packet {
    let destination: IpAddr = to.0.parse().unwrap();
    let source = if destination.is_ipv4() { "10.9.0.2" } else { "fd00:9::2" };
    Packet {
        hook,
        source: source.parse().unwrap(),
        destination,
        layer4: Layer4::Tcp { source: 40000, destination: to.1 },
        interface: interface.into(),
        uid: (hook == Hook::Output).then_some(1000),
        gid: (hook == Hook::Output).then_some(1000),
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    }
}

fn out(interface: &'static str, to: &str, port: u16) -> Packet {
    tcp(Hook::Output, interface, (to, port))
}

fn input(interface: &'static str, to: &str, port: u16) -> Packet {
    tcp(Hook::Prerouting, interface, (to, port))
}

fn by_proxy(packet: Packet) -> Packet {
    Packet { uid: Some(1337), gid: Some(1337), ..packet }
}

fn udp(packet: Packet) -> Packet {
    match packet.layer4 {
        Layer4::Tcp { source, destination } => {
            Packet { layer4: Layer4::Udp { source, destination }, ..packet }
        }
        _ => packet,
    }
}

fn judged(config: &Config, packet: &Packet) -> Verdict {
    verdict(&ruleset(config).unwrap(), packet)
}

/// A rule that drops what a local process sends if `condition` holds.
fn drop_if(condition: Match) -> Rule {
    Rule {
        table: Table::Mangle,
        chain: Chain::Output,
        scope: Scope::Both,
        place: RulePlace::Append,
        matches: vec![condition],
        target: Target::Drop,
        origin: Origin::Always,
    }
}

const UNTOUCHED: Outcome = Outcome::Untouched;
const OUTBOUND: Outcome = Outcome::Redirected { port: 15001 };
const INBOUND: Outcome = Outcome::Redirected { port: 15006 };
const DNS: Outcome = Outcome::Redirected { port: 15053 };

#[test]
fn a_sidecar_with_default_settings() {
    for (packet, outcome) in [
        (out("eth0", "10.1.2.3", 443), OUTBOUND),
        (out("eth0", "fd00:1::3", 443), OUTBOUND),
        (out("eth0", "10.1.2.3", 15020), UNTOUCHED),
        (udp(out("eth0", "10.1.2.3", 443)), UNTOUCHED),
        (by_proxy(out("eth0", "10.1.2.3", 443)), UNTOUCHED),
        (Packet { uid: Some(1337), ..out("eth0", "10.1.2.3", 443) }, UNTOUCHED),
        (Packet { gid: Some(1337), ..out("eth0", "10.1.2.3", 443) }, UNTOUCHED),
        (out("lo", "127.0.0.1", 8080), UNTOUCHED),
        (out("lo", "10.9.0.2", 8080), UNTOUCHED),
        (by_proxy(out("lo", "10.9.0.2", 8080)), INBOUND),
        (by_proxy(out("lo", "10.9.0.2", 15008)), UNTOUCHED),
        (by_proxy(out("lo", "127.0.0.1", 8080)), UNTOUCHED),
        (by_proxy(Packet { source: "127.0.0.6".parse().unwrap(), ..out("lo", "10.9.0.2", 8080) }), UNTOUCHED),
        (input("eth0", "10.9.0.2", 8080), INBOUND),
        (input("eth0", "fd00:9::2", 8080), INBOUND),
        (input("eth0", "10.9.0.2", 15021), UNTOUCHED),
        (input("eth0", "10.9.0.2", 15008), UNTOUCHED),
        (udp(input("eth0", "10.9.0.2", 8080)), UNTOUCHED),
        (Packet { connection: Connection::Established, ..input("eth0", "10.9.0.2", 8080) }, UNTOUCHED),
        (Packet { layer4: Layer4::Other(1), ..out("eth0", "10.1.2.3", 0) }, UNTOUCHED),
    ] {
        let verdict = judged(&sidecar(), &packet);
        assert_eq!(verdict.outcome, outcome, "{packet:?}\n{:?}", verdict.steps);
    }
}

#[test]
fn the_rules_that_decided_are_named_with_their_places() {
    let steps = judged(&sidecar(), &out("eth0", "10.1.2.3", 443)).steps;
    let said: Vec<_> =
        steps.iter().map(|step| (step.table, step.chain, step.position, &*step.rule)).collect();
    assert_eq!(
        said,
        [
            (Table::Nat, "OUTPUT", 1, "-j ISTIO_OUTPUT"),
            (Table::Nat, "ISTIO_OUTPUT", 11, "-j ISTIO_REDIRECT"),
            (Table::Nat, "ISTIO_REDIRECT", 1, "-p tcp -j REDIRECT --to-ports 15001"),
        ]
    );
    assert_eq!(steps[1].origin, Origin::IncludeOutboundRanges);
}

#[test]
fn a_packet_that_comes_back_over_lo_has_met_nat_before() {
    assert_eq!(judged(&sidecar(), &input("lo", "10.9.0.2", 8080)).outcome, UNTOUCHED);
    let tproxy = Config { mode: Mode::Tproxy, ..sidecar() };
    let marked = Packet { mark: 1338, ..input("lo", "10.9.0.2", 8080) };
    assert_eq!(judged(&tproxy, &marked).outcome, Outcome::Intercepted { port: 15006 });
}

#[test]
fn a_packet_without_a_socket_has_no_owner_to_match_and_none_to_exempt() {
    let unowned = |packet| Packet { uid: None, gid: None, ..packet };
    let verdict_on_lo = judged(&sidecar(), &unowned(out("lo", "10.9.0.2", 8080)));
    assert_eq!(verdict_on_lo.outcome, UNTOUCHED);
    assert!(
        verdict_on_lo.steps.iter().any(|step| *step.rule == *"-o lo -m owner ! --uid-owner 1337 -j RETURN")
    );
    assert_eq!(judged(&sidecar(), &unowned(out("eth0", "10.1.2.3", 443))).outcome, OUTBOUND);
    let rule = drop_if(Match::Owner(Sense::Not, Owner::Uid(Id::Number(1337))));
    for (dialect, outcome) in [(Dialect::Iptables, Outcome::Dropped), (Dialect::Nft, UNTOUCHED)] {
        let ruleset = Ruleset { dialect, ipv6: false, rules: vec![rule.clone()] };
        assert_eq!(verdict(&ruleset, &unowned(out("eth0", "10.1.2.3", 443))).outcome, outcome);
    }
}

#[test]
fn dns_goes_to_the_agent_unless_the_proxy_asks_and_each_side_has_its_zone() {
    let config = Config { dns: Dns::All, ..sidecar() };
    for (packet, outcome, zone) in [
        (udp(out("eth0", "10.96.0.10", 53)), DNS, 2),
        (out("eth0", "10.96.0.10", 53), DNS, 0),
        (out("lo", "127.0.0.53", 53), DNS, 0),
        (by_proxy(udp(out("eth0", "10.96.0.10", 53))), UNTOUCHED, 1),
        (udp(out("eth0", "10.96.0.10", 54)), UNTOUCHED, 0),
    ] {
        let verdict = judged(&config, &packet);
        assert_eq!((verdict.outcome, verdict.zone), (outcome, zone), "{packet:?}");
    }
    let answer =
        Packet { layer4: Layer4::Udp { source: 53, destination: 40000 }, ..input("eth0", "10.9.0.2", 0) };
    assert_eq!(judged(&config, &answer).zone, 1);
    let servers =
        Config { dns: Dns::Servers { v4: vec!["10.96.0.10".parse().unwrap()], v6: vec![] }, ..sidecar() };
    assert_eq!(judged(&servers, &udp(out("eth0", "10.96.0.10", 53))).outcome, DNS);
    assert_eq!(judged(&servers, &udp(out("eth0", "8.8.8.8", 53))).outcome, UNTOUCHED);
}

#[test]
fn tproxy_hands_over_new_connections_and_keeps_known_ones_with_their_socket() {
    let config = Config { mode: Mode::Tproxy, ..sidecar() };
    let fresh = judged(&config, &input("eth0", "10.9.0.2", 8080));
    assert_eq!((fresh.outcome, fresh.mark), (Outcome::Intercepted { port: 15006 }, 1337));
    let known = Packet { connection: Connection::Established, ..input("eth0", "10.9.0.2", 8080) };
    let known = judged(&config, &known);
    assert_eq!((known.outcome, known.mark), (UNTOUCHED, 1337));
    assert_eq!(judged(&config, &input("eth0", "10.9.0.2", 15021)).outcome, UNTOUCHED);
    let reply =
        Packet { connection: Connection::Established, connmark: 1337, ..out("eth0", "10.1.2.3", 40000) };
    assert_eq!(judged(&config, &reply).mark, 1337);
    let to_self = judged(&config, &by_proxy(out("lo", "10.9.0.2", 8080)));
    assert_eq!((to_self.outcome, to_self.mark), (INBOUND, 1338));
    let seen = judged(&config, &Packet { mark: 1337, ..input("lo", "10.9.0.2", 8080) });
    assert_eq!((seen.outcome, seen.connmark), (UNTOUCHED, 1337));
}

#[test]
fn invalid_packets_are_dropped_on_request_and_never_meet_nat() {
    let invalid = Packet { connection: Connection::Invalid, ..input("eth0", "10.9.0.2", 8080) };
    assert_eq!(judged(&sidecar(), &invalid).steps, []);
    let config = Config { drop_invalid: true, ..sidecar() };
    assert_eq!(judged(&config, &invalid).outcome, Outcome::Dropped);
    assert_eq!(judged(&config, &input("eth0", "10.9.0.2", 8080)).outcome, INBOUND);
}

#[test]
fn a_guest_s_traffic_is_outbound_and_an_excluded_interface_is_silent() {
    let config = Config {
        virtual_interfaces: vec!["k6t-eth0".into()],
        exclude_interfaces: vec!["net1".into()],
        ..sidecar()
    };
    assert_eq!(judged(&config, &input("k6t-eth0", "10.1.2.3", 443)).outcome, OUTBOUND);
    let listed = Config { outbound_ranges_include: ranges("10.0.0.0/8").unwrap(), ..config.clone() };
    assert_eq!(judged(&listed, &input("k6t-eth0", "10.1.2.3", 443)).outcome, OUTBOUND);
    assert_eq!(judged(&listed, &input("k6t-eth0", "8.8.8.8", 443)).outcome, UNTOUCHED);
    assert_eq!(judged(&config, &input("net1", "10.9.0.2", 8080)).outcome, UNTOUCHED);
    assert_eq!(judged(&config, &out("net1", "10.1.2.3", 443)).outcome, UNTOUCHED);
}

#[test]
fn prefixes_of_any_length_hold_what_they_should() {
    for (range, inside, outside) in [
        ("10.1.2.3/32", "10.1.2.3", "10.1.2.2"),
        ("10.1.2.3/8", "10.200.0.1", "11.1.2.3"),
        ("10.128.0.0/9", "10.129.0.1", "10.127.0.1"),
        ("fd00:1::5/64", "fd00:1::9", "fd00:1:0:1::9"),
        ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"),
    ] {
        let config = Config { outbound_ranges_include: ranges(range).unwrap(), ..sidecar() };
        assert_eq!(judged(&config, &out("eth0", inside, 443)).outcome, OUTBOUND, "{inside} in {range}");
        assert_eq!(judged(&config, &out("eth0", outside, 443)).outcome, UNTOUCHED, "{outside} in {range}");
    }
    let all = Config { outbound_ranges_include: ranges("0.0.0.0/0").unwrap(), ..sidecar() };
    assert_eq!(judged(&all, &out("eth0", "203.0.113.9", 443)).outcome, OUTBOUND);
    assert_eq!(judged(&all, &out("eth0", "2001:db8::1", 443)).outcome, UNTOUCHED);
}

#[test]
fn a_port_that_no_kernel_can_hold_matches_nothing() {
    let config = Config { outbound_ports_exclude: ports("*,8000:8010"), ..sidecar() };
    assert_eq!(judged(&config, &out("eth0", "10.1.2.3", 443)).outcome, OUTBOUND);
    assert_eq!(judged(&config, &out("eth0", "10.1.2.3", 8010)).outcome, UNTOUCHED);
    assert_eq!(judged(&config, &out("eth0", "10.1.2.3", 8011)).outcome, OUTBOUND);
    let verbatim = Match::DestinationPort(Sense::Not, Port::Verbatim("*".to_owned()));
    let ruleset = Ruleset { dialect: Dialect::Iptables, ipv6: false, rules: vec![drop_if(verbatim)] };
    assert_eq!(verdict(&ruleset, &out("eth0", "10.1.2.3", 443)).outcome, UNTOUCHED, "not even inverted");
}

#[test]
fn owner_groups_narrow_what_is_captured() {
    use redirect::list::groups;
    let config = Config { owner_groups_include: groups("202,303"), ..sidecar() };
    let by = |gid| Packet { gid: Some(gid), ..out("eth0", "10.1.2.3", 443) };
    assert_eq!(judged(&config, &by(202)).outcome, OUTBOUND);
    assert_eq!(judged(&config, &by(404)).outcome, UNTOUCHED);
    let none = Config { owner_groups_include: groups(""), ..sidecar() };
    assert_eq!(judged(&none, &by(202)).outcome, UNTOUCHED);
}
