// SPDX-License-Identifier: Apache-2.0
//! Differences of the native dialect: names, packets with another verdict, and an upstream bug that is not copied.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own data has to stop")]

use redirect::Config;
use redirect::config::{Dns, Mode};
use redirect::generate::ruleset;
use redirect::list::{Selection, inbound_ports, ports};
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet, Verdict};
use redirect::ruleset::{Chain, Dialect, Table, Target};
use redirect::text;
use redirect::verdict::verdict;

/// Configuration of a pod without annotations whose first address is IPv4.
fn sidecar() -> Config {
    Config {
        dialect: Dialect::Nft,
        inbound_ports_include: inbound_ports("*"),
        inbound_ports_exclude: ports("15020,15021,15090"),
        outbound_ranges_include: Selection::All,
        outbound_ports_exclude: ports("15020"),
        ..Config::default()
    }
}

fn tcp(hook: Hook, interface: &'static str, to: &str) -> Packet {
    let destination = to.parse().unwrap();
    let source = if to.contains(':') { "fd00:9::2" } else { "10.9.0.2" };
    Packet {
        hook,
        source: source.parse().unwrap(),
        destination,
        layer4: Layer4::Tcp { source: 40000, destination: 8080 },
        interface: interface.into(),
        uid: (hook == Hook::Output).then_some(1000),
        gid: (hook == Hook::Output).then_some(1000),
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    }
}

fn dns(packet: Packet) -> Packet {
    Packet { layer4: Layer4::Udp { source: 40000, destination: 53 }, ..packet }
}

fn judged(config: &Config, packet: &Packet) -> Verdict {
    verdict(&ruleset(config).unwrap(), packet)
}

fn under_iptables(config: &Config, packet: &Packet) -> Verdict {
    judged(&Config { dialect: Dialect::Iptables, ..config.clone() }, packet)
}

fn said(verdict: &Verdict) -> Vec<(&str, usize, &str)> {
    verdict.steps.iter().map(|step| (step.chain, step.position, &*step.rule)).collect()
}

const OUTBOUND: Outcome = Outcome::Redirected { port: 15001 };
const INTERCEPTED: Outcome = Outcome::Intercepted { port: 15006 };

#[test]
fn steps_carry_native_names_and_native_text() {
    let out = judged(&sidecar(), &tcp(Hook::Output, "eth0", "10.1.2.3"));
    assert_eq!(out.outcome, OUTBOUND);
    assert_eq!(
        said(&out),
        [
            ("output", 2, "counter jump istio-output"),
            ("istio-output", 11, "counter jump istio-redirect"),
            ("istio-redirect", 1, "meta l4proto tcp counter redirect to :15001"),
        ]
    );
}

#[test]
fn ipv6_is_left_alone_if_the_first_address_is_ipv4() {
    for (hook, to) in [(Hook::Output, "fd00:1::3"), (Hook::Prerouting, "fd00:9::2")] {
        let packet = tcp(hook, "eth0", to);
        for packet in [packet.clone(), dns(packet)] {
            for mode in [Mode::Redirect, Mode::Tproxy] {
                let config = Config { dns: Dns::All, drop_invalid: true, mode, ..sidecar() };
                let native = judged(&config, &packet);
                assert_eq!(
                    (native.outcome, native.mark, native.zone),
                    (Outcome::Untouched, 0, 0),
                    "{packet:?}"
                );
                assert!(native.steps.iter().all(|step| *step.rule == *"meta nfproto ipv6 counter return"));
                assert_eq!(under_iptables(&config, &packet).outcome, Outcome::Untouched);
            }
        }
    }
    let dual = Config { ipv6: true, ..sidecar() };
    assert_eq!(judged(&dual, &tcp(Hook::Output, "eth0", "fd00:1::3")).outcome, OUTBOUND);
    assert!(!text::native(&ruleset(&dual).unwrap()).contains("nfproto"));
}

#[test]
fn a_packet_without_a_socket_breaks_off_owner_rules_in_both_senses() {
    let reset = Packet { uid: None, gid: None, ..tcp(Hook::Output, "lo", "10.9.0.2") };
    assert_eq!(under_iptables(&sidecar(), &reset).outcome, Outcome::Untouched);
    let verdict = judged(&sidecar(), &reset);
    assert_eq!(verdict.outcome, OUTBOUND);
    assert!(verdict.steps.iter().all(|step| !step.rule.contains("skuid") && !step.rule.contains("skgid")));
}

#[test]
fn only_invalid_tcp_is_dropped() {
    let config = Config { drop_invalid: true, ..sidecar() };
    let invalid = Packet { connection: Connection::Invalid, ..tcp(Hook::Prerouting, "eth0", "10.9.0.2") };
    assert_eq!(judged(&config, &invalid).outcome, Outcome::Dropped);
    assert_eq!(judged(&config, &dns(invalid.clone())).outcome, Outcome::Untouched);
    assert_eq!(under_iptables(&config, &dns(invalid)).outcome, Outcome::Dropped);
}

