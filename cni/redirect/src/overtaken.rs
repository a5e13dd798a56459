// SPDX-License-Identifier: Apache-2.0
//! Nat chains of others that the kernel runs before ours and that take packets which ours would redirect.
//!
//! The first chain that decides on a connection's destination ends nat for it. Of chains with one priority the kernel runs the one first that
//! was registered last, so a program that writes its rules after ADD (KubeVirt's virt-launcher, for one) comes before ours. Listings have
//! tables and the chains of a table in order of creation; [`found_verdict`] goes by that. A chain that was added to a table older than ours cannot
//! be told from one that was there first, and counts as older.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::config::{Config, ConfigError};
use crate::found::compare::{ChainPlace, Difference, Form, RuleOf, forms};
use crate::found::{ChainKind, Condition, FoundChain, FoundFamily, FoundHook, FoundRules, FoundTable};
use crate::generate::ruleset;
use crate::packet::{Connection, Hook, Layer4, Outcome, Packet};
use crate::ruleset::{Family, Match, Port, Ruleset, Sense};
use crate::verdict::{FoundStep, found_verdict, verdict};

/// Bound of each list of ports, addresses and interfaces that packets are made of.
const LIMIT: usize = 32;
/// A port that rules rarely name.
const PORTS: [u16; 2] = [8080, 9];
/// User and group of nobody.
const NOBODY: u32 = 65534;

/// Rules of others that take packets which the rules of `config` redirect. `addresses` are the pod's.
///
/// # Errors
/// When no rules can be made of `config`.
pub fn overtaken(
    found: &FoundRules,
    config: &Config,
    addresses: &[IpAddr],
) -> Result<Vec<Difference>, ConfigError> {
    let chains =
        || found.tables.iter().flat_map(|table| table.chains.iter().map(move |chain| (table, chain)));
    let Some(form) = forms(found).first().copied().filter(|_| chains().any(is_foreign_nat)) else {
        return Ok(Vec::new());
    };
    let wanted = ruleset(&config.clone().in_dialect(form.dialect()))?;
    // Other tables than nat may hold what nobody can judge, and decide nothing here.
    let mut nat = found.clone();
    for chain in nat.tables.iter_mut().flat_map(|table| &mut table.chains) {
        chain.entry = chain.entry.filter(|entry| entry.kind == ChainKind::First);
    }
    let mut differences = Vec::new();
    for packet in wanted.families().flat_map(|family| packets(found, &wanted, family, addresses)) {
        let Outcome::Redirected { port } = verdict(&wanted, &packet).outcome else { continue };
        let judged = found_verdict(&nat, &packet);
        let is_decided = match &judged.outcome {
            Ok(outcome) if *outcome == (Outcome::Redirected { port }) => continue,
            Ok(Outcome::Redirected { .. } | Outcome::Dropped) => true,
            // Nobody decided, and what ours lack is told elsewhere.
            Ok(Outcome::Untouched | Outcome::Intercepted { .. }) => continue,
            // An action that is not known was reached; a condition may hold or not.
            Err(undecided) => judged.steps.last() == Some(&undecided.rule),
        };
        let undecided = judged.outcome.as_ref().err().map(|undecided| &undecided.rule);
        let met = || judged.steps.iter().chain(undecided);
        let Some(decides) = met().next_back() else { continue };
        let from = met().filter_map(|step| called(found, step)).next_back();
        if !from.is_some_and(is_foreign_nat) {
            continue;
        }
        let rule = rule_of(decides);
        // Nothing says which of the two systems' chains were registered first.
        let is_ordered = is_legacy(decides.family) == (form == Form::Legacy);
        let one =
            if is_decided && is_ordered { Difference::Overtaken(rule) } else { Difference::Foreign(rule) };
        if !differences.contains(&one) {
            differences.push(one);
        }
    }
    Ok(differences)
}

fn is_legacy(family: FoundFamily) -> bool {
    matches!(family, FoundFamily::Legacy(_))
}

/// True for a chain that the kernel calls to decide destinations, and that is none of those which hold rules of ours.
fn is_foreign_nat((table, chain): (&FoundTable, &FoundChain)) -> bool {
    let is_destination = chain.entry.is_some_and(|entry| {
        entry.kind == ChainKind::First && matches!(entry.hook, FoundHook::Prerouting | FoundHook::Output)
    });
    is_destination && !table.is_native() && !(table.is_of_iptables() && chain.is_built_in())
}

/// The step's chain, if the kernel calls it.
fn called<'a>(found: &'a FoundRules, step: &FoundStep) -> Option<(&'a FoundTable, &'a FoundChain)> {
    let table = found.find(step.family, &step.table)?;
    let chain = table.find(&step.chain)?;
    chain.entry.map(|_| (table, chain))
}

