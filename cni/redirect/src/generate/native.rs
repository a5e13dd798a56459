// SPDX-License-Identifier: Apache-2.0
//! Adaptation of each emitted rule to the native dialect: another order of conditions, other semantics of an insert,
//! and no chain without rules. Differences of a single step are told in that step.

use crate::ruleset::{Chain, Family, Match, Origin, Rule, RulePlace, Scope, Table, Target};

/// `rule` as the native dialect has it, in a chain with so many rules `there` already.
pub(super) fn rule(mut rule: Rule, there: usize) -> Rule {
    // Rules in raw keep the order of iptables: the port comes before the address.
    if rule.table != Table::Raw {
        rule.matches.sort_by_key(rank);
    }
    if let RulePlace::Insert(position) = rule.place
        && usize::from(position) > there
    {
        rule.place = RulePlace::Append;
    }
    rule
}

/// From the outside of a packet to the inside, and its owner last.
fn rank(condition: &Match) -> u8 {
    match condition {
        Match::Family(_) | Match::InInterface(_) | Match::OutInterface(_) => 0,
        Match::Protocol(_) => 1,
        Match::Source(..) | Match::Destination(..) => 2,
        Match::Conntrack(_) | Match::Mark(..) | Match::ConnMark(_) => 3,
        Match::PortProtocol(_) => 4,
        Match::SourcePort(..) | Match::DestinationPort(..) | Match::DestinationPorts(..) => 5,
        Match::Owner(..) => 6,
    }
}

/// A table of family `inet` sees both families. Where only IPv4 is redirected, IPv6 goes past each chain that the kernel calls, before
/// anything else in it is looked at: hence emitted last, and inserted in front.
pub(super) fn past_ipv6(rules: &mut Vec<Rule>) {
    let mut base: Vec<(Table, Chain)> = Vec::with_capacity(6);
    for rule in rules.iter().filter(|rule| rule.chain.is_builtin()) {
        if !base.contains(&(rule.table, rule.chain)) {
            base.push((rule.table, rule.chain));
        }
    }
    rules.extend(base.into_iter().map(|(table, chain)| Rule {
        table,
        chain,
        scope: Scope::Both,
        place: RulePlace::Insert(1),
        matches: vec![Match::Family(Family::V6)],
        target: Target::Return,
        origin: Origin::OtherFamily,
    }));
}

/// A chain without rules does not exist, and one jump to it would fail the whole transaction. That happens where DNS is
/// captured by server and no server is of an enabled family.
pub(super) fn without_dangling_jumps(mut rules: Vec<Rule>) -> Vec<Rule> {
    let mut filled: Vec<(Table, Chain)> = Vec::with_capacity(12);
    for rule in &rules {
        if !filled.contains(&(rule.table, rule.chain)) {
            filled.push((rule.table, rule.chain));
        }
    }
    rules.retain(|rule| match rule.target {
        Target::Jump(chain) => filled.contains(&(rule.table, chain)),
        _ => true,
    });
    rules
}
