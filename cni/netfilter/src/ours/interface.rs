// SPDX-License-Identifier: Apache-2.0
//! Rules that leave an interface alone, told by their other half: `-i X -j RETURN` in `PREROUTING` by `-o X -j RETURN` in `OUTPUT` (an
//! excluded interface) or by a jump of ours for `-i X` (a virtual interface). Only those count that were made together with our chains.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{is_jump_to_us, is_own_chain};
use crate::expression::{Expression, parse};
use crate::nft::{meta, operation, verdict};
use crate::snapshot::{ChainState, RuleState, TableState};

/// The interfaces that rules of a table name, and when these were made.
pub(super) struct Interfaces<'a> {
    made: Range<u64>,
    inbound: BTreeSet<&'a [u8]>,
    outbound: BTreeSet<&'a [u8]>,
    jumped: BTreeSet<&'a [u8]>,
}

impl<'a> Interfaces<'a> {
    pub(super) fn of(table: &'a TableState) -> Self {
        let made = made_with_our_chains(table);
        let rules = |name: &str| table.chain(name).into_iter().flat_map(|chain| &chain.rules);
        let ours = |rule: &&RuleState| made.contains(&rule.handle);
        let inbound = rules("PREROUTING").filter(ours).filter_map(|rule| returned(rule, meta::IN_INTERFACE));
        let outbound = rules("OUTPUT").filter(ours).filter_map(|rule| returned(rule, meta::OUT_INTERFACE));
        let jumped = rules("PREROUTING").filter_map(jumped);
        Self { inbound: inbound.collect(), outbound: outbound.collect(), jumped: jumped.collect(), made }
    }

    /// Whether a rule is one of them.
    pub(super) fn are_of(&self, chain: &ChainState, rule: &RuleState) -> bool {
        if !self.made.contains(&rule.handle) {
            return false;
        }
        if chain.name == "PREROUTING" {
            returned(rule, meta::IN_INTERFACE)
                .is_some_and(|name| self.outbound.contains(name) || self.jumped.contains(name))
        } else {
            chain.name == "OUTPUT"
                && returned(rule, meta::OUT_INTERFACE).is_some_and(|name| self.inbound.contains(name))
        }
    }
}

/// The interface of a rule that has no other condition and returns.
fn returned(rule: &RuleState, key: u32) -> Option<&[u8]> {
    match parse(&rule.expressions).ok()?.as_slice() {
        [
            Expression::Meta { key: found, .. },
            Expression::Compare { operation: operation::EQUAL, value, .. },
            Expression::Counter,
            Expression::Verdict { code: verdict::RETURN, .. },
        ] if *found == key => Some(*value),
        _ => None,
    }
}

/// The incoming interface of a jump to us.
fn jumped(rule: &RuleState) -> Option<&[u8]> {
    match parse(&rule.expressions).ok()?.as_slice() {
        [
            Expression::Meta { key: meta::IN_INTERFACE, .. },
            Expression::Compare { operation: operation::EQUAL, value, .. },
            ..,
        ] if is_jump_to_us(rule) => Some(*value),
        _ => None,
    }
}

/// The handles that were given out while our rules were written: chains come first, and the last rule is in one of them or jumps
/// to one. A table's handles only grow.
fn made_with_our_chains(table: &TableState) -> Range<u64> {
    let first = table.chains.iter().filter(|chain| is_own_chain(chain)).map(|chain| chain.handle).min();
    let rules = table.chains.iter().flat_map(|chain| {
        let own = is_own_chain(chain);
        chain.rules.iter().filter(move |rule| own || is_jump_to_us(rule))
    });
    let last = rules.map(|rule| rule.handle).max();
    first.zip(last).map_or(0..0, |(first, last)| first..last)
}
