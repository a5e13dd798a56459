// SPDX-License-Identifier: Apache-2.0
//! Named defects of rules ([`mod@protocol::mutant`]): what a finished ruleset becomes in a process that plays one. Defects of
//! other decisions stand where those are made.

use protocol::mutant;

use crate::config::{Config, DNS_PORT, OUTBOUND_MARK};
use crate::list::Selection;
use crate::ruleset::{
    Chain, Match, Origin, Owner, Place, Port, Protocol, Rule, Ruleset, Scope, Sense, Table, Target,
};

/// The rules that the played defect leaves or makes.
pub(crate) fn spoil(mut ruleset: Ruleset, config: &Config) -> Ruleset {
    if mutant!("no-ipv6") {
        ruleset.ipv6 = false;
    }
    if mutant!("redirect-udp") {
        let copies = ruleset.rules.iter().filter(|rule| rule.matches.contains(&TCP)).map(over_udp);
        let copies: Vec<Rule> = copies.collect();
        ruleset.rules.extend(copies);
    }
    if mutant!("exclusion-beside-list") && matches!(config.inbound_ports_include, Some(Selection::List(_))) {
        ruleset.rules.splice(0..0, config.inbound_ports_exclude.iter().map(excluded_inbound));
    }
    if mutant!("exclusion-after-inclusion") {
        // Stable: among themselves rules stay in order.
        ruleset.rules.sort_by_key(excludes_outbound);
    }
    if mutant!("dns-loops") {
        ruleset.rules.sort_by_key(|rule| rule.target != Target::Jump(Chain::IstioOutputDns));
    }
    if mutant!("self-call-too-late") {
        ruleset.rules.sort_by_key(|rule| leads_in(rule) && rule.chain == Chain::IstioOutput);
    }
    if mutant!("ports-swapped") {
        ruleset.rules.iter_mut().for_each(|rule| swap_ports(rule, config));
    }
    ruleset.rules.retain(|rule| !is_lost(rule, config) && !is_lost_special(rule));
    ruleset.rules.iter_mut().for_each(widen);
    ruleset
}

const TCP: Match = Match::Protocol(Protocol::Tcp);

/// The port of merged metrics, of health and of the proxy's own metrics.
const PROXY_PORTS: [u16; 3] = [15020, 15021, 15090];

fn over_udp(rule: &Rule) -> Rule {
    let mut copy = rule.clone();
    for condition in &mut copy.matches {
        if *condition == TCP {
            *condition = Match::Protocol(Protocol::Udp);
        }
    }
    copy
}

fn excluded_inbound(port: &Port) -> Rule {
    Rule {
        table: Table::Nat,
        chain: Chain::IstioInbound,
        scope: Scope::Both,
        place: Place::Append,
        matches: vec![TCP, Match::DestinationPort(Sense::Is, port.clone())],
        target: Target::Return,
        origin: Origin::ExcludeInboundPorts,
    }
}

fn excludes_outbound(rule: &Rule) -> bool {
    matches!(rule.origin, Origin::ExcludeOutboundPorts | Origin::ExcludeOutboundRanges)
}

/// Whether the rule sends the proxy's calls of its own pod to its inbound side.
fn leads_in(rule: &Rule) -> bool {
    matches!(rule.target, Target::Jump(Chain::IstioInRedirect) | Target::SetMark(OUTBOUND_MARK))
}

fn swap_ports(rule: &mut Rule, config: &Config) {
    if let Target::Redirect { port } | Target::Tproxy { port, .. } = &mut rule.target {
        let (outbound, inbound) = (config.proxy_port, config.inbound_capture_port);
        *port = match *port {
            port if port == outbound => inbound,
            port if port == inbound => outbound,
            other => other,
        };
    }
}

/// Whether the played defect loses the rule.
fn is_lost(rule: &Rule, config: &Config) -> bool {
    let inbound_port = |ports: &[u16]| {
        let named = |port: &u16| rule.matches.contains(&Match::DestinationPort(Sense::Is, Port::One(*port)));
        rule.chain == Chain::IstioInbound && rule.target == Target::Return && ports.iter().any(named)
    };
    let on_loopback = rule.matches.contains(&Match::OutInterface("lo".into()));
    let of_others = rule.matches.iter().any(|one| matches!(one, Match::Owner(Sense::Not, _)));
    let proxys = |with: fn(&Owner) -> bool| {
        rule.matches.iter().any(|one| matches!(one, Match::Owner(_, owner) if with(owner)))
    };
    let into = |chain| rule.chain.is_builtin() && rule.target == Target::Jump(chain);
    (mutant!("no-outbound-capture") && into(Chain::IstioOutput))
        || (mutant!("no-inbound-capture") && into(Chain::IstioInbound))
        || (mutant!("tunnel-captured") && inbound_port(&[config.inbound_tunnel_port]))
        || (mutant!("health-captured") && inbound_port(&PROXY_PORTS))
        || (mutant!("proxy-uid-captured") && proxys(|owner| matches!(owner, Owner::Uid(_))))
        || (mutant!("proxy-gid-captured") && proxys(|owner| matches!(owner, Owner::Gid(_))))
        || (mutant!("proxy-captured") && proxys(|_| true))
        || (mutant!("loopback-captured")
            && (rule.origin == Origin::Loopback
                || (on_loopback && of_others && rule.target == Target::Return)))
        || (mutant!("no-self-call") && on_loopback && leads_in(rule))
}

/// Whether the played defect loses the rule, which few pods have.
fn is_lost_special(rule: &Rule) -> bool {
    let of_guests = rule.chain == Chain::Prerouting && rule.target == Target::Jump(Chain::IstioRedirect);
    (mutant!("exclusion-ignored") && excludes(rule))
        || (mutant!("invalid-not-dropped") && rule.origin == Origin::DropInvalid)
        || (mutant!("guest-not-captured") && of_guests)
        || (mutant!("owner-groups-ignored") && rule.origin == Origin::OwnerGroups)
        || (mutant!("dns-not-captured") && rule.target == Target::Redirect { port: DNS_PORT })
        || (mutant!("zone-missing") && matches!(rule.target, Target::CtZone(_)))
        || (mutant!("connmark-lost") && matches!(rule.target, Target::SaveMark | Target::RestoreMark))
}

/// Whether the rule leaves something alone that somebody asked to be left alone.
fn excludes(rule: &Rule) -> bool {
    matches!(
        rule.origin,
        Origin::ExcludeInboundPorts
            | Origin::ExcludeOutboundPorts
            | Origin::ExcludeOutboundRanges
            | Origin::ExcludeInterfaces
    )
}

/// Takes conditions from a rule, if the played defect does.
fn widen(rule: &mut Rule) {
    if mutant!("exclusion-too-wide") && (excludes(rule) || rule.origin == Origin::OwnerGroups) {
        rule.matches.clear();
    }
    if mutant!("every-port-is-dns") && rule.origin == Origin::Dns {
        rule.matches.retain(|one| !matches!(one, Match::DestinationPort(Sense::Is, Port::One(53))));
    }
    if mutant!("self-call-on-loopback") && rule.target == Target::Jump(Chain::IstioInRedirect) {
        rule.matches.retain(|one| !matches!(one, Match::Destination(Sense::Not, _)));
    }
}
