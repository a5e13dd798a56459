// SPDX-License-Identifier: Apache-2.0
//! The nft commands of a native transaction.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::ruleset::{
    BaseChain, Chain, Cidr, Family, Match, Owner, Port, Rule, RulePlace, Ruleset, Scope, Sense, Table, Target,
};

/// The commands that make a native ruleset, one a line: of each table that has a rule the table, emptied, its chains that
/// have rules, and its rules in order of emission.
#[must_use]
pub fn native(ruleset: &Ruleset) -> String {
    let mut text = String::with_capacity(128 * ruleset.rules.len());
    let chains = ruleset.inet_chains();
    for table in Table::NATIVE {
        let mut chains = chains.iter().filter(|at| at.table == table).peekable();
        if chains.peek().is_none() {
            continue;
        }
        let name = table.native_name();
        // Writing to a String does not fail.
        let _ = write!(text, "add table inet {name}\nflush table inet {name}\n");
        for at in chains {
            let _ = writeln!(text, "add chain inet {name} {}", Definition(table, at.chain));
        }
        for rule in ruleset.inet_rules_of(table) {
            let _ = writeln!(text, "{}", Command(rule));
        }
    }
    text
}

/// The commands that remove the native tables. What is not there cannot be deleted, so each is added first.
pub(super) fn removal() -> String {
    let commands = [Table::Nat, Table::Mangle, Table::Raw].map(|table| {
        let name = table.native_name();
        format!("add table inet {name}\ndelete table inet {name}\n")
    });
    commands.concat()
}

/// A chain's name and, for a base chain, its hook.
struct Definition(Table, Chain);

impl fmt::Display for Definition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.1.native_name();
        out.write_str(name)?;
        match BaseChain::of(self.0, self.1) {
            None => Ok(()),
            Some(BaseChain { kind, priority }) => {
                write!(out, " {{ type {} hook {name} priority {priority} ; }}", kind.name())
            }
        }
    }
}

/// A rule as the command that adds it.
pub(super) struct Command<'a>(pub(super) &'a Rule);

impl fmt::Display for Command<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, chain) = (self.0.table.native_name(), self.0.chain.native_name());
        match self.0.place {
            RulePlace::Append => write!(out, "add rule inet {table} {chain} "),
            RulePlace::Insert(position) => {
                write!(out, "insert rule inet {table} {chain} index {} ", position.saturating_sub(1))
            }
        }?;
        Body(self.0).fmt(out)
    }
}

/// A rule without its chain.
pub(super) struct Body<'a>(pub(super) &'a Rule);

impl fmt::Display for Body<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for condition in &self.0.matches {
            write_match(out, condition, self.0)?;
        }
        write_target(out, self.0)
    }
}

fn nfproto(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn not(sense: Sense) -> &'static str {
    match sense {
        Sense::Is => "",
        Sense::Not => "!= ",
    }
}

/// Writes a condition and a space.
fn write_match(out: &mut fmt::Formatter<'_>, condition: &Match, rule: &Rule) -> fmt::Result {
    match condition {
        Match::InInterface(name) => write!(out, "iifname {name} "),
        Match::OutInterface(name) => write!(out, "oifname {name} "),
        Match::Family(family) => write!(out, "meta nfproto {} ", nfproto(*family)),
        Match::Source(sense, cidr) => write!(out, "{} saddr {}{cidr} ", ip(cidr), not(*sense)),
        Match::Destination(sense, cidr) => write!(out, "{} daddr {}{cidr} ", ip(cidr), not(*sense)),
        Match::Protocol(name) => write!(out, "meta l4proto {} ", name),
        // The port says it.
        Match::PortProtocol(_) => Ok(()),
        Match::SourcePort(sense, port) => {
            write!(out, "{} sport {}{} ", protocol(rule), not(*sense), Ports(port))
        }
        Match::DestinationPort(sense, port) => {
            write!(out, "{} dport {}{} ", protocol(rule), not(*sense), Ports(port))
        }
        Match::DestinationPorts(sense, ports) => {
            write!(out, "{} dport {}{{ ", protocol(rule), not(*sense))?;
            for (at, port) in ports.iter().enumerate() {
                write!(out, "{}{port}", if at == 0 { "" } else { ", " })?;
            }
            out.write_str(" } ")
        }
        // nft reads both spellings; upstream writes the long one in raw, and a dry run is compared as text.
        Match::Owner(sense, owner) => {
            let meta = if rule.table == Table::Raw { "meta " } else { "" };
            match owner {
                Owner::Uid(id) => write!(out, "{meta}skuid {}{id} ", not(*sense)),
                Owner::Gid(id) => write!(out, "{meta}skgid {}{id} ", not(*sense)),
            }
        }
        Match::Conntrack(states) => write!(out, "ct state {states} "),
        Match::Mark(sense, mark) => write!(out, "mark {}{mark} ", not(*sense)),
        Match::ConnMark(mark) => write!(out, "ct mark {mark} "),
    }
}

fn ip(cidr: &Cidr) -> &'static str {
    match cidr.family() {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// The protocol whose ports a rule names.
fn protocol(rule: &Rule) -> Cow<'static, str> {
    let named = rule.matches.iter().find_map(|condition| match condition {
        Match::Protocol(protocol) | Match::PortProtocol(protocol) => Some(*protocol),
        _ => None,
    });
    named.map_or(Cow::Borrowed("th"), |named| named.to_string().into())
}

/// A range, half of one as well, has a dash here; the colon is iptables' own.
struct Ports<'a>(&'a Port);

impl fmt::Display for Ports<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.0.bounds()) {
            (Port::Range(..) | Port::Verbatim(_), Some((low, high))) => write!(out, "{low}-{high}"),
            (port, _) => port.fmt(out),
        }
    }
}

fn write_target(out: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    match &rule.target {
        Target::Accept => out.write_str("counter accept"),
        Target::Drop => out.write_str("counter drop"),
        Target::Return => out.write_str("counter return"),
        Target::Jump(chain) => write!(out, "counter jump {}", chain.native_name()),
        Target::Redirect { port } => write!(out, "counter redirect to :{port}"),
        Target::SetMark(mark) => write!(out, "counter meta mark set {mark}"),
        Target::Tproxy { mark, port } => {
            let family = match rule.scope {
                Scope::Only(Family::V4) => "ip ",
                Scope::Only(Family::V6) => "ip6 ",
                Scope::Both => "",
            };
            write!(out, "tproxy {family}to :{port} meta mark set {mark} counter accept")
        }
        Target::SaveMark => out.write_str("counter ct mark set mark"),
        Target::RestoreMark => out.write_str("counter meta mark set ct mark"),
        Target::CtZone(zone) => write!(out, "counter ct zone set {zone}"),
    }
}
