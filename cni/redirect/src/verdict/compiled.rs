// SPDX-License-Identifier: Apache-2.0
//! Rules in the form in which packets are walked through them: chains by number, tables and hooks in the kernel's order. Both
//! what we want ([`Ruleset`]) and what somebody found ([`FoundRules`]) come down to it.

use std::collections::BTreeSet;

use crate::found::{Action, ChainKind, Condition, Entry, FoundFamily, FoundHook, FoundRules, Policy};
use crate::packet::Hook;
use crate::ruleset::{Chain, ChainRules, Dialect, Family, Match, Rule, Ruleset, Table, Target};

/// Conditions of a rule.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked<'a> {
    /// Conditions of ours: all can be judged.
    Wanted(&'a [Match]),
    /// Conditions that were found.
    Found(&'a [Condition]),
}

/// Action of a rule, chains by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompiledAction<'a> {
    Accept,
    Drop,
    Return,
    Jump(usize),
    Goto(usize),
    Redirect(u16),
    SetMark(u32),
    Tproxy(u16),
    SaveMark,
    RestoreMark,
    CtZone(u16),
    Nothing,
    /// Something that cannot be judged.
    Unknown(&'a str),
}

pub(super) struct CompiledRule<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) done: Vec<CompiledAction<'a>>,
    pub(super) dialect: Dialect,
}

/// A chain that the kernel calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    pub(super) chain: usize,
    /// When it is called.
    pub(super) priority: i32,
    /// Its turn among those that are called together.
    pub(super) rank: i32,
    pub(super) kind: ChainKind,
    pub(super) policy: Policy,
}

/// Rules of one family, ready to be walked.
#[derive(Default)]
pub(super) struct Compiled<'a> {
    /// The rules of each chain.
    pub(super) chains: Vec<Vec<CompiledRule<'a>>>,
    /// The chains that the kernel calls from the packet's hook, in its order.
    pub(super) called: Vec<Called>,
}

/// `NF_IP_PRI_NAT_DST`: where conntrack's nat runs in both hooks. It calls all nat chains there, whatever their own priorities
/// are (nf_nat_register_fn); those only say which comes first.
const NAT: i32 = -100;

/// Priorities of the tables' chains in both hooks, as iptables and upstream register them. No filter: we have no rules there.
const ORDER: [(Table, i32, ChainKind); 3] = [
    (Table::Raw, -300, ChainKind::Every),
    (Table::Mangle, -150, ChainKind::Every),
    (Table::Nat, NAT, ChainKind::First),
];

impl<'a> Compiled<'a> {
    /// Rules of ours, which [`wanted_chains`] lists; chains keep their numbers.
    pub(super) fn wanted(ruleset: &Ruleset, held: &[ChainRules<'a>], hook: Hook) -> Self {
        let number = |table, chain| held.iter().position(|at| (at.table, at.chain) == (table, chain));
        let rule = |rule: &'a Rule| CompiledRule {
            asked: Asked::Wanted(&rule.matches),
            done: wanted(rule, number),
            dialect: ruleset.dialect,
        };
        let entry = match hook {
            Hook::Prerouting => Chain::Prerouting,
            Hook::Output => Chain::Output,
        };
        let called = ORDER.into_iter().filter_map(|(table, priority, kind)| {
            let chain = number(table, entry)?;
            Some(Called { chain, priority, rank: priority, kind, policy: Policy::Accept })
        });
        Self {
            called: called.collect(),
            chains: held.iter().map(|chain| chain.rules.iter().copied().map(rule).collect()).collect(),
        }
    }

    /// Rules that were found. Chains are numbered as [`FoundRules::chains`] lists them.
    pub(super) fn found(rules: &'a FoundRules, family: Family, hook: Hook) -> Self {
        let wanted = match hook {
            Hook::Prerouting => FoundHook::Prerouting,
            Hook::Output => FoundHook::Output,
        };
        let mut compiled = Self::default();
        let mut first = 0;
        for table in &rules.tables {
            let number = |name: &str| Some(first + table.chains.iter().position(|chain| chain.name == name)?);
            for chain in &table.chains {
                if let Some(entry) = chain.entry
                    && entry.hook == wanted
                    && table.family.covers(family)
                {
                    let Entry { priority: rank, kind, policy, .. } = entry;
                    let priority = if kind == ChainKind::First { NAT } else { rank };
                    let chain = compiled.chains.len();
                    compiled.called.push(Called { chain, priority, rank, kind, policy });
                }
                let rules = chain.rules.iter().map(|rule| CompiledRule {
                    asked: Asked::Found(&rule.conditions),
                    done: rule.actions.iter().map(|action| found(action, number)).collect(),
                    dialect: rule.dialect,
                });
                compiled.chains.push(rules.collect());
            }
            first += table.chains.len();
        }
        // Of two chains of one priority the younger one runs first (nf_hook_entries_grow). Listings have the older one first
        // within a table; how old tables are is told by their order.
        compiled.called.reverse();
        compiled.called.sort_by_key(|called| (called.priority, called.rank));
        compiled
    }
}

