// SPDX-License-Identifier: Apache-2.0
//! Rule sets to apply.

use redirect::config::{Config, Dns, Mode};
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{
    Chain, Dialect, Match, Origin, Owner, Place, Port, Protocol, Rule, Ruleset, Scope, Sense, Table, Target,
};

/// What an ordinary pod gets from the CNI plugin.
pub(crate) fn config() -> Config {
    Config {
        ipv6: true,
        inbound_ports_include: Some(Selection::All),
        inbound_ports_exclude: [15020, 15021, 15090].map(Port::One).to_vec(),
        outbound_ranges_include: Selection::All,
        outbound_ports_exclude: vec![Port::One(15020)],
        ..Config::default()
    }
}

/// The rules of an ordinary pod.
pub(crate) fn ordinary() -> Ruleset {
    ruleset(&config()).unwrap()
}

/// With an excluded interface.
pub(crate) fn excluding(name: &'static str) -> Ruleset {
    ruleset(&Config { exclude_interfaces: vec![name.into()], ..config() }).unwrap()
}

/// With DNS: three tables.
pub(crate) fn dns() -> Ruleset {
    ruleset(&Config { dns: Dns::All, ..config() }).unwrap()
}

/// What has every table and every form: TPROXY, DNS, excluded and virtual interfaces, dropping of what conntrack cannot place.
pub(crate) fn full_config() -> Config {
    Config {
        mode: Mode::Tproxy,
        dns: Dns::All,
        drop_invalid: true,
        exclude_interfaces: vec!["eth1".into(), "veth+".into()],
        virtual_interfaces: vec!["vm0".into(), "vm1".into()],
        ..config()
    }
}

/// The rules of [`full_config`].
pub(crate) fn everything() -> Ruleset {
    ruleset(&full_config()).unwrap()
}

/// All of them, by name.
pub(crate) fn all() -> [(&'static str, Ruleset); 3] {
    [("ordinary", ordinary()), ("dns", dns()), ("everything", everything())]
}

/// Forms that no configuration of the corpora has: ends of port ranges, prefix lengths, interface names, owners.
/// In several, as without root a transaction of iptables is limited to 416 KiB.
pub(crate) fn edges() -> Vec<Ruleset> {
    let ports = [
        Port::Range(0, 100),
        Port::Range(0, 65535),
        Port::Range(100, 65535),
        Port::Range(100, 100),
        Port::Range(0, 0),
        Port::One(0),
        Port::One(65535),
    ];
    let mut rules = Vec::new();
    let mut add = |matches: Vec<Match>| rules.push(returning(Scope::Both, matches));
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for port in &ports {
            for sense in [Sense::Is, Sense::Not] {
                if (sense, port) == (Sense::Not, &Port::Range(0, 65535)) {
                    continue;
                }
                let protocol = Match::Protocol(protocol);
                add(vec![protocol.clone(), Match::DestinationPort(sense, port.clone())]);
                add(vec![protocol, Match::SourcePort(sense, port.clone())]);
            }
        }
        let multiport = Match::DestinationPorts(Sense::Is, (1..=15).collect());
        add(vec![Match::Protocol(protocol), multiport]);
    }
    for name in ["+", "a+b", "lo+", "123456789012345", "12345678901234+"] {
        add(vec![Match::InInterface(name.into())]);
        add(vec![Match::OutInterface(name.into()), Match::InInterface(name.into())]);
    }
    for sense in [Sense::Is, Sense::Not] {
        add(vec![Match::Owner(sense, Owner::Uid(redirect::ruleset::Id::Number(0)))]);
        add(vec![Match::Owner(sense, Owner::Gid(redirect::ruleset::Id::Number(0)))]);
        add(vec![Match::Mark(sense, 0)]);
        add(vec![Match::Mark(sense, u32::MAX)]);
    }
    add(vec![Match::ConnMark(u32::MAX)]);
    for cidr in prefixes() {
        for sense in [Sense::Is, Sense::Not] {
            if cidr.length > 0 || sense == Sense::Is {
                let scope = Scope::Only(cidr.family());
                rules.push(returning(scope, vec![Match::Source(sense, cidr)]));
                rules.push(returning(scope, vec![Match::Destination(sense, cidr)]));
            }
        }
    }
    let ruleset = |rules: &[Rule]| Ruleset { dialect: Dialect::Iptables, ipv6: true, rules: rules.to_vec() };
    rules.chunks(250).map(ruleset).collect()
}

fn returning(scope: Scope, matches: Vec<Match>) -> Rule {
    Rule {
        table: Table::Mangle,
        chain: Chain::IstioOutput,
        scope,
        place: Place::Append,
        matches,
        target: Target::Return,
        origin: Origin::Always,
    }
}

/// Every prefix length of both families, host bits set.
fn prefixes() -> impl Iterator<Item = redirect::ruleset::Cidr> {
    let v4 = (0..=32).map(|length| redirect::ruleset::Cidr { address: [171, 205, 239, 255].into(), length });
    let v6 = (0..=128).map(|length| redirect::ruleset::Cidr {
        address: [0xfedc, 0xba98, 0x7654, 0x3210, 0xffff, 0xffff, 0xffff, 0xffff].into(),
        length,
    });
    v4.chain(v6)
}
