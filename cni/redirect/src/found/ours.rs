// SPDX-License-Identifier: Apache-2.0
//! Recognition of found rules that are ours: this version's, an older one's, upstream's, or part of any of them.
//!
//! Ours are, in tables `filter`, `mangle`, `nat` and `raw` of iptables, in nf_tables or legacy:
//!
//! * every chain whose name begins with `ISTIO_`, known here or not, with all that is in it;
//! * in the built-in chains
//!   * every rule that jumps to such a chain;
//!   * every rule that is a wanted rule of the same chain (so that half a rule set without any chain is recognised);
//!   * the DNS rules that upstream 1.20 to 1.24 wrote there (`dns`);
//!   * in `mangle`, the TPROXY rules on marks 1337 and 1338, on the wanted marks or on those that our chains name: saving and
//!     restoring the connection's mark, `-o lo -m mark … -j RETURN`, and marking what an owner sends through `lo`;
//!   * `-i X -j RETURN` in `PREROUTING` (a virtual interface; with no range to redirect it has no jump), and `-o X -j RETURN` in
//!     `OUTPUT` beside it (an excluded interface), if they were made together with our chains: such rules are also written by hand,
//!     before ours or behind them. Listings without handles do not say when a rule was made: there, it is ours beside a jump of
//!     ours for `-i X`, and another that is no longer wanted cannot be told from somebody else's, and stays;
//!
//! and the tables `inet istio-proxy-nat`, `-mangle`, `-raw` and `-filter` with all that is in them, whoever put it there (upstream
//! empties them, too). Everything else belongs to others: one of these forms alone, rules in chains of other names even if they jump
//! to us, upstream's guard rails (plain `-p tcp -j DROP` rules in `filter`, which could be anybody's).

mod dns;

use std::collections::BTreeSet;
use std::ops::Range;

use crate::ruleset::{Match, Rule, Sense, Table, Target};

use super::same::{does_something, same};
use super::{Action, Condition, FoundChain, FoundFamily, FoundHook, FoundRule, FoundRules, FoundTable};
use dns::Dns;

/// Prefix of our chains' names.
const PREFIX: &str = "ISTIO_";
/// Marks that upstream uses: inbound and outbound TPROXY.
const MARKS: [u32; 2] = [1337, 1338];

impl FoundRules {
    /// The table of that family and name.
    #[must_use]
    pub fn find(&self, family: FoundFamily, name: &str) -> Option<&FoundTable> {
        self.tables.iter().find(|table| table.family == family && table.name == name)
    }

    /// The rules of ours alone: chains of ours, and of the built-in chains what leads to them.
    #[must_use]
    pub fn only_ours(&self) -> Self {
        let tables = self.tables.iter().filter(|table| table.holds_ours()).cloned();
        let tables = tables.map(|mut table| {
            if !table.is_native() {
                for chain in table.chains.iter_mut().filter(|chain| !chain.is_ours()) {
                    chain.rules.retain(FoundRule::leads_to_ours);
                }
            }
            table
        });
        Self { tables: tables.collect() }
    }

    /// True if there are redirection rules of any version and any back end.
    #[must_use]
    pub fn hold_ours(&self) -> bool {
        self.tables.iter().any(FoundTable::holds_ours)
    }
}