#[test]
fn tproxy_marks_and_accepts_in_one_rule() {
    let config = Config { mode: Mode::Tproxy, ipv6: true, ..sidecar() };
    for (to, family) in
        [("10.9.0.2", "ip daddr != 127.0.0.1/32 tproxy ip"), ("fd00:9::2", "ip6 daddr != ::1/128 tproxy ip6")]
    {
        let verdict = judged(&config, &tcp(Hook::Prerouting, "eth0", to));
        assert_eq!((verdict.outcome, verdict.mark, verdict.connmark), (INTERCEPTED, 1337, 0));
        let last = verdict.steps.last().unwrap();
        assert_eq!(
            last.rule,
            format!("meta l4proto tcp {family} to :15006 meta mark set 1337 counter accept").into()
        );
    }
    let known = Packet { connection: Connection::Established, ..tcp(Hook::Prerouting, "eth0", "10.9.0.2") };
    let verdict = judged(&config, &known);
    assert_eq!((verdict.outcome, verdict.mark), (Outcome::Untouched, 1337));
}

#[test]
fn the_inserts_of_tproxy_stand_where_nft_counts_them() {
    let config = Config { mode: Mode::Tproxy, ipv6: true, ..sidecar() };
    let ruleset = ruleset(&config).unwrap();
    let chains = ruleset.inet_chains();
    let inbound =
        chains.iter().find(|at| (at.table, at.chain) == (Table::Mangle, Chain::IstioInbound)).unwrap();
    let first: Vec<String> = inbound.rules[..4].iter().map(|rule| text::rule(Dialect::Nft, rule)).collect();
    assert_eq!(
        first,
        [
            "meta l4proto tcp mark 1337 counter return",
            "iifname lo meta l4proto tcp ip6 saddr ::6/128 counter return",
            "iifname lo meta l4proto tcp mark != 1338 counter return",
            "iifname lo meta l4proto tcp ip saddr 127.0.0.6/32 counter return",
        ]
    );
}

#[test]
fn the_first_zone_stays() {
    let config = Config { dns: Dns::All, ..sidecar() };
    let question = dns(tcp(Hook::Output, "eth0", "10.96.0.10"));
    let of_app = judged(&config, &question);
    assert_eq!((of_app.outcome, of_app.zone), (Outcome::Redirected { port: 15053 }, 2));
    let of_proxy = judged(&config, &Packet { uid: Some(1337), ..question });
    assert_eq!((of_proxy.outcome, of_proxy.zone), (Outcome::Untouched, 1));
    let zones = of_proxy.steps.iter().filter(|step| step.rule.contains("ct zone set"));
    assert_eq!(zones.count(), 2, "the second rule counts, too, and changes nothing");
}

/// Upstream jumps to chains here that it never makes, and the whole transaction fails.
#[test]
fn resolvers_of_ipv6_alone_make_no_jump_to_nowhere_while_ipv6_is_off() {
    let servers = Dns::Servers { v4: vec![], v6: vec!["fd00::a".parse().unwrap()] };
    let config = Config { dns: servers, ..sidecar() };
    let made = ruleset(&config).unwrap();
    let chains = made.inet_chains();
    for (table, rule) in chains.iter().flat_map(|at| at.rules.iter().map(|rule| (at.table, rule))) {
        if let Target::Jump(to) = rule.target {
            assert!(chains.iter().any(|at| (at.table, at.chain) == (table, to)), "{table:?} {to:?}");
        }
    }
    let text = text::native(&made);
    assert!(!text.contains("istio-proxy-nat istio-output counter jump istio-output-dns"));
    assert!(text.contains("istio-output-dns udp dport 53 meta skuid 1337 counter ct zone set 1"));
    let question = dns(tcp(Hook::Output, "eth0", "10.96.0.10"));
    assert_eq!(judged(&config, &question).outcome, Outcome::Untouched);
    let on = Config { ipv6: true, ..config };
    assert!(
        text::native(&ruleset(&on).unwrap()).contains("ip6 daddr fd00::a/128 udp dport 53 counter redirect")
    );
}

#[test]
fn a_range_has_a_dash_and_an_insert_its_index() {
    let config = Config {
        outbound_ports_exclude: ports("8000:8010"),
        virtual_interfaces: vec!["k6t-eth0".into()],
        ..sidecar()
    };
    let made = ruleset(&config).unwrap();
    let commands: Vec<String> = made.rules.iter().map(|rule| text::command(Dialect::Nft, rule)).collect();
    let expected = [
        "add rule inet istio-proxy-nat istio-output tcp dport 8000-8010 counter return",
        "add rule inet istio-proxy-nat prerouting iifname k6t-eth0 counter return",
        "insert rule inet istio-proxy-nat prerouting index 0 iifname k6t-eth0 counter jump istio-redirect",
    ];
    for command in expected {
        assert!(commands.iter().any(|other| other == command), "{command}\n{commands:#?}");
    }
}
