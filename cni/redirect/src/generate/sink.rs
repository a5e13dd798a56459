// SPDX-License-Identifier: Apache-2.0
//! Where the steps put their rules.

use super::native;
use crate::config::Config;
use crate::host::{INBOUND_V4, INBOUND_V6, LOOPBACK_V6};
use crate::ruleset::{
    Chain, Cidr, Dialect, Family, Match, Origin, Protocol, Rule, RulePlace, Scope, Table, Target,
};

/// A chain in a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct At(pub(super) Table, pub(super) Chain);

impl At {
    /// This chain, for rules that exist for `origin`.
    pub(super) const fn because(self, origin: Origin) -> Spot {
        Spot { at: self, origin }
    }
}

/// A chain and the setting that rules go there for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    at: At,
    origin: Origin,
}

/// Collects rules, and knows which families are written and which addresses mean the same in each.
pub(super) struct Sink {
    rules: Vec<Rule>,
    /// Number of rules in each chain so far. There are a dozen chains.
    filled: Vec<((Table, Chain), usize)>,
    dialect: Dialect,
    ipv6: bool,
    loopback: Cidr,
}

impl Sink {
    pub(super) fn new(config: &Config) -> Self {
        // A default sidecar has 20 rules, with IPv6 24; TPROXY makes them 32 and 40.
        Self {
            rules: Vec::with_capacity(40),
            filled: Vec::new(),
            dialect: config.dialect,
            ipv6: config.ipv6,
            loopback: config.loopback,
        }
    }

    pub(super) fn into_rules(self) -> Vec<Rule> {
        match self.dialect {
            Dialect::Iptables => self.rules,
            Dialect::Nft => {
                let mut rules = native::without_dangling_jumps(self.rules);
                if !self.ipv6 {
                    native::past_ipv6(&mut rules);
                }
                rules
            }
        }
    }

    /// Whose conventions the rules follow. A step asks only where it differs by more than spelling and order.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The condition for the protocol of a port that follows.
    pub(super) fn port_protocol(&self, protocol: Protocol) -> Match {
        match self.dialect {
            Dialect::Iptables => Match::Protocol(protocol),
            Dialect::Nft => Match::PortProtocol(protocol),
        }
    }

    fn push(&mut self, spot: Spot, scope: Scope, place: RulePlace, matches: Vec<Match>, target: Target) {
        if scope == Scope::Only(Family::V6) && !self.ipv6 {
            return;
        }
        let Spot { at: At(table, chain), origin } = spot;
        let rule = Rule { table, chain, scope, place, matches, target, origin };
        let rule = match self.dialect {
            Dialect::Iptables => rule,
            Dialect::Nft => native::rule(rule, self.there((table, chain))),
        };
        self.rules.push(rule);
    }

    /// Counts one more rule; returns the count before.
    fn there(&mut self, at: (Table, Chain)) -> usize {
        match self.filled.iter_mut().find(|(filled, _)| *filled == at) {
            Some((_, there)) => {
                *there += 1;
                *there - 1
            }
            None => {
                self.filled.push((at, 1));
                0
            }
        }
    }

    /// Behind what is there, in each family.
    pub(super) fn append(&mut self, spot: Spot, matches: Vec<Match>, target: Target) {
        self.push(spot, Scope::Both, RulePlace::Append, matches, target);
    }

    /// Behind what is there, in one family.
    pub(super) fn append_only(&mut self, spot: Spot, family: Family, matches: Vec<Match>, target: Target) {
        self.push(spot, Scope::Only(family), RulePlace::Append, matches, target);
    }

    /// At a 1-based position, in each family.
    pub(super) fn insert(&mut self, spot: Spot, position: u16, matches: Vec<Match>, target: Target) {
        self.push(spot, Scope::Both, RulePlace::Insert(position), matches, target);
    }

    /// At a 1-based position, in one family.
    pub(super) fn insert_only(
        &mut self,
        spot: Spot,
        position: Insertion,
        matches: Vec<Match>,
        target: Target,
    ) {
        self.push(spot, Scope::Only(position.family), RulePlace::Insert(position.at), matches, target);
    }

    /// Behind what is there, with each family's loopback prefix.
    pub(super) fn append_loopback(
        &mut self,
        spot: Spot,
        matches: impl Fn(Cidr) -> Vec<Match>,
        target: &Target,
    ) {
        self.append_pair(spot, (self.loopback, LOOPBACK_V6), matches, target);
    }

    /// Behind what is there, with each family's address of the proxy's own inbound connections.
    pub(super) fn append_inbound(
        &mut self,
        spot: Spot,
        matches: impl Fn(Cidr) -> Vec<Match>,
        target: &Target,
    ) {
        self.append_pair(spot, (INBOUND_V4, INBOUND_V6), matches, target);
    }

    fn append_pair(
        &mut self,
        spot: Spot,
        (v4, v6): (Cidr, Cidr),
        matches: impl Fn(Cidr) -> Vec<Match>,
        target: &Target,
    ) {
        self.append_only(spot, Family::V4, matches(v4), target.clone());
        self.append_only(spot, Family::V6, matches(v6), target.clone());
    }
}

/// A position in one family's chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Insertion {
    /// 1-based.
    pub(super) at: u16,
    /// The family.
    pub(super) family: Family,
}
