// SPDX-License-Identifier: Apache-2.0
//! Kernel behaviour for whole connections, one fact per test; the truth table checks the rest against it.

use std::net::IpAddr;

use super::*;
use redirect::config::{Config, Dns, Mode};
use redirect::generate::ruleset;
use redirect::list::{Selection, inbound_ports};
use redirect::ruleset::{Port, Ruleset, Table};

const APP: Owner = Owner { uid: 1000, gid: 1000 };
const PROXY: Owner = Owner { uid: 1337, gid: 1337 };

fn followed(rules: &Ruleset, pod: &Pod, first: &Packet, shape: Shape) -> Course {
    follow(&Judge::new(rules), pod, first, shape)
}

fn link(name: &'static str, address: &str, length: u8) -> Link {
    Link { name: name.into(), address: Cidr { address: address.parse().unwrap(), length } }
}

fn pod(routed_marks: Vec<(Family, u32)>) -> Pod {
    let links = vec![
        link("eth0", "10.8.0.2", 24),
        link("eth0", "fd08::2", 64),
        link("k6t-eth0", "10.9.0.1", 24),
        link("k6t-eth0", "fd09::1", 64),
    ];
    Pod { links, routed_marks, app: APP, proxy: PROXY, proxy_ports: vec![15001, 15006, 15053] }
}

fn packet(hook: Hook, interface: &'static str, from: &str, to: (&str, u16)) -> Packet {
    let (source, destination): (IpAddr, IpAddr) = (from.parse().unwrap(), to.0.parse().unwrap());
    let owner = (hook == Hook::Output).then_some(1000);
    Packet {
        hook,
        source,
        destination,
        layer4: Layer4::Tcp { source: 40_000, destination: to.1 },
        interface: interface.into(),
        uid: owner,
        gid: owner,
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    }
}

fn udp(packet: Packet) -> Packet {
    match packet.layer4 {
        Layer4::Tcp { source, destination } => {
            Packet { layer4: Layer4::Udp { source, destination }, ..packet }
        }
        _ => packet,
    }
}

fn sidecar(mode: Mode) -> Config {
    let inbound_ports_include = inbound_ports("*");
    Config {
        mode,
        inbound_ports_include,
        outbound_ranges_include: Selection::All,
        ipv6: true,
        ..Config::default()
    }
}

fn delivered(port: u16, local: &str) -> End {
    End::Delivered { port, local: local.parse().unwrap() }
}

#[test]
fn a_redirected_connection_is_followed_to_lo_and_back() {
    let first = packet(Hook::Output, "eth0", "10.8.0.2", ("192.0.2.10", 443));
    let course = followed(&ruleset(&sidecar(Mode::Redirect)).unwrap(), &pod(vec![]), &first, Shape::Stream);
    assert_eq!((course.end, course.is_answered), (delivered(15001, "127.0.0.1:15001"), true));
    // Two packets each way, each at OUTPUT and at PREROUTING of lo; only the first meets nat.
    assert_eq!(course.verdicts.len(), 8);
    assert!(course.verdicts[1..].iter().all(|verdict| verdict.steps.is_empty()));
}

/// resolve_normal_ct looks an entry up in the packet's own zone.
#[test]
fn an_answer_in_another_zone_begins_a_connection() {
    let config = Config { dns: Dns::All, outbound_ports_exclude: vec![Port::One(53)], ..Config::default() };
    let first = udp(packet(Hook::Output, "lo", "10.8.0.2", ("10.8.0.2", 53)));
    let course = followed(&ruleset(&config).unwrap(), &pod(vec![]), &first, Shape::Exchange);
    assert_eq!((course.end, course.verdicts[0].zone), (delivered(53, "10.8.0.2:53"), 2));
    assert!(course.verdicts[2].steps.iter().any(|step| step.table == Table::Nat));
}

/// __mkroute_output refuses a loopback source on another link; IPv6 has no such rule.
#[test]
fn a_loopback_address_does_not_leave_in_ipv4() {
    for (source, to, answered) in [("192.0.2.10", "10.8.0.2", false), ("2001:db8::10", "fd08::2", true)] {
        let first = packet(Hook::Output, "lo", source, (to, 8080));
        let first = Packet { uid: Some(1337), gid: Some(1337), mark: 1337, ..first };
        let rules = ruleset(&sidecar(Mode::Tproxy)).unwrap();
        let marks = vec![(Family::V4, 1337), (Family::V6, 1337)];
        assert_eq!(followed(&rules, &pod(marks), &first, Shape::Stream).is_answered, answered, "{source}");
    }
}

/// ip_route_input looks at the mark that mangle gave: what ISTIO_DIVERT marks is for the pod, whoever it was addressed to.
#[test]
fn tproxy_takes_the_answer_to_a_guest_s_connection() {
    let mut config = sidecar(Mode::Tproxy);
    config.inbound_ports_exclude = vec![Port::One(443)];
    let rules = ruleset(&config).unwrap();
    let first = packet(Hook::Prerouting, "k6t-eth0", "10.9.0.2", ("192.0.2.10", 443));
    let with_routes = followed(&rules, &pod(vec![(Family::V4, 1337)]), &first, Shape::Stream);
    assert_eq!((with_routes.end, with_routes.is_answered), (End::Left, false));
    assert!(followed(&rules, &pod(vec![]), &first, Shape::Stream).is_answered);
}

/// nf_tproxy assigns the socket before nat rewrites the header, and tcp_v4_rcv takes the assigned one (skb_steal_sock).
#[test]
fn a_socket_that_tproxy_chose_gets_what_redirect_rewrote() {
    let mut config = sidecar(Mode::Tproxy);
    config.virtual_interfaces = vec!["k6t-eth0".into()];
    config.outbound_ranges_include =
        Selection::List(vec![Cidr { address: "192.0.2.0".parse().unwrap(), length: 24 }]);
    let first = packet(Hook::Prerouting, "k6t-eth0", "10.9.0.2", ("192.0.2.10", 443));
    let course = followed(&ruleset(&config).unwrap(), &pod(vec![(Family::V4, 1337)]), &first, Shape::Stream);
    assert_eq!(course.end, delivered(15006, "10.9.0.1:15001"));
}

/// A root proxy is exempt by a rule on users other than its named one; that rule is absent if loopback is captured.
#[test]
fn tproxy_loops_if_a_loopback_range_is_captured() {
    let first = packet(Hook::Output, "lo", "192.0.2.10", ("10.8.0.2", 8080));
    let first = Packet { uid: Some(0), gid: Some(1337), mark: 1337, ..first };
    let captured = Cidr { address: "127.0.0.0".parse().unwrap(), length: 8 };
    let looped = Selection::List(vec![captured]);
    for (ranges, port) in [(Selection::All, 8080), (looped, 15006)] {
        let config = Config { outbound_ranges_include: ranges, ..sidecar(Mode::Tproxy) };
        let course =
            followed(&ruleset(&config).unwrap(), &pod(vec![(Family::V4, 1337)]), &first, Shape::Stream);
        assert!(matches!(course.end, End::Delivered { port: at, .. } if at == port), "{:?}", course.end);
    }
}
