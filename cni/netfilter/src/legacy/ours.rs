// SPDX-License-Identifier: Apache-2.0
//! Ownership ([`redirect::found::ours`]) in legacy iptables' tables; pure.

use redirect::found::compare::Form;
use redirect::found::ours::Ours;
use redirect::found::{FoundChain, FoundRules, FoundTable};
use redirect::ruleset::Ruleset;

use crate::residue::residue;

/// True if there are foreign rules. Chains without rules, and policies, are none.
#[must_use]
pub fn has_rules_of_others(legacy: &FoundRules) -> bool {
    legacy.tables.iter().any(|table| {
        let ours = Ours::of(table, &[]);
        let mut chains = table.chains.iter().filter(|chain| !chain.is_ours());
        chains.any(|chain| chain.rules.iter().any(|rule| !ours.has(chain, rule, &[])))
    })
}

/// True if there is anything of ours, empty chains included.
pub(crate) fn has_traces_of_ours(legacy: &FoundRules) -> bool {
    let has_chain = |table: &FoundTable| table.chains.iter().any(FoundChain::is_ours);
    legacy.hold_ours() || legacy.tables.iter().any(|table| has_chain(table) || table.holds_dns())
}

/// True if all that is there of ours, or of `known`, is chains without rules.
pub(crate) fn has_only_empty_chains(legacy: &FoundRules, known: &Ruleset) -> bool {
    !legacy.hold_ours()
        && residue(legacy, known, Form::Legacy).tables.iter().all(|table| table.rules.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redirect::generate::ruleset;

    use redirect::found::{Action, Condition, FoundFamily, FoundRule, Policy, save};
    use redirect::ruleset::{Dialect, Family, Match, Table};

    use super::*;
    use crate::fake::{ordinary, rulesets};
    use crate::residue::Residue;

    fn legacy_rule(conditions: Vec<Condition>, actions: Vec<Action>) -> FoundRule {
        let (dialect, text) = (Dialect::Iptables, String::new());
        FoundRule { conditions, actions, dialect, text, packets: None, handle: None }
    }

    fn legacy_chain(table: &str, name: &str, policy: Policy, rules: Vec<FoundRule>) -> FoundChain {
        let entry = save::entry(table, name).map(|entry| redirect::found::Entry { policy, ..entry });
        FoundChain { name: name.to_owned(), entry, rules, handle: None }
    }

    /// A ruleset as the tools write it.
    fn held(wanted: &Ruleset) -> FoundRules {
        let mut legacy = FoundRules::default();
        for family in [Family::V4, Family::V6] {
            for chain in wanted.chains(family) {
                let rules = chain.rules.iter().map(|rule| {
                    let normal = |condition: &Match| condition.normal(Dialect::Iptables, Some(family));
                    let conditions = rule.matches.iter().filter_map(normal).map(Condition::Known);
                    legacy_rule(conditions.collect(), Action::of(&rule.target, Dialect::Iptables))
                });
                let (family, name) = (FoundFamily::Legacy(family), chain.table.name());
                let state = legacy_chain(name, chain.chain.name(), Policy::Accept, rules.collect());
                match legacy.tables.last_mut() {
                    Some(last) if last.family == family && last.name == name => last.chains.push(state),
                    _ => {
                        legacy.tables.push(FoundTable { family, name: name.to_owned(), chains: vec![state] })
                    }
                }
            }
        }
        legacy
    }

    fn foreign() -> FoundRule {
        legacy_rule(vec![Condition::Unknown("-m ttl".to_owned())], vec![Action::Accept])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_set_is_recognised_and_any_loss_of_it(
            wanted in rulesets(),
            at in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let mut legacy = held(&wanted);
            let whole = residue(&legacy, &wanted, Form::Legacy);
            prop_assert!(!whole.differs);
            let built_in = legacy.tables.iter_mut().flat_map(|table| &mut table.chains).filter(|chain| chain.is_built_in());
            built_in.for_each(|chain| chain.rules.insert(0, foreign()));
            let beside = residue(&legacy, &wanted, Form::Legacy);
            prop_assert!(!beside.differs, "rules of others do not count");
            prop_assert!(has_rules_of_others(&legacy) && legacy.hold_ours());
            let places = |found: &Residue| -> Vec<usize> {
                found.tables.iter().flat_map(|table| &table.rules).map(|rule| rule.position).collect()
            };
            let moved: Vec<usize> = places(&whole).into_iter().map(|position| position + 1).collect();
            prop_assert_eq!(places(&beside), moved, "and are not deleted");
            let mut chains: Vec<_> = legacy.tables.iter_mut().flat_map(|table| &mut table.chains)
                .filter(|chain| chain.is_ours() && !chain.rules.is_empty()).collect();
            let chain = at.0.index(chains.len());
            let rules = &mut chains[chain].rules;
            rules.remove(at.1.index(rules.len()));
            prop_assert!(residue(&legacy, &wanted, Form::Legacy).differs);
        }
    }

    #[test]
    fn what_is_nobodys_rule_is_nobodys() {
        let chain = |name: &str, rules| legacy_chain("nat", name, Policy::Drop, rules);
        let (family, name) = (FoundFamily::Legacy(Family::V4), "nat".to_owned());
        let table = |chains| FoundRules { tables: vec![FoundTable { family, name: name.clone(), chains }] };
        let empty = table(vec![chain("OUTPUT", vec![]), chain("MINE", vec![])]);
        assert!(!has_rules_of_others(&empty) && !has_traces_of_ours(&empty));
        let shell = table(vec![chain("ISTIO_OLD", vec![])]);
        assert!(!has_rules_of_others(&shell) && !shell.hold_ours() && has_traces_of_ours(&shell));
        let others = table(vec![chain("OUTPUT", vec![foreign()])]);
        assert!(has_rules_of_others(&others) && !has_traces_of_ours(&others));
    }

    #[test]
    fn a_chain_that_others_jump_to_is_held() {
        let wanted = ruleset(&ordinary()).unwrap();
        let mut legacy = held(&wanted);
        let to_us = legacy_rule(vec![], vec![Action::Jump("ISTIO_OUTPUT".to_owned())]);
        let mine = legacy_chain("nat", "MINE", Policy::Accept, vec![to_us]);
        legacy.tables.iter_mut().for_each(|table| table.chains.push(mine.clone()));
        let found = residue(&legacy, &wanted, Form::Legacy);
        let held: Vec<_> =
            found.table(Family::V4, Table::Nat).unwrap().chains.iter().filter(|chain| chain.held).collect();
        assert_eq!(held.iter().map(|chain| chain.name.as_str()).collect::<Vec<_>>(), ["ISTIO_OUTPUT"]);
    }
}