impl FoundTable {
    /// The chain of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&FoundChain> {
        self.chains.iter().find(|chain| chain.name == name)
    }

    /// True for a table of the native back end, which is ours as a whole.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.family == FoundFamily::Inet && Table::ALL.iter().any(|known| self.name == known.native_name())
    }

    pub(crate) fn is_of_iptables(&self) -> bool {
        self.family != FoundFamily::Inet && Table::ALL.iter().any(|known| self.name == known.name())
    }

    /// True for a chain of ours that is no base chain.
    #[must_use]
    pub fn owns(&self, chain: &FoundChain) -> bool {
        chain.entry.is_none() && (self.is_native() || (self.is_of_iptables() && chain.is_ours()))
    }

    /// True if a chain of ours has a rule, or a rule jumps to such a chain.
    #[must_use]
    pub fn holds_ours(&self) -> bool {
        let holds = |chain: &FoundChain| {
            let own = self.is_native() || chain.is_ours();
            chain.rules.iter().any(|rule| own || rule.leads_to_ours())
        };
        (self.is_native() || self.is_of_iptables()) && self.chains.iter().any(holds)
    }

    /// True if a built-in chain holds DNS rules of ours: those stand without a chain of ours.
    #[must_use]
    pub fn holds_dns(&self) -> bool {
        let dns = Dns::of(self, &[]);
        self.is_of_iptables()
            && self.chains.iter().any(|chain| chain.rules.iter().any(|rule| dns.has(chain, rule)))
    }

    /// True if a rule in a chain of others leads to the chain, which then cannot be deleted. (In built-in chains every such jump is ours.)
    #[must_use]
    pub fn is_held(&self, name: &str) -> bool {
        let of_others = self.chains.iter().filter(|chain| !chain.is_ours() && !chain.is_built_in());
        of_others.flat_map(|chain| &chain.rules).any(|rule| rule.leads_to() == Some(name))
    }
}

impl FoundChain {
    /// True if its name has our prefix.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.name.starts_with(PREFIX)
    }

    /// True for iptables' built-in chains.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        FoundHook::NAMES.iter().any(|(_, name)| self.name == *name)
    }
}

impl FoundRule {
    /// The chain that it jumps or goes to.
    #[must_use]
    pub fn leads_to(&self) -> Option<&str> {
        self.actions.iter().find_map(|action| match action {
            Action::Jump(chain) | Action::Goto(chain) => Some(chain.as_str()),
            _ => None,
        })
    }

    /// True if it jumps or goes to a chain of ours.
    #[must_use]
    pub fn leads_to_ours(&self) -> bool {
        self.leads_to().is_some_and(|chain| chain.starts_with(PREFIX))
    }

    fn known(&self) -> impl Iterator<Item = &Match> {
        self.conditions.iter().filter_map(Condition::known)
    }

    fn is_on_loopback(&self) -> bool {
        self.known().any(|known| matches!(known, Match::OutInterface(name) if name == "lo"))
    }

    /// Its condition, if it has no other and returns.
    fn returns_on(&self) -> Option<&Match> {
        match (self.conditions.as_slice(), self.actions.as_slice()) {
            ([Condition::Known(only)], [Action::Return]) => Some(only),
            _ => None,
        }
    }
}

/// Ownership of rules in the built-in chains of a table.
pub struct Ours<'a> {
    family: FoundFamily,
    is_mangle: bool,
    marks: Vec<u32>,
    interfaces: Interfaces<'a>,
    dns: Dns<'a>,
}

impl<'a> Ours<'a> {
    /// In `table`, where `wanted` should be.
    #[must_use]
    pub fn of(table: &'a FoundTable, wanted: &'a [Rule]) -> Self {
        let dns = Dns::of(table, wanted);
        let wanted = wanted.iter().flat_map(|rule| {
            let set = match rule.target {
                Target::SetMark(mark) | Target::Tproxy { mark, .. } => Some(mark),
                _ => None,
            };
            rule.matches.iter().filter_map(asked_mark).chain(set)
        });
        let named = table.chains.iter().filter(|chain| chain.is_ours()).flat_map(|chain| &chain.rules);
        let named = named.flat_map(|rule| {
            let set = rule.actions.iter().filter_map(|action| match action {
                Action::SetMark(mark) => Some(*mark),
                _ => None,
            });
            rule.known().filter_map(asked_mark).chain(set)
        });
        Self {
            family: table.family,
            is_mangle: table.name == Table::Mangle.name(),
            marks: MARKS.into_iter().chain(wanted).chain(named).collect(),
            interfaces: Interfaces::of(table),
            dns,
        }
    }

