// SPDX-License-Identifier: Apache-2.0
//! `iptables-restore` text.

use std::fmt::{self, Write as _};

use crate::ruleset::{
    Chain, Family, Match, Owner, Port, Protocol, Rule, RulePlace, Ruleset, Sense, Table, Target,
};

/// The restore text of one family: tables that have rules, in alphabetical order; in each first its own chains, then its
/// rules in order of emission.
#[must_use]
pub fn restore(ruleset: &Ruleset, family: Family) -> String {
    let mut text = String::with_capacity(96 * ruleset.rules.len());
    for table in Table::ALL {
        let chains = own_chains(ruleset, family, table);
        if ruleset.rules_of(family, table).next().is_none() {
            continue;
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "* {}", table.name());
        for chain in chains {
            let _ = writeln!(text, "-N {}", chain.name());
        }
        for rule in ruleset.rules_of(family, table) {
            let _ = writeln!(text, "{}", Command(rule));
        }
        text.push_str("COMMIT\n");
    }
    text
}

/// The restore text that removes the rules of one family: of each table what leads to chains of ours, then those chains. Latest first, as
/// upstream's clean-up.
pub(super) fn removal(ruleset: &Ruleset, family: Family) -> String {
    let mut text = String::new();
    for table in Table::ALL {
        let mut rules: Vec<&Rule> = ruleset.rules_of(family, table).collect();
        if rules.is_empty() {
            continue;
        }
        rules.retain(|rule| rule.chain.is_builtin() || matches!(rule.target, Target::Jump(_)));
        // Writing to a String does not fail.
        let _ = writeln!(text, "* {}", table.name());
        for rule in rules.iter().rev() {
            let _ = writeln!(text, "-D {} {}", rule.chain.name(), Body(rule));
        }
        for chain in own_chains(ruleset, family, table).iter().rev() {
            let _ = writeln!(text, "-F {0}\n-X {0}", chain.name());
        }
        text.push_str("COMMIT\n");
    }
    text
}

/// The chains to make: first those that have rules, then those that are only jumped to, each in order of appearance.
fn own_chains(ruleset: &Ruleset, family: Family, table: Table) -> Vec<Chain> {
    let mut chains = Vec::with_capacity(8);
    let with_rules = ruleset.rules_of(family, table).map(|rule| rule.chain);
    let targets = ruleset.rules_of(family, table).filter_map(|rule| match rule.target {
        Target::Jump(chain) => Some(chain),
        _ => None,
    });
    for chain in with_rules.chain(targets) {
        if !chain.is_builtin() && !chains.contains(&chain) {
            chains.push(chain);
        }
    }
    chains
}

/// A rule as the command that adds it.
pub(super) struct Command<'a>(pub(super) &'a Rule);

impl fmt::Display for Command<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chain = self.0.chain.name();
        match self.0.place {
            RulePlace::Append => write!(out, "-A {chain} "),
            RulePlace::Insert(position) => write!(out, "-I {chain} {position} "),
        }?;
        Body(self.0).fmt(out)
    }
}

/// One condition.
pub(super) struct MatchText<'a>(pub(super) &'a Match);

impl fmt::Display for MatchText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_match(out, self.0)
    }
}

/// Target of a rule with these conditions.
pub(super) struct TargetText<'a>(pub(super) &'a Target, pub(super) &'a [Match]);

impl fmt::Display for TargetText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_target(out, self.0, self.1)
    }
}

/// A rule without its chain.
pub(super) struct Body<'a>(pub(super) &'a Rule);

impl fmt::Display for Body<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.0.matches {
            write_match(out, condition)?;
        }
        write_target(out, &self.0.target, &self.0.matches)
    }
}

fn not(sense: Sense) -> &'static str {
    match sense {
        Sense::Is => "",
        Sense::Not => "! ",
    }
}

/// Writes a condition and a space.
fn write_match(out: &mut fmt::Formatter<'_>, condition: &Match) -> fmt::Result {
    match condition {
        Match::InInterface(name) => write!(out, "-i {name} "),
        Match::OutInterface(name) => write!(out, "-o {name} "),
        // The table says it.
        Match::Family(_) => Ok(()),
        Match::Source(sense, cidr) => write!(out, "{}-s {cidr} ", not(*sense)),
        Match::Destination(sense, cidr) => write!(out, "{}-d {cidr} ", not(*sense)),
        Match::Protocol(name) | Match::PortProtocol(name) => write!(out, "-p {} ", name),
        Match::SourcePort(sense, port) => write_port(out, *sense, ("--sport", port)),
        Match::DestinationPort(sense, port) => write_port(out, *sense, ("--dport", port)),
        Match::DestinationPorts(sense, ports) => {
            write!(out, "-m multiport {}--dports", not(*sense))?;
            for (at, port) in ports.iter().enumerate() {
                write!(out, "{}{port}", if at == 0 { ' ' } else { ',' })?;
            }
            out.write_char(' ')
        }
        Match::Owner(sense, Owner::Uid(id)) => write!(out, "-m owner {}--uid-owner {id} ", not(*sense)),
        Match::Owner(sense, Owner::Gid(id)) => write!(out, "-m owner {}--gid-owner {id} ", not(*sense)),
        Match::Conntrack(states) => {
            write!(out, "-m conntrack --ctstate {} ", states.to_string().to_ascii_uppercase())
        }
        Match::Mark(sense, mark) => write!(out, "-m mark {}--mark {mark} ", not(*sense)),
        Match::ConnMark(mark) => write!(out, "-m connmark --mark {mark} "),
    }
}

fn write_port(out: &mut fmt::Formatter<'_>, sense: Sense, (option, port): (&str, &Port)) -> fmt::Result {
    write!(out, "{}{option} {port} ", not(sense))
}

fn write_target(out: &mut fmt::Formatter<'_>, target: &Target, conditions: &[Match]) -> fmt::Result {
    match target {
        Target::Accept => out.write_str("-j ACCEPT"),
        Target::Drop => out.write_str("-j DROP"),
        Target::Return => out.write_str("-j RETURN"),
        Target::Jump(chain) => write!(out, "-j {}", chain.name()),
        Target::Redirect { port } => {
            // iptables takes both spellings; upstream writes the singular for UDP, and a dry run is compared as text.
            let udp = conditions.contains(&Match::Protocol(Protocol::Udp));
            write!(out, "-j REDIRECT --to-port{} {port}", if udp { "" } else { "s" })
        }
        Target::SetMark(mark) => write!(out, "-j MARK --set-mark {mark}"),
        Target::Tproxy { mark, port } => {
            write!(out, "-j TPROXY --tproxy-mark {mark}/0xffffffff --on-port {port}")
        }
        Target::SaveMark => out.write_str("-j CONNMARK --save-mark"),
        Target::RestoreMark => out.write_str("-j CONNMARK --restore-mark"),
        Target::CtZone(zone) => write!(out, "-j CT --zone {zone}"),
    }
}