impl Compiled<'_> {
    /// Local ports of the redirecting rules that a chain of the hook leads to.
    pub(super) fn redirects_to(&self) -> BTreeSet<u16> {
        let mut ports = BTreeSet::new();
        let mut reached: Vec<usize> = self.called.iter().map(|called| called.chain).collect();
        let mut next = 0;
        while let Some(chain) = reached.get(next).copied() {
            next += 1;
            for done in self.chains.get(chain).into_iter().flatten().flat_map(|rule| &rule.done) {
                match done {
                    CompiledAction::Redirect(port) | CompiledAction::Tproxy(port) => {
                        ports.insert(*port);
                    }
                    CompiledAction::Jump(to) | CompiledAction::Goto(to) if !reached.contains(to) => {
                        reached.push(*to);
                    }
                    _ => {}
                }
            }
        }
        ports
    }
}

/// The chains of ours that packets of a family meet.
pub(super) fn wanted_chains(ruleset: &Ruleset, family: Family) -> Vec<ChainRules<'_>> {
    match ruleset.dialect {
        Dialect::Iptables => ruleset.chains(family),
        Dialect::Nft => ruleset.inet_chains(),
    }
}

fn wanted(rule: &Rule, number: impl Fn(Table, Chain) -> Option<usize>) -> Vec<CompiledAction<'static>> {
    let one = match rule.target {
        Target::Accept => CompiledAction::Accept,
        Target::Drop => CompiledAction::Drop,
        Target::Return => CompiledAction::Return,
        Target::Jump(chain) => {
            number(rule.table, chain).map_or(CompiledAction::Nothing, CompiledAction::Jump)
        }
        Target::Redirect { port } => CompiledAction::Redirect(port),
        Target::SetMark(mark) => CompiledAction::SetMark(mark),
        Target::Tproxy { mark, port } => {
            return vec![CompiledAction::SetMark(mark), CompiledAction::Tproxy(port), CompiledAction::Accept];
        }
        Target::SaveMark => CompiledAction::SaveMark,
        Target::RestoreMark => CompiledAction::RestoreMark,
        Target::CtZone(zone) => CompiledAction::CtZone(zone),
    };
    vec![one]
}

/// A jump to a chain that was not listed may be a target of somebody's that looks like one.
fn found(action: &Action, number: impl Fn(&str) -> Option<usize>) -> CompiledAction<'_> {
    match action {
        Action::Accept => CompiledAction::Accept,
        Action::Drop => CompiledAction::Drop,
        Action::Return => CompiledAction::Return,
        Action::Jump(chain) => number(chain).map_or(CompiledAction::Unknown(chain), CompiledAction::Jump),
        Action::Goto(chain) => number(chain).map_or(CompiledAction::Unknown(chain), CompiledAction::Goto),
        Action::Redirect(port) => CompiledAction::Redirect(*port),
        Action::SetMark(mark) => CompiledAction::SetMark(*mark),
        Action::Tproxy(port) => CompiledAction::Tproxy(*port),
        Action::SaveMark => CompiledAction::SaveMark,
        Action::RestoreMark => CompiledAction::RestoreMark,
        Action::CtZone(zone) => CompiledAction::CtZone(*zone),
        Action::Nothing => CompiledAction::Nothing,
        Action::Unknown(text) => CompiledAction::Unknown(text),
    }
}

impl FoundRules {
    /// Every chain with the family and the name of its table, in the order of the listing.
    pub(super) fn chains(&self) -> impl Iterator<Item = (FoundFamily, &str, &crate::found::FoundChain)> {
        self.tables
            .iter()
            .flat_map(|table| table.chains.iter().map(|chain| (table.family, table.name.as_str(), chain)))
    }
}
