// SPDX-License-Identifier: Apache-2.0
//! Rules as upstream 1.20 to 1.24 wrote them for a configuration. Since 1.25 a jump to `ISTIO_OUTPUT` is for every protocol, and DNS has
//! chains of its own.

use redirect::config::{Config, Dns};
use redirect::generate::ruleset;
use redirect::list::Selection;
use redirect::ruleset::{
    Chain, Dialect, Match, Origin, Owner, Port, Protocol, Rule, RulePlace, Ruleset, Scope, Sense, Table,
    Target,
};

/// The rules of those releases.
pub(crate) fn former(config: &Config) -> Ruleset {
    let config = Config { dialect: Dialect::Iptables, ..config.clone() };
    let mut former = ruleset(&config).unwrap();
    let (mut rules, mut last) = (Vec::new(), Vec::new());
    if config.dns != Dns::Off {
        last.extend(exempt(&config));
    }
    for mut rule in former.rules.drain(..) {
        let is_udp = rule.matches.contains(&Match::Protocol(Protocol::Udp));
        match (rule.table, rule.chain, &rule.target) {
            (Table::Nat, Chain::Output, Target::Jump(Chain::IstioOutput)) => {
                rule.matches.push(Match::Protocol(Protocol::Tcp));
            }
            (_, _, Target::Jump(Chain::IstioOutputDns)) | (Table::Raw, _, Target::Jump(_)) => continue,
            (Table::Nat, Chain::IstioOutputDns, _) if is_udp => {
                rule.chain = Chain::Output;
                last.push(rule);
                continue;
            }
            (Table::Nat, Chain::IstioOutputDns, _) => rule.chain = Chain::IstioOutput,
            (Table::Raw, Chain::IstioOutputDns, _) => rule.chain = Chain::Output,
            (Table::Raw, Chain::IstioInbound, _) => rule.chain = Chain::Prerouting,
            _ if rule.origin == Origin::ExcludeOutboundPorts && is_udp => continue,
            _ => {}
        }
        rules.push(rule);
    }
    rules.append(&mut last);
    Ruleset { rules, ..former }
}

/// What DNS capture leaves alone: the proxy's queries, and those of groups whose traffic is not captured.
fn exempt(config: &Config) -> impl Iterator<Item = Rule> {
    let uids = config.proxy_uids.iter().cloned().map(Owner::Uid);
    let gids = config.proxy_gids.iter().cloned().map(Owner::Gid);
    let one = |owner| vec![Match::Owner(Sense::Is, owner)];
    let mut exempt: Vec<Vec<Match>> = uids.chain(gids).map(one).collect();
    match &config.owner_groups_include {
        Selection::All => exempt.extend(config.owner_groups_exclude.iter().cloned().map(Owner::Gid).map(one)),
        Selection::List(groups) => {
            let none_of = |group| Match::Owner(Sense::Not, Owner::Gid(group));
            exempt.push(groups.iter().cloned().map(none_of).collect());
        }
    }
    exempt.into_iter().map(|owners| {
        let query = [Match::Protocol(Protocol::Udp), Match::DestinationPort(Sense::Is, Port::One(53))];
        Rule {
            table: Table::Nat,
            chain: Chain::Output,
            scope: Scope::Both,
            place: RulePlace::Append,
            matches: query.into_iter().chain(owners).collect(),
            target: Target::Return,
            origin: Origin::Dns,
        }
    })
}
