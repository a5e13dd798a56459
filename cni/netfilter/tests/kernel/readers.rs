// SPDX-License-Identifier: Apache-2.0
//! Foreign rules by each reader: netlink, `nft list`, `nft -j list` and `iptables-save` agree on what such a rule does with a packet, or
//! each says that it cannot tell.

use netfilter::{found_rules, read};
use redirect::found::{FoundRules, json, native, save};
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet};
use redirect::ruleset::Family;
use redirect::verdict::found_verdict;

use crate::world::World;
use crate::{Case, Needs, tools};

pub(crate) const CASES: &[Case] = &[
    Case("readers_agree_on_native_rules", Needs::Tools, native_rules),
    Case("readers_agree_on_rules_of_iptables", Needs::Tools, iptables_rules),
];

/// Conditions of foreign rules as nft spells them, and whether each reader can judge them.
const NATIVE: [(&str, bool); 28] = [
    ("counter", true),
    ("tcp dport 9", true),
    ("tcp sport 1-5000", true),
    ("ct state established", true),
    ("ct state new", true),
    ("ct state invalid", true),
    ("ct state untracked", true),
    ("ct state established,related", true),
    ("ct state new,established", true),
    ("ct state { new, established }", true),
    ("ct state != { new, established }", true),
    ("ct state != established", true),
    ("ct state ! established", true),
    ("ct mark 5", true),
    ("meta mark 5", true),
    ("meta l4proto icmp", true),
    ("meta l4proto tcp", true),
    ("meta l4proto 47", true),
    ("ip saddr 10.9.0.0/24", true),
    ("ip daddr != 192.0.2.1", true),
    ("oifname \"eth0\"", true),
    ("ct direction original", false),
    ("ct status dnat", false),
    ("ip daddr { 192.0.2.1, 192.0.2.2 }", false),
    ("tcp flags syn", false),
    ("limit rate 5/second", false),
    ("meta l4proto { icmp, tcp }", false),
    ("fib daddr type local", false),
];

/// The same of iptables.
const IPTABLES: [(&str, bool); 9] = [
    ("-m conntrack --ctstate ESTABLISHED", true),
    ("-m conntrack --ctstate RELATED,ESTABLISHED", true),
    ("-m conntrack --ctstate NEW", true),
    ("-m conntrack --ctstate NEW,UNTRACKED", true),
    ("-m conntrack ! --ctstate NEW", true),
    ("-m state --state NEW", true),
    ("-p icmp", true),
    ("-m conntrack --ctstate DNAT", false),
    ("-m conntrack --ctdir ORIGINAL", false),
];

fn packets() -> Vec<Packet> {
    let of = |layer4, connection| Packet {
        hook: Hook::Output,
        source: [10, 9, 0, 2].into(),
        destination: [192, 0, 2, 1].into(),
        layer4,
        interface: "eth0".into(),
        uid: Some(1000),
        gid: Some(1000),
        connection,
        mark: 0,
        connmark: 0,
    };
    let layers = [
        Layer4::Tcp { source: 40000, destination: 80 },
        Layer4::Tcp { source: 400, destination: 9 },
        Layer4::Udp { source: 400, destination: 9 },
        Layer4::Other(1),
    ];
    let connections = [Connection::New, Connection::Established, Connection::Related, Connection::Invalid];
    layers.into_iter().flat_map(|layer4| connections.map(|connection| of(layer4, connection))).collect()
}

/// Outcome for each packet; `None` where the reader cannot tell.
fn verdicts(rules: &FoundRules) -> Vec<Option<Outcome>> {
    packets().iter().map(|packet| found_verdict(rules, packet).outcome.ok()).collect()
}

fn native_rules(world: World) {
    for family in ["ip", "inet"] {
        for (condition, known) in NATIVE {
            for verdict in ["accept", "drop"] {
                let [by_netlink, by_text, by_json] = world.fresh(|| {
                    tools::nft(&format!(
                        "add table {family} other; add chain {family} other o {{ type filter hook output priority 0; }}; \
                         add rule {family} other o {condition} {verdict}"
                    ));
                    let listing = tools::listing().to_string();
                    let rules = found_rules(&read().unwrap());
                    [rules, native::parse(&tools::list()).unwrap(), json::parse(&listing).unwrap()]
                });
                let name = format!("{family} {condition} {verdict}");
                let expected = verdicts(&by_netlink);
                assert_eq!(expected, verdicts(&by_text), "{name}: {by_netlink:?} {by_text:?}");
                assert_eq!(expected, verdicts(&by_json), "{name}: {by_netlink:?} {by_json:?}");
                assert_eq!(expected.iter().all(Option::is_some), known, "{name}: {by_netlink:?}");
            }
        }
    }
}

fn iptables_rules(world: World) {
    for (condition, known) in IPTABLES {
        for target in ["ACCEPT", "DROP"] {
            let [by_netlink, by_text] = world.fresh(|| {
                tools::iptables(Family::V4, &format!("-A OUTPUT {condition} -j {target}")).unwrap();
                let saved = tools::save(Family::V4).join("\n") + "\n";
                [found_rules(&read().unwrap()), save::parse(&saved, Family::V4).unwrap()]
            });
            let expected = verdicts(&by_netlink);
            assert_eq!(expected, verdicts(&by_text), "{condition} {target}: {by_netlink:?} {by_text:?}");
            assert_eq!(expected.iter().all(Option::is_some), known, "{condition}: {by_netlink:?}");
        }
    }
}
