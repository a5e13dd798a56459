// SPDX-License-Identifier: Apache-2.0
//! Defects of rules, for the entries of `redirection.yaml`: functions from a finished ruleset to what the defect makes of it.

use crate::config::{Config, DNS_PORT, OUTBOUND_MARK};
use crate::list::Selection;
use crate::ruleset::{
    Chain, Match, Origin, Owner, Port, Protocol, Rule, RulePlace, Ruleset, Scope, Sense, Table, Target,
};

const TCP: Match = Match::Protocol(Protocol::Tcp);

/// Merged metrics, health, and the proxy's own metrics.
const PROXY_PORTS: [u16; 3] = [15020, 15021, 15090];

/// The ruleset without the rules that `is_lost` says.
pub(crate) fn without(mut ruleset: Ruleset, is_lost: impl Fn(&Rule) -> bool) -> Ruleset {
    ruleset.rules.retain(|rule| !is_lost(rule));
    ruleset
}

/// The ruleset without the rules that exist for one of these settings.
pub(crate) fn without_origins(ruleset: Ruleset, origins: &[Origin]) -> Ruleset {
    without(ruleset, |rule| origins.contains(&rule.origin))
}

pub(crate) fn udp_as_tcp(mut ruleset: Ruleset) -> Ruleset {
    let copies = ruleset.rules.iter().filter(|rule| rule.matches.contains(&TCP)).map(over_udp);
    let copies: Vec<Rule> = copies.collect();
    ruleset.rules.extend(copies);
    ruleset
}

fn over_udp(rule: &Rule) -> Rule {
    let mut copy = rule.clone();
    for condition in &mut copy.matches {
        if *condition == TCP {
            *condition = Match::Protocol(Protocol::Udp);
        }
    }
    copy
}

pub(crate) fn exclusions_beside_list(mut ruleset: Ruleset, config: &Config) -> Ruleset {
    if matches!(config.inbound_ports_include, Some(Selection::List(_))) {
        ruleset.rules.splice(0..0, config.inbound_ports_exclude.iter().map(excluded_inbound));
    }
    ruleset
}

fn excluded_inbound(port: &Port) -> Rule {
    Rule {
        table: Table::Nat,
        chain: Chain::IstioInbound,
        scope: Scope::Both,
        place: RulePlace::Append,
        matches: vec![TCP, Match::DestinationPort(Sense::Is, port.clone())],
        target: Target::Return,
        origin: Origin::ExcludeInboundPorts,
    }
}

/// Rules that `is_late` says after all others. Sorting is stable: among themselves they stay in order.
pub(crate) fn last(mut ruleset: Ruleset, is_late: impl Fn(&Rule) -> bool) -> Ruleset {
    ruleset.rules.sort_by_key(is_late);
    ruleset
}

pub(crate) fn outbound_exclusions_last(ruleset: Ruleset) -> Ruleset {
    let outbound = [Origin::ExcludeOutboundPorts, Origin::ExcludeOutboundRanges];
    last(ruleset, |rule| outbound.contains(&rule.origin))
}

pub(crate) fn ports_swapped(mut ruleset: Ruleset, config: &Config) -> Ruleset {
    for rule in &mut ruleset.rules {
        if let Target::Redirect { port } | Target::Tproxy { port, .. } = &mut rule.target {
            let (outbound, inbound) = (config.proxy_port, config.inbound_capture_port);
            *port = match *port {
                port if port == outbound => inbound,
                port if port == inbound => outbound,
                other => other,
            };
        }
    }
    ruleset
}

/// The ruleset without the jump from a built-in chain to one of ours.
pub(crate) fn without_entry(ruleset: Ruleset, chain: Chain) -> Ruleset {
    without(ruleset, |rule| rule.chain.is_builtin() && rule.target == Target::Jump(chain))
}

/// The ruleset without what leaves these inbound ports alone.
pub(crate) fn inbound_captured(ruleset: Ruleset, ports: &[u16]) -> Ruleset {
    without(ruleset, |rule| {
        let named = |port: &u16| rule.matches.contains(&Match::DestinationPort(Sense::Is, Port::One(*port)));
        rule.chain == Chain::IstioInbound && rule.target == Target::Return && ports.iter().any(named)
    })
}

