// SPDX-License-Identifier: Apache-2.0
//! Rule sets to apply.

use redirect::config::{Config, Dns, Mode};
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{
    Chain, Dialect, Match, Origin, Owner, Port, Protocol, Rule, RulePlace, Ruleset, Scope, Sense, Table,
    Target,
};

/// Config of an ordinary pod from the CNI plugin.
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

/// With the interface of a guest whose outbound traffic is left alone.
pub(crate) fn guests_alone(name: &'static str) -> Ruleset {
    let outbound_ranges_include = Selection::List(Vec::new());
    ruleset(&Config { virtual_interfaces: vec![name.into()], outbound_ranges_include, ..config() }).unwrap()
}

/// With DNS: three tables.
pub(crate) fn dns() -> Ruleset {
    ruleset(&dns_config()).unwrap()
}

fn dns_config() -> Config {
    Config { dns: Dns::All, ..config() }
}

/// Every table and every form: TPROXY, DNS, excluded and virtual interfaces, dropping of what conntrack cannot place.
pub(crate) fn full_config() -> Config {
    with_everything(config())
}

/// The same of another pod.
pub(crate) fn with_everything(config: Config) -> Config {
    Config {
        mode: Mode::Tproxy,
        dns: Dns::All,
        drop_invalid: true,
        exclude_interfaces: vec!["eth1".into()],
        virtual_interfaces: vec!["vm0".into(), "vm1".into()],
        ..config
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

/// The rules of an ordinary pod in the native dialect.
pub(crate) fn native() -> Ruleset {
    ruleset(&Config { dialect: Dialect::Nft, ..config() }).unwrap()
}

/// The same in the native dialect.
pub(crate) fn all_native() -> [(&'static str, Ruleset); 3] {
    let native = |config: Config| ruleset(&Config { dialect: Dialect::Nft, ..config }).unwrap();
    let everything = Config { exclude_interfaces: vec!["eth1".into(), "veth*".into()], ..full_config() };
    [
        ("native ordinary", native(config())),
        ("native dns", native(dns_config())),
        ("native everything", native(everything)),
    ]
}

/// All of them in both dialects.
pub(crate) fn every() -> impl Iterator<Item = (&'static str, Ruleset)> {
    all().into_iter().chain(all_native())
}

/// Forms that no configuration of the corpora has: ends of port ranges, prefix lengths, interface names, owners.
/// In several, as without root a transaction of iptables is limited to 416 KiB.
pub(crate) fn edges() -> Vec<Ruleset> {
    let mut rules = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for port in &ports() {
            for sense in [Sense::Is, Sense::Not] {
                if (sense, port) == (Sense::Not, &Port::Range(0, 65535)) {
                    continue;
                }
                rules.extend(on_port(Match::Protocol(protocol), sense, port));
            }
        }
        let multiport = Match::DestinationPorts(Sense::Is, (1..=15).collect());
        rules.push(returning(Scope::Both, vec![Match::Protocol(protocol), multiport]));
    }
    for name in ["+", "a+b", "lo+", "123456789012345", "12345678901234+"] {
        rules.extend(at_interface(name));
    }
    rules.extend(owners_and_marks());
    rules.extend(
        prefixed().filter(|(sense, length, _)| *length > 0 || *sense == Sense::Is).map(|(_, _, rule)| rule),
    );
    let ruleset = |rules: &[Rule]| Ruleset { dialect: Dialect::Iptables, ipv6: true, rules: rules.to_vec() };
    rules.chunks(250).map(ruleset).collect()
}

/// The same for nft, and what it alone can say.
pub(crate) fn native_edges() -> Vec<Ruleset> {
    let mut rules = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for port in &ports() {
            for sense in [Sense::Is, Sense::Not] {
                rules.extend(on_port(Match::Protocol(protocol), sense, port));
                rules.extend(on_port(Match::PortProtocol(protocol), sense, port));
            }
        }
        for (sense, several) in
            [(Sense::Is, vec![1, 2, 3]), (Sense::Not, vec![53, 53]), (Sense::Not, vec![53])]
        {
            let several = Match::DestinationPorts(sense, several);
            rules.push(returning(Scope::Both, vec![Match::PortProtocol(protocol), several]));
        }
        let two = [Sense::Is, Sense::Not].map(|sense| Match::DestinationPorts(sense, vec![9, 8, 7]));
        let [one, other] = two;
        rules.push(returning(Scope::Both, vec![Match::Protocol(protocol), one, other]));
    }
    for name in ["lo", "+", "lo+", "lo*", "a*b", "123456789012345", "12345678901234*"] {
        rules.extend(at_interface(name));
    }
    rules.extend(owners_and_marks());
    rules.extend(prefixed().map(|(_, _, rule)| rule));
    vec![Ruleset { dialect: Dialect::Nft, ipv6: true, rules }]
}

fn ports() -> [Port; 9] {
    [
        Port::Range(0, 100),
        Port::Range(0, 65535),
        Port::Range(100, 65535),
        Port::Range(100, 100),
        Port::Range(0, 0),
        Port::One(0),
        Port::One(65535),
        Port::Verbatim("30000:".to_owned()),
        Port::Verbatim(":1023".to_owned()),
    ]
}

fn on_port(protocol: Match, sense: Sense, port: &Port) -> [Rule; 2] {
    [
        returning(Scope::Both, vec![protocol.clone(), Match::DestinationPort(sense, port.clone())]),
        returning(Scope::Both, vec![protocol, Match::SourcePort(sense, port.clone())]),
    ]
}

fn at_interface(name: &'static str) -> [Rule; 2] {
    [
        returning(Scope::Both, vec![Match::InInterface(name.into())]),
        returning(Scope::Both, vec![Match::OutInterface(name.into()), Match::InInterface(name.into())]),
    ]
}

fn owners_and_marks() -> Vec<Rule> {
    let mut matches = vec![Match::ConnMark(u32::MAX)];
    for sense in [Sense::Is, Sense::Not] {
        matches.push(Match::Owner(sense, Owner::Uid(redirect::ruleset::Id::Number(0))));
        matches.push(Match::Owner(sense, Owner::Gid(redirect::ruleset::Id::Number(0))));
        matches.push(Match::Mark(sense, 0));
        matches.push(Match::Mark(sense, u32::MAX));
    }
    matches.into_iter().map(|condition| returning(Scope::Both, vec![condition])).collect()
}

/// Every prefix, asked for and asked not to be, at both ends.
fn prefixed() -> impl Iterator<Item = (Sense, u8, Rule)> {
    prefixes().flat_map(|cidr| {
        let scope = Scope::Only(cidr.family());
        [Sense::Is, Sense::Not].into_iter().flat_map(move |sense| {
            let ends = [Match::Source(sense, cidr), Match::Destination(sense, cidr)];
            ends.map(|condition| (sense, cidr.length, returning(scope, vec![condition])))
        })
    })
}

fn returning(scope: Scope, matches: Vec<Match>) -> Rule {
    Rule {
        table: Table::Mangle,
        chain: Chain::IstioOutput,
        scope,
        place: RulePlace::Append,
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