    /// True if a rule is ours in a built-in chain that should hold `wanted`.
    #[must_use]
    pub fn has(&self, chain: &FoundChain, rule: &FoundRule, wanted: &[&Rule]) -> bool {
        // The scan comes last: there are as many rules for excluded interfaces as the annotation names.
        rule.leads_to_ours()
            || self.interfaces.are_of(chain, rule)
            || (self.is_mangle && self.is_tproxy(chain, rule))
            || self.dns.has(chain, rule)
            || wanted.iter().any(|wanted| same(wanted, rule, self.family))
    }

    /// TPROXY's rules in the built-in chains of `mangle`, by mark.
    fn is_tproxy(&self, chain: &FoundChain, rule: &FoundRule) -> bool {
        let ours = |mark: &u32| self.marks.contains(mark);
        let marked = || rule.known().any(|known| matches!(known, Match::Mark(Sense::Is, mark) if ours(mark)));
        let connection_marked =
            || rule.known().any(|known| matches!(known, Match::ConnMark(mark) if ours(mark)));
        let owned = || rule.known().any(|known| matches!(known, Match::Owner(..)));
        match (chain.name.as_str(), rule.actions.as_slice()) {
            ("PREROUTING", [Action::SaveMark]) => marked(),
            ("OUTPUT", [Action::RestoreMark]) => connection_marked(),
            ("OUTPUT", [Action::Return]) => marked() && rule.is_on_loopback(),
            ("OUTPUT", [Action::SetMark(mark)]) => ours(mark) && rule.is_on_loopback() && owned(),
            _ => false,
        }
    }
}

fn asked_mark(condition: &Match) -> Option<u32> {
    match condition {
        Match::Mark(_, mark) | Match::ConnMark(mark) => Some(*mark),
        _ => None,
    }
}

/// The interfaces that rules of a table name, and when our rules were made.
struct Interfaces<'a> {
    made: Range<u64>,
    inbound: BTreeSet<&'a str>,
    jumped: BTreeSet<&'a str>,
}

impl<'a> Interfaces<'a> {
    fn of(table: &'a FoundTable) -> Self {
        let made = made_with_our_chains(table);
        let rules = |name: &str| table.find(name).into_iter().flat_map(|chain| &chain.rules);
        let ours = |rule: &&FoundRule| rule.handle.is_some_and(|handle| made.contains(&handle));
        let inbound = rules("PREROUTING").filter(ours).filter_map(|rule| in_interface(rule.returns_on()?));
        let jumped = rules("PREROUTING").filter(|rule| rule.leads_to_ours());
        let jumped = jumped.filter_map(|rule| rule.known().find_map(in_interface));
        Self { inbound: inbound.collect(), jumped: jumped.collect(), made }
    }

    /// True for a rule of an excluded or virtual interface.
    fn are_of(&self, chain: &FoundChain, rule: &FoundRule) -> bool {
        if rule.handle.is_some_and(|handle| !self.made.contains(&handle)) {
            return false;
        }
        let Some(only) = rule.returns_on() else { return false };
        match chain.name.as_str() {
            "PREROUTING" => {
                in_interface(only).is_some_and(|name| rule.handle.is_some() || self.jumped.contains(name))
            }
            "OUTPUT" => out_interface(only).is_some_and(|name| self.inbound.contains(name)),
            _ => false,
        }
    }
}

fn in_interface(condition: &Match) -> Option<&str> {
    match condition {
        Match::InInterface(name) => Some(name),
        _ => None,
    }
}

fn out_interface(condition: &Match) -> Option<&str> {
    match condition {
        Match::OutInterface(name) => Some(name),
        _ => None,
    }
}

/// The handles that were given out while our rules were written: chains come first, and the last rule is in one of them or jumps
/// to one. A table's handles only grow.
fn made_with_our_chains(table: &FoundTable) -> Range<u64> {
    let first = table.chains.iter().filter(|chain| chain.is_ours()).filter_map(|chain| chain.handle).min();
    let rules = table.chains.iter().flat_map(|chain| {
        let own = chain.is_ours();
        chain.rules.iter().filter(move |rule| own || rule.leads_to_ours())
    });
    let last = rules.filter_map(|rule| rule.handle).max();
    first.zip(last).map_or(0..0, |(first, last)| first..last)
}