pub(crate) fn health_captured(ruleset: Ruleset) -> Ruleset {
    inbound_captured(ruleset, &PROXY_PORTS)
}

/// The ruleset without rules that ask for such an owner.
pub(crate) fn owners_forgotten(ruleset: Ruleset, is_forgotten: fn(&Owner) -> bool) -> Ruleset {
    without(ruleset, |rule| {
        rule.matches.iter().any(|one| matches!(one, Match::Owner(_, owner) if is_forgotten(owner)))
    })
}

fn is_on_loopback(rule: &Rule) -> bool {
    rule.matches.contains(&Match::OutInterface("lo".into()))
}

pub(crate) fn loopback_captured(ruleset: Ruleset) -> Ruleset {
    without(ruleset, |rule| {
        let of_others = rule.matches.iter().any(|one| matches!(one, Match::Owner(Sense::Not, _)));
        rule.origin == Origin::Loopback
            || (is_on_loopback(rule) && of_others && rule.target == Target::Return)
    })
}

/// True if the rule sends the proxy's calls of its own pod to its inbound side.
fn leads_in(rule: &Rule) -> bool {
    matches!(rule.target, Target::Jump(Chain::IstioInRedirect) | Target::SetMark(OUTBOUND_MARK))
}

pub(crate) fn without_self_call(ruleset: Ruleset) -> Ruleset {
    without(ruleset, |rule| is_on_loopback(rule) && leads_in(rule))
}

pub(crate) fn self_call_last(ruleset: Ruleset) -> Ruleset {
    last(ruleset, |rule| leads_in(rule) && rule.chain == Chain::IstioOutput)
}

pub(crate) fn self_call_on_loopback(ruleset: Ruleset) -> Ruleset {
    widened(
        ruleset,
        |rule| rule.target == Target::Jump(Chain::IstioInRedirect),
        |one| matches!(one, Match::Destination(Sense::Not, _)),
    )
}

pub(crate) fn every_port_is_dns(ruleset: Ruleset) -> Ruleset {
    widened(
        ruleset,
        |rule| rule.origin == Origin::Dns,
        |one| matches!(one, Match::DestinationPort(Sense::Is, Port::One(53))),
    )
}

/// Rules of exclusions.
pub(crate) const EXCLUSIONS: [Origin; 4] = [
    Origin::ExcludeInboundPorts,
    Origin::ExcludeOutboundPorts,
    Origin::ExcludeOutboundRanges,
    Origin::ExcludeInterfaces,
];

pub(crate) fn exclusions_too_wide(ruleset: Ruleset) -> Ruleset {
    let is_wide = |rule: &Rule| EXCLUSIONS.contains(&rule.origin) || rule.origin == Origin::OwnerGroups;
    widened(ruleset, is_wide, |_| true)
}

/// Takes the conditions that `is_lost` says from the rules that `is_wide` says.
fn widened(
    mut ruleset: Ruleset,
    is_wide: impl Fn(&Rule) -> bool,
    is_lost: impl Fn(&Match) -> bool,
) -> Ruleset {
    for rule in ruleset.rules.iter_mut().filter(|rule| is_wide(rule)) {
        rule.matches.retain(|one| !is_lost(one));
    }
    ruleset
}

pub(crate) fn guests_not_captured(ruleset: Ruleset) -> Ruleset {
    without(ruleset, |rule| {
        rule.chain == Chain::Prerouting && rule.target == Target::Jump(Chain::IstioRedirect)
    })
}

pub(crate) fn dns_not_captured(ruleset: Ruleset) -> Ruleset {
    without(ruleset, |rule| rule.target == Target::Redirect { port: DNS_PORT })
}

pub(crate) fn dns_first(ruleset: Ruleset) -> Ruleset {
    last(ruleset, |rule| rule.target != Target::Jump(Chain::IstioOutputDns))
}