fn rule_of(step: &FoundStep) -> RuleOf {
    let place = ChainPlace { family: step.family, table: step.table.clone(), chain: step.chain.clone() };
    RuleOf { place, position: step.position, rule: step.rule.clone() }
}

/// Values that rules ask for.
#[derive(Default)]
struct Named {
    ports: BTreeSet<u16>,
    sources: BTreeSet<IpAddr>,
    destinations: BTreeSet<IpAddr>,
    interfaces: BTreeSet<String>,
}

impl Named {
    fn add(&mut self, condition: &Match) {
        match condition {
            Match::DestinationPort(Sense::Is, Port::One(port) | Port::Range(port, _)) => {
                self.ports.insert(*port);
            }
            Match::DestinationPorts(Sense::Is, ports) => self.ports.extend(ports),
            Match::Source(Sense::Is, cidr) => {
                self.sources.insert(cidr.address);
            }
            Match::Destination(Sense::Is, cidr) => {
                self.destinations.insert(cidr.address);
            }
            Match::InInterface(name) | Match::OutInterface(name) => {
                self.interfaces.insert(name.trim_end_matches(['+', '*']).to_owned());
            }
            _ => {}
        }
    }
}

/// Packets that others' rules could take: with what they and ours name, and with what neither does.
fn packets(found: &FoundRules, wanted: &Ruleset, family: Family, addresses: &[IpAddr]) -> Vec<Packet> {
    let mut named = Named::default();
    let foreign = found.tables.iter().filter(|table| !table.is_native() && table.family.covers(family));
    for rule in foreign
        .flat_map(|table| &table.chains)
        .filter(|chain| !chain.is_ours())
        .flat_map(|chain| &chain.rules)
    {
        rule.conditions.iter().filter_map(Condition::known).for_each(|condition| named.add(condition));
    }
    // What only ours name comes behind, where the lists are cut.
    let mut ours = Named::default();
    wanted.rules.iter().flat_map(|rule| &rule.matches).for_each(|condition| ours.add(condition));
    let (nowhere, elsewhere): (IpAddr, IpAddr) = match family {
        Family::V4 => (Ipv4Addr::new(192, 0, 2, 2).into(), Ipv4Addr::new(198, 51, 100, 9).into()),
        Family::V6 => (
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 9).into(),
        ),
    };
    let ports: Vec<u16> = named.ports.iter().copied().chain(PORTS).chain(ours.ports).take(LIMIT).collect();
    let is_of = |address: &IpAddr| Family::of(*address) == family;
    let own = addresses.iter().copied().filter(|address| is_of(address) && !address.is_loopback());
    let inwards: Vec<IpAddr> =
        own.chain(named.destinations.iter().copied()).filter(is_of).take(LIMIT).collect();
    let outwards = named.destinations.iter().copied().chain([nowhere]).chain(ours.destinations);
    let outwards: Vec<IpAddr> = outwards.filter(is_of).take(LIMIT).collect();
    let sources: Vec<IpAddr> = [elsewhere].into_iter().chain(named.sources).filter(is_of).take(4).collect();
    let interfaces: Vec<String> = ["eth0".to_owned()]
        .into_iter()
        .chain(named.interfaces)
        .filter(|name| name != "lo" && !name.is_empty())
        .take(4)
        .collect();
    let mut packets = Vec::new();
    for (hook, destinations) in [(Hook::Prerouting, &inwards), (Hook::Output, &outwards)] {
        for (destination, port) in
            destinations.iter().flat_map(|to| ports.iter().map(move |port| (*to, *port)))
        {
            for (source, interface) in
                sources.iter().flat_map(|from| interfaces.iter().map(move |name| (*from, name)))
            {
                let id = (hook == Hook::Output).then_some(NOBODY);
                packets.push(Packet {
                    hook,
                    source,
                    destination,
                    layer4: Layer4::Tcp { source: 40000, destination: port },
                    interface: interface.clone().into(),
                    uid: id,
                    gid: id,
                    connection: Connection::New,
                    mark: 0,
                    connmark: 0,
                });
            }
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::{Action, Entry, FoundRule, Policy, save};
    use crate::list::Selection;
    use crate::ruleset::{Dialect, Protocol};
    use crate::text;

    fn config() -> Config {
        Config {
            inbound_ports_include: Some(Selection::All),
            outbound_ranges_include: Selection::All,
            ..Config::default()
        }
    }

    fn ours() -> FoundRules {
        save::parse(&text::restore(&ruleset(&config()).unwrap(), Family::V4), Family::V4).unwrap()
    }

    fn rule(conditions: Vec<Condition>, action: Action) -> FoundRule {
        FoundRule {
            conditions,
            actions: vec![action],
            dialect: Dialect::Nft,
            text: "theirs".to_owned(),
            packets: None,
            handle: None,
        }
    }

    fn chain(name: &str, entry: Option<(FoundHook, i32)>, rules: Vec<FoundRule>) -> FoundChain {
        let entry = entry.map(|(hook, priority)| Entry {
            hook,
            priority,
            kind: ChainKind::First,
            policy: Policy::Accept,
        });
        FoundChain { name: name.to_owned(), entry, rules, handle: None }
    }

    fn tcp_8080() -> Vec<Condition> {
        let port = Match::DestinationPort(Sense::Is, Port::One(8080));
        vec![Condition::Known(Match::Protocol(Protocol::Tcp)), Condition::Known(port)]
    }

    /// KubeVirt's: a base chain that jumps to the one with the translation.
    fn theirs(priority: i32, conditions: Vec<Condition>, action: Action) -> FoundTable {
        let jump =
            rule(vec![Condition::Known(Match::InInterface("eth0".into()))], Action::Jump("inb".into()));
        FoundTable {
            family: FoundFamily::One(Family::V4),
            name: "kv".to_owned(),
            chains: vec![
                chain("inb", None, vec![rule(conditions, action)]),
                chain("pre", Some((FoundHook::Prerouting, priority)), vec![jump]),
            ],
        }
    }

    fn said(found: &FoundRules) -> Vec<Difference> {
        overtaken(found, &config(), &["10.9.0.2".parse().unwrap()]).unwrap()
    }

    fn dnat() -> Action {
        Action::Unknown("dnat to 10.0.2.2".to_owned())
    }

    #[test]
    fn a_chain_that_was_registered_later_takes_what_ours_would_redirect() {
        for action in [dnat(), Action::Redirect(8080)] {
            let mut found = ours();
            found.tables.push(theirs(-100, tcp_8080(), action.clone()));
            let said = said(&found);
            let [Difference::Overtaken(rule)] = said.as_slice() else { panic!("{said:?}") };
            assert_eq!((rule.place.to_string().as_str(), rule.position), ("ip kv inb", 1));
            let mut before = ours();
            before.tables.insert(0, theirs(-100, tcp_8080(), action));
            assert_eq!(super::tests::said(&before), [], "written before ADD");
        }
    }

    #[test]
    fn priorities_go_before_age() {
        let mut lower = ours();
        lower.tables.insert(0, theirs(-101, tcp_8080(), dnat()));
        assert_eq!(said(&lower).len(), 1);
        let mut higher = ours();
        higher.tables.push(theirs(-99, tcp_8080(), dnat()));
        assert_eq!(said(&higher), []);
    }

    #[test]
    fn a_chain_of_the_same_table_counts_by_its_own_age() {
        let mut found = ours();
        let nat = found.tables.iter_mut().find(|table| table.name == "nat").unwrap();
        nat.chains.extend(theirs(-100, tcp_8080(), dnat()).chains);
        assert_eq!(said(&found).len(), 1);
        let mut found = ours();
        let nat = found.tables.iter_mut().find(|table| table.name == "nat").unwrap();
        nat.chains.splice(0..0, theirs(-100, tcp_8080(), dnat()).chains);
        assert_eq!(said(&found), []);
    }

    #[test]
    fn what_nobody_can_judge_may_take_packets_and_no_more() {
        let unknown = vec![Condition::Unknown("fib daddr type local".to_owned())];
        let mut found = ours();
        found.tables.push(theirs(-100, unknown, dnat()));
        assert!(matches!(said(&found).as_slice(), [Difference::Foreign(_)]), "{:?}", said(&found));
        let mut legacy = theirs(-100, tcp_8080(), dnat());
        legacy.family = FoundFamily::Legacy(Family::V4);
        let mut found = ours();
        found.tables.push(legacy);
        assert!(matches!(said(&found).as_slice(), [Difference::Foreign(_)]), "{:?}", said(&found));
    }

    #[test]
    fn chains_that_take_nothing_of_ours_are_no_difference() {
        let other_port = Match::DestinationPort(Sense::Is, Port::One(15008));
        let mut found = ours();
        let conditions = vec![Condition::Known(Match::Protocol(Protocol::Udp)), Condition::Known(other_port)];
        found.tables.push(theirs(-100, conditions, dnat()));
        found.tables.push(theirs(-100, Vec::new(), Action::Return));
        assert_eq!(said(&found), []);
        assert_eq!(said(&ours()), []);
        let mut alone = FoundRules::default();
        alone.tables.push(theirs(-100, tcp_8080(), dnat()));
        assert_eq!(said(&alone), [], "without ours there is nothing to take");
    }
}
