// SPDX-License-Identifier: Apache-2.0
//! Evaluation of rules for a packet, as in the kernel at the packet's hook: raw, then mangle, then nat.
//!
//! [`verdict`] judges rules that we want. It models what they can express, in a namespace where nothing else is programmed and
//! the proxy listens where rules send traffic. (A TPROXY rule without a listener drops, and so does REDIRECT on an interface
//! without an address.) [`found_verdict`] judges rules that somebody found, foreign ones among them, and says where it cannot.
//!
//! | part | what it does |
//! |---|---|
//! | `compiled` | both kinds of rules in one form |
//! | `walk` | the packet's way through the chains |
//! | `conditions` | whether it meets a condition |

mod compiled;
mod conditions;
#[cfg(test)]
mod tests;
mod walk;

use std::cell::OnceCell;
use std::sync::Arc;

use crate::found::{FoundFamily, FoundRules};
use crate::packet::{Hook, Outcome, Packet, Step, Verdict};
use crate::ruleset::{ChainRules, Cidr, Family, Ruleset, Sense};
use crate::text;

use compiled::{Compiled, wanted_chains};
use walk::{RuleAt, Walk};

/// Evaluates `packet` against `ruleset`. The steps are exactly the rules whose kernel counters the packet moves.
#[must_use]
pub fn verdict(ruleset: &Ruleset, packet: &Packet) -> Verdict {
    Judge::new(ruleset).verdict(packet)
}

/// Rules of ours for many packets: those that a family meets at a hook are compiled once, for the first packet that does.
pub struct Judge<'a> {
    ruleset: &'a Ruleset,
    /// By family and hook.
    parts: [[OnceCell<Part<'a>>; 2]; 2],
}

/// The chains of a family and a hook.
struct Part<'a> {
    compiled: Compiled<'a>,
    chains: Vec<ChainRules<'a>>,
    /// Of each chain's rules, each written when a packet first meets it.
    texts: Vec<Vec<OnceCell<Arc<str>>>>,
}

impl<'a> Judge<'a> {
    /// Nothing is compiled yet.
    #[must_use]
    pub fn new(ruleset: &'a Ruleset) -> Self {
        Self { ruleset, parts: Default::default() }
    }

    /// Evaluates `packet`, as [`verdict`].
    #[must_use]
    pub fn verdict(&self, packet: &Packet) -> Verdict {
        let part = self.part(packet);
        let mut walk = Walk::new(&part.compiled, packet);
        walk.before(i32::MAX);
        let step = |at: &RuleAt| {
            let chain = &part.chains[at.chain];
            let rule = chain.rules[at.rule];
            let text = || text::rule(self.ruleset.dialect, rule).into();
            Step {
                table: chain.table,
                chain: chain.chain.name_in(self.ruleset.dialect),
                position: at.rule + 1,
                rule: Arc::clone(part.texts[at.chain][at.rule].get_or_init(text)),
                origin: rule.origin,
            }
        };
        Verdict {
            outcome: walk.outcome,
            rewritten: walk.rewritten,
            steps: walk.steps.iter().map(step).collect(),
            mark: walk.state.mark,
            connmark: walk.state.connmark,
            zone: walk.state.zone.unwrap_or(0),
        }
    }

    /// The conntrack zone that the raw table puts `packet` in. Conntrack comes after it, so what the packet says of its connection
    /// does not matter.
    #[must_use]
    pub fn zone(&self, packet: &Packet) -> u16 {
        let mut walk = Walk::new(&self.part(packet).compiled, packet);
        walk.before(CONNTRACK);
        walk.state.zone.unwrap_or(0)
    }

    fn part(&self, packet: &Packet) -> &Part<'a> {
        let family = packet.family();
        let [prerouting, output] = match family {
            Family::V4 => &self.parts[0],
            Family::V6 => &self.parts[1],
        };
        let part = match packet.hook {
            Hook::Prerouting => prerouting,
            Hook::Output => output,
        };
        part.get_or_init(|| {
            let chains = wanted_chains(self.ruleset, family);
            Part {
                compiled: Compiled::wanted(self.ruleset, &chains, packet.hook),
                texts: chains.iter().map(|chain| vec![OnceCell::new(); chain.rules.len()]).collect(),
                chains,
            }
        })
    }
}

/// `NF_IP_PRI_CONNTRACK`: where conntrack itself runs.
const CONNTRACK: i32 = -200;

/// True if a prefix covers an address.
#[must_use]
pub fn is_within(address: std::net::IpAddr, cidr: Cidr) -> bool {
    conditions::in_range(Sense::Is, address, cidr)
}

/// The hooks at which rules of `wanted` redirect packets of `family` to one of `ports`, and no rule of ours that was found does: no jump of
/// ours leads to such a rule. What rules ask of a packet does not count.
#[must_use]
pub fn unredirected(found: &FoundRules, wanted: &Ruleset, family: Family, ports: &[u16]) -> Vec<Hook> {
    let (ours, chains) = (found.only_ours(), wanted_chains(wanted, family));
    let hooks = [Hook::Prerouting, Hook::Output].into_iter();
    let is_missing = |hook: &Hook| {
        let needed = Compiled::wanted(wanted, &chains, *hook).redirects_to();
        let there = Compiled::found(&ours, family, *hook).redirects_to();
        ports.iter().any(|port| needed.contains(port) && !there.contains(port))
    };
    hooks.filter(is_missing).collect()
}

/// A rule that was found and that a packet met: its counter moves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FoundStep {
    /// The table's family.
    pub family: FoundFamily,
    /// The table's name.
    pub table: String,
    /// The chain's name.
    pub chain: String,
    /// 1-based position in the chain.
    pub position: usize,
    /// The rule without its chain, as it was listed.
    pub rule: String,
}

/// Verdict of found rules on a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundVerdict {
    /// Where the packet ends up, or the rule from which on nobody can say.
    pub outcome: Result<Outcome, Undecided>,
    /// Every rule whose counter moves, in order, as far as it was followed.
    pub steps: Vec<FoundStep>,
}

/// A rule that decides, and that cannot be judged here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot judge {what:?} of rule {} in {} {} {}", rule.position, rule.family, rule.table, rule.chain)]
pub struct Undecided {
    /// The rule.
    pub rule: FoundStep,
    /// Unknown part of it.
    pub what: String,
}

/// Evaluates `packet` against rules that were found. Chains of other hooks than the packet's (filter in INPUT, nat in
/// POSTROUTING) are not looked at. Of chains with one priority the youngest runs first; no listing says how old a table is, so the
/// one that is listed later counts as younger, and legacy tables, which are listed last, as the youngest.
#[must_use]
pub fn found_verdict(rules: &FoundRules, packet: &Packet) -> FoundVerdict {
    let compiled = Compiled::found(rules, packet.family(), packet.hook);
    let mut walk = Walk::new(&compiled, packet);
    walk.before(i32::MAX);
    let chains: Vec<_> = rules.chains().collect();
    let step = |at: &RuleAt| {
        let (family, table, chain) = chains[at.chain];
        FoundStep {
            family,
            table: table.to_owned(),
            chain: chain.name.clone(),
            position: at.rule + 1,
            rule: chain.rules[at.rule].text.clone(),
        }
    };
    FoundVerdict {
        steps: walk.steps.iter().map(step).collect(),
        outcome: match walk.stopped {
            Some(stop) => Err(Undecided { rule: step(&stop.at), what: stop.what.to_owned() }),
            None => Ok(walk.outcome),
        },
    }
}
