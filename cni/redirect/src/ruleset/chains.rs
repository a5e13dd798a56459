// SPDX-License-Identifier: Apache-2.0
//! Kernel state once a ruleset is applied: each chain with its rules in final order.

use super::{Chain, ChainRules, Family, Rule, RulePlace, Ruleset, Scope, Table, Target};

impl Ruleset {
    /// The enabled families.
    pub fn families(&self) -> impl Iterator<Item = Family> + use<> {
        [Family::V4, Family::V6].into_iter().take(if self.ipv6 { 2 } else { 1 })
    }

    /// True if rules of `family` are written.
    #[must_use]
    pub fn enables(&self, family: Family) -> bool {
        family == Family::V4 || self.ipv6
    }

    /// The rules of one family and table, in order of emission. A family that is not enabled has none.
    pub fn rules_of(&self, family: Family, table: Table) -> impl Iterator<Item = &Rule> {
        let enabled = self.enables(family);
        self.rules.iter().filter(move |rule| enabled && rule.table == table && rule.scope.covers(family))
    }

    /// The rules of one `inet` table, in order of emission.
    pub fn inet_rules_of(&self, table: Table) -> impl Iterator<Item = &Rule> {
        self.rules
            .iter()
            .filter(move |rule| rule.table == table && (self.ipv6 || rule.scope != Scope::Only(Family::V6)))
    }

    /// The iptables chains of one family with their rules as the kernel holds them afterwards: tables in restore order, in
    /// each the chains in order of first mention (as a rule's chain, then as a jump target without rules), inserts resolved.
    /// A family that is not enabled has none.
    #[must_use]
    pub fn chains(&self, family: Family) -> Vec<ChainRules<'_>> {
        let mut chains: Vec<ChainRules<'_>> = Vec::new();
        for table in Table::ALL {
            let mut held = resolve(table, self.rules_of(family, table));
            for rule in self.rules_of(family, table) {
                if let Target::Jump(chain) = rule.target
                    && !held.iter().any(|at| at.chain == chain)
                {
                    held.push(ChainRules { table, chain, rules: Vec::new() });
                }
            }
            chains.append(&mut held);
        }
        chains
    }

    /// The chains of the `inet` tables with their rules as the kernel holds them afterwards: tables and chains in the order
    /// in which a native transaction makes them, inserts resolved. Only chains that have rules are there.
    #[must_use]
    pub fn inet_chains(&self) -> Vec<ChainRules<'_>> {
        let mut chains: Vec<ChainRules<'_>> = Vec::new();
        for table in Table::NATIVE {
            let mut held = resolve(table, self.inet_rules_of(table));
            held.sort_by_key(|at| Chain::NATIVE.iter().position(|&chain| chain == at.chain));
            chains.append(&mut held);
        }
        chains
    }
}

/// The chains of a table in order of first mention.
fn resolve<'a>(table: Table, rules: impl Iterator<Item = &'a Rule>) -> Vec<ChainRules<'a>> {
    let mut chains: Vec<ChainRules<'a>> = Vec::new();
    for rule in rules {
        let found = chains.iter_mut().find(|at| at.chain == rule.chain);
        match (found, rule.place) {
            (None, _) => chains.push(ChainRules { table, chain: rule.chain, rules: vec![rule] }),
            (Some(at), RulePlace::Append) => at.rules.push(rule),
            (Some(at), RulePlace::Insert(position)) => {
                let index = usize::from(position).saturating_sub(1).min(at.rules.len());
                at.rules.insert(index, rule);
            }
        }
    }
    chains
}
