// SPDX-License-Identifier: Apache-2.0
//! Random configurations of which rules can be made.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use redirect::config::{Config, Dns, Mode};
use redirect::list::Selection;
use redirect::ruleset::{Cidr, Dialect, Id, Port};

pub(crate) fn port() -> impl Strategy<Value = Port> {
    prop_oneof![
        1 => Just(Port::Range(0, u16::MAX)),
        4 => select(vec![53, 80, 443, 15008, 15020, 15053]).prop_map(Port::One),
        4 => any::<u16>().prop_map(Port::One),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(one, other)| Port::Range(one.min(other), one.max(other))),
    ]
}

/// An interface that a rule names: one, or all whose names begin alike, in either dialect's spelling.
pub(crate) fn named_interface() -> impl Strategy<Value = Cow<'static, str>> {
    prop_oneof![8 => interface(), 1 => select(vec!["eth+", "net*"]).prop_map(Cow::Borrowed)]
}

pub(crate) fn interface() -> impl Strategy<Value = Cow<'static, str>> {
    select(vec!["lo", "eth0", "eth1", "net1", "k6t-eth0", "bond0.20"]).prop_map(Cow::Borrowed)
}

/// Numbers, from few enough that a random packet often has one of them.
pub(crate) fn id() -> impl Strategy<Value = u32> {
    prop_oneof![3 => select(vec![0, 1000, 1337, 1338]), 1 => 0..u32::MAX]
}

fn proxy_ids() -> impl Strategy<Value = Vec<Id>> {
    vec(id().prop_map(Id::Number), 0..3)
}

fn group() -> impl Strategy<Value = Id> {
    prop_oneof![3 => id().prop_map(Id::Number), 1 => select(vec!["java", "staff"]).prop_map(|name| Id::Name(name.to_owned()))]
}

pub(crate) fn address() -> impl Strategy<Value = IpAddr> {
    let known = [
        "127.0.0.1",
        "127.0.0.6",
        "10.9.0.2",
        "10.1.2.3",
        "::1",
        "::6",
        "fd00:9::2",
        "fd00:9::3",
        "::ffff:10.0.0.1",
    ];
    let known: Vec<IpAddr> = known.iter().map(|text| text.parse().unwrap()).collect();
    prop_oneof![
        3 => select(known),
        1 => any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        1 => any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    ]
}

pub(crate) fn cidr() -> impl Strategy<Value = Cidr> {
    (address(), prop_oneof![1 => Just(0), 5 => 0..=128u8]).prop_map(|(address, length)| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Cidr { address, length: length % (bits + 1) }
    })
}

pub(crate) fn selection<T: Clone + std::fmt::Debug>(
    item: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Selection<T>> {
    prop_oneof![Just(Selection::All), vec(item, 0..4).prop_map(Selection::List)]
}

fn dns() -> impl Strategy<Value = Dns> {
    let v4 = vec(any::<u32>().prop_map(Ipv4Addr::from_bits), 0..3);
    let v6 = vec(any::<u128>().prop_map(Ipv6Addr::from_bits), 0..3);
    prop_oneof![Just(Dns::Off), Just(Dns::All), (v4, v6).prop_map(|(v4, v6)| Dns::Servers { v4, v6 })]
}

fn loopback() -> impl Strategy<Value = Cidr> {
    (any::<[u8; 3]>(), 8..=32u8)
        .prop_map(|([b, c, d], length)| Cidr { address: IpAddr::V4(Ipv4Addr::new(127, b, c, d)), length })
}

/// Any configuration of any dialect.
pub(crate) fn config() -> impl Strategy<Value = Config> {
    (select(vec![Dialect::Iptables, Dialect::Nft]), iptables_config())
        .prop_map(|(dialect, config)| Config { dialect, ..config })
}

/// Any configuration of the iptables dialect. Proxy ids are numbers: a name means nothing to a verdict.
pub(crate) fn iptables_config() -> impl Strategy<Value = Config> {
    let switches = (any::<bool>(), select(vec![Mode::Redirect, Mode::Tproxy]), any::<bool>(), dns());
    let tunnel = prop_oneof![Just(15008), any::<u16>()];
    let numbers = (any::<[u16; 2]>(), tunnel, 1..u32::MAX, any::<u32>());
    let owners = (proxy_ids(), proxy_ids(), selection(group()), vec(group(), 0..3));
    let inbound = (
        option::of(selection(port())),
        vec(port(), 0..4),
        vec(named_interface(), 0..3),
        vec(named_interface(), 0..3),
    );
    let outbound = (selection(cidr()), vec(cidr(), 0..4), vec(port(), 0..3), vec(port(), 0..3), loopback());
    (switches, numbers, owners, inbound, outbound).prop_map(
        |(switches, numbers, owners, inbound, outbound)| Config {
            dialect: Dialect::Iptables,
            ipv6: switches.0,
            mode: switches.1,
            drop_invalid: switches.2,
            dns: switches.3,
            proxy_port: numbers.0[0],
            inbound_capture_port: numbers.0[1],
            inbound_tunnel_port: numbers.1,
            tproxy_mark: numbers.2,
            tproxy_route_table: numbers.3,
            proxy_uids: owners.0,
            proxy_gids: owners.1,
            owner_groups_include: owners.2,
            owner_groups_exclude: owners.3,
            inbound_ports_include: inbound.0,
            inbound_ports_exclude: inbound.1,
            exclude_interfaces: inbound.2,
            virtual_interfaces: inbound.3,
            outbound_ranges_include: outbound.0,
            outbound_ranges_exclude: outbound.1,
            outbound_ports_include: outbound.2,
            outbound_ports_exclude: outbound.3,
            loopback: outbound.4,
        },
    )
}
