// SPDX-License-Identifier: Apache-2.0
//! Which rules in tables of legacy iptables are ours, and whether they are what is wanted; pure.
//!
//! Ours are every chain whose name begins with `ISTIO_`, and in the built-in chains every jump to one, every rule that equals a wanted
//! rule of the same chain, `-i X -j RETURN` beside a jump of ours for `-i X` (a virtual interface), and in `mangle` TPROXY's rules on
//! the marks 1337 and 1338 or on wanted ones. Entries have no number that would tell when they were made, so an excluded interface
//! that is no longer wanted cannot be told from somebody else's, and stays.

use redirect::ruleset::{ChainRules, Family, Match, Rule, Ruleset, Sense, Table, Target};

use super::{Action, Condition, Legacy, LegacyChain, LegacyRule, LegacyTable};
use crate::live::spell;
use crate::residue::{OwnChain, Residue, TableResidue, own_rules, tellable};
use crate::snapshot::Name;

/// What every name of a chain of ours begins with.
const PREFIX: &[u8] = b"ISTIO_";
/// Marks that upstream uses: inbound and outbound TPROXY.
const MARKS: [u32; 2] = [1337, 1338];

/// Whether there are redirection rules of any version: a chain of ours with a rule in it, or a jump to one.
#[must_use]
pub fn has_rules_of_ours(legacy: &Legacy) -> bool {
    chains(legacy).any(|(_, chain)| !is_own_chain(chain) && chain.rules.iter().any(is_jump_to_us))
        || chains(legacy).any(|(_, chain)| is_own_chain(chain) && !chain.rules.is_empty())
}

/// Whether there are rules that are not ours. Chains without rules, and policies, are none.
#[must_use]
pub fn has_rules_of_others(legacy: &Legacy) -> bool {
    chains(legacy).filter(|(_, chain)| !is_own_chain(chain)).any(|(table, chain)| {
        chain.rules.iter().any(|rule| {
            !is_jump_to_us(rule) && !is_tproxy(table.table, chain, rule, &MARKS) && !is_shield(chain, rule)
        })
    })
}

/// Whether there is anything of ours, empty chains included.
pub(crate) fn has_traces_of_ours(legacy: &Legacy) -> bool {
    has_rules_of_ours(legacy) || chains(legacy).any(|(_, chain)| is_own_chain(chain))
}

/// Whether all that is there of ours, or of `known`, is chains without rules.
pub(crate) fn has_only_empty_chains(legacy: &Legacy, known: &Ruleset) -> bool {
    !has_rules_of_ours(legacy) && residue(legacy, known).tables.iter().all(|table| table.rules.is_empty())
}

fn chains(legacy: &Legacy) -> impl Iterator<Item = (&LegacyTable, &LegacyChain)> {
    legacy.tables.iter().flat_map(|table| table.chains.iter().map(move |chain| (table, chain)))
}

fn is_own_name(name: &Name) -> bool {
    name.as_bytes().starts_with(PREFIX)
}

fn is_own_chain(chain: &LegacyChain) -> bool {
    chain.policy.is_none() && is_own_name(&chain.name)
}

fn is_jump_to_us(rule: &LegacyRule) -> bool {
    matches!(&rule.action, Action::Jump(name) | Action::Goto(name) if is_own_name(name))
}

fn is_tproxy(table: Table, chain: &LegacyChain, rule: &LegacyRule, marks: &[u32]) -> bool {
    if table != Table::Mangle || chain.policy.is_none() {
        return false;
    }
    let has = |fits: &dyn Fn(&Match) -> bool| {
        rule.conditions.iter().any(|condition| matches!(condition, Condition::Known(known) if fits(known)))
    };
    let ours = |mark: &u32| marks.contains(mark);
    let marked = has(&|known| matches!(known, Match::Mark(Sense::Is, mark) if ours(mark)));
    let on_loopback = has(&|known| matches!(known, Match::OutInterface(name) if name == "lo"));
    let Action::Known(target) = &rule.action else { return false };
    match (chain.name == "PREROUTING", chain.name == "OUTPUT", target) {
        (true, _, Target::SaveMark) => marked,
        (_, true, Target::RestoreMark) => has(&|known| matches!(known, Match::ConnMark(mark) if ours(mark))),
        (_, true, Target::Return) => marked && on_loopback,
        (_, true, Target::SetMark(mark)) => {
            ours(mark) && on_loopback && has(&|known| matches!(known, Match::Owner(..)))
        }
        _ => false,
    }
}

/// Whether a rule lets a virtual interface alone for which another rule jumps to us.
fn is_shield(chain: &LegacyChain, rule: &LegacyRule) -> bool {
    let ([only @ Condition::Known(Match::InInterface(_))], Action::Known(Target::Return)) =
        (rule.conditions.as_slice(), &rule.action)
    else {
        return false;
    };
    chain.policy.is_some()
        && chain.rules.iter().any(|jump| is_jump_to_us(jump) && jump.conditions.contains(only))
}

/// What is ours, and whether it is what `wanted` asks for.
pub(crate) fn residue(legacy: &Legacy, wanted: &Ruleset) -> Residue {
    let mut found = Residue::default();
    for family in [Family::V4, Family::V6] {
        let chains = wanted.chains(family);
        let of = |table| chains.iter().filter(move |chain| chain.table == table).collect::<Vec<_>>();
        for table in Table::ALL {
            let wanted_chains = of(table);
            match legacy.table(family, table) {
                None => found.differs |= !wanted_chains.is_empty(),
                Some(state) => {
                    let (residue, differs) = in_table(state, &wanted_chains, &marks(wanted));
                    found.differs |= differs;
                    if !residue.chains.is_empty() || !residue.rules.is_empty() {
                        found.tables.push(residue);
                    }
                }
            }
        }
    }
    found
}

fn marks(wanted: &Ruleset) -> Vec<u32> {
    let set = wanted.rules.iter().filter_map(|rule| match rule.target {
        Target::SetMark(mark) | Target::Tproxy { mark, .. } => Some(mark),
        _ => None,
    });
    MARKS.into_iter().chain(set).collect()
}

fn in_table(state: &LegacyTable, wanted: &[&ChainRules<'_>], marks: &[u32]) -> (TableResidue, bool) {
    let wanted_rules = |name: &Name| {
        wanted.iter().find(|chain| *name == chain.chain.name()).map(|chain| chain.rules.as_slice())
    };
    let mut residue =
        TableResidue { family: state.family, table: state.table, chains: Vec::new(), rules: Vec::new() };
    let mut differs = wanted.iter().any(|chain| state.chain(chain.chain.name()).is_none());
    for chain in &state.chains {
        let rules = wanted_rules(&chain.name);
        if is_own_chain(chain) {
            let held = is_held(state, &chain.name);
            residue.chains.push(OwnChain { name: chain.name.clone(), held });
            differs |= match rules {
                Some(rules) => !alike(rules, chain.rules.iter()),
                None => !(held && chain.rules.is_empty()),
            };
        } else if chain.policy.is_some() {
            let rules = rules.unwrap_or_default();
            let is_ours = |rule: &LegacyRule| {
                is_jump_to_us(rule)
                    || is_tproxy(state.table, chain, rule, marks)
                    || is_shield(chain, rule)
                    || rules.iter().any(|wanted| same(wanted, rule))
            };
            differs |= !alike(rules, chain.rules.iter().filter(|rule| is_ours(rule)));
            let told = chain.rules.iter().map(|rule| (tellable(spell(rule)), is_ours(rule)));
            residue.rules.extend(own_rules(&chain.name, &told.collect::<Vec<_>>()));
        }
    }
    (residue, differs)
}

/// Whether a rule that stays jumps to a chain of ours.
fn is_held(state: &LegacyTable, name: &Name) -> bool {
    let of_others = state.chains.iter().filter(|chain| chain.policy.is_none() && !is_own_chain(chain));
    of_others
        .flat_map(|chain| &chain.rules)
        .any(|rule| matches!(&rule.action, Action::Jump(target) | Action::Goto(target) if target == name))
}

fn alike<'a>(wanted: &[&Rule], found: impl Iterator<Item = &'a LegacyRule>) -> bool {
    let mut found = found;
    wanted.iter().all(|wanted| found.next().is_some_and(|rule| same(wanted, rule))) && found.next().is_none()
}

/// Whether a rule is what the tools make of a wanted one. The order of conditions does not matter: all must hold.
fn same(wanted: &Rule, found: &LegacyRule) -> bool {
    let action = match (&wanted.target, &found.action) {
        (Target::Jump(chain), Action::Jump(name)) => *name == chain.name(),
        (Target::Jump(_), _) => false,
        (target, Action::Known(known)) => target == known,
        _ => false,
    };
    let wanted: Vec<Match> = wanted.matches.iter().filter_map(Match::normal).collect();
    action
        && wanted.len() == found.conditions.len()
        && wanted.iter().all(|wanted| {
            found.conditions.iter().any(
                |found| matches!(found, Condition::Known(known) if known.normal().as_ref() == Some(wanted)),
            )
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redirect::generate::ruleset;

    use super::super::Policy;
    use super::*;
    use crate::fake::{ordinary, rulesets};
    use crate::snapshot::Counter;

    fn legacy_rule(conditions: Vec<Condition>, action: Action) -> LegacyRule {
        LegacyRule { conditions, action, counter: Counter::default() }
    }

    /// What the tools make of a ruleset.
    fn held(wanted: &Ruleset) -> Legacy {
        let mut legacy = Legacy::default();
        for family in [Family::V4, Family::V6] {
            for chain in wanted.chains(family) {
                let rules = chain.rules.iter().map(|rule| {
                    let action = match &rule.target {
                        Target::Jump(to) => Action::Jump(Name::new(to.name().as_bytes())),
                        target => Action::Known(target.clone()),
                    };
                    legacy_rule(
                        rule.matches.iter().filter_map(Match::normal).map(Condition::Known).collect(),
                        action,
                    )
                });
                let name = Name::new(chain.chain.name().as_bytes());
                let policy = chain.chain.is_builtin().then_some(Policy::Accept);
                let state = LegacyChain { name, policy, rules: rules.collect() };
                match legacy.tables.last_mut() {
                    Some(last) if (last.family, last.table) == (family, chain.table) => {
                        last.chains.push(state)
                    }
                    _ => legacy.tables.push(LegacyTable { family, table: chain.table, chains: vec![state] }),
                }
            }
        }
        legacy
    }

    fn foreign() -> LegacyRule {
        let match_ = Condition::Other(Name::new(b"ttl"));
        legacy_rule(vec![match_], Action::Known(Target::Accept))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_set_is_recognised_and_any_loss_of_it(
            wanted in rulesets(),
            at in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let mut legacy = held(&wanted);
            let whole = residue(&legacy, &wanted);
            prop_assert!(!whole.differs);
            let built_in = legacy.tables.iter_mut().flat_map(|table| &mut table.chains).filter(|chain| chain.policy.is_some());
            built_in.for_each(|chain| chain.rules.insert(0, foreign()));
            let beside = residue(&legacy, &wanted);
            prop_assert!(!beside.differs, "rules of others do not count");
            prop_assert!(has_rules_of_others(&legacy) && has_rules_of_ours(&legacy));
            let places = |found: &Residue| -> Vec<usize> {
                found.tables.iter().flat_map(|table| &table.rules).map(|rule| rule.position).collect()
            };
            let moved: Vec<usize> = places(&whole).into_iter().map(|position| position + 1).collect();
            prop_assert_eq!(places(&beside), moved, "and are not deleted");
            let mut chains: Vec<_> = legacy.tables.iter_mut().flat_map(|table| &mut table.chains)
                .filter(|chain| is_own_chain(chain) && !chain.rules.is_empty()).collect();
            let chain = at.0.index(chains.len());
            let rules = &mut chains[chain].rules;
            rules.remove(at.1.index(rules.len()));
            prop_assert!(residue(&legacy, &wanted).differs);
        }
    }

    #[test]
    fn what_is_nobodys_rule_is_nobodys() {
        let chain =
            |name: &str, policy, rules| LegacyChain { name: Name::new(name.as_bytes()), policy, rules };
        let table =
            |chains| Legacy { tables: vec![LegacyTable { family: Family::V4, table: Table::Nat, chains }] };
        let drop = Some(Policy::Drop);
        let empty = table(vec![chain("OUTPUT", drop, vec![]), chain("MINE", None, vec![])]);
        assert!(!has_rules_of_others(&empty) && !has_traces_of_ours(&empty));
        let shell = table(vec![chain("ISTIO_OLD", None, vec![])]);
        assert!(!has_rules_of_others(&shell) && !has_rules_of_ours(&shell) && has_traces_of_ours(&shell));
        let others = table(vec![chain("OUTPUT", drop, vec![foreign()])]);
        assert!(has_rules_of_others(&others) && !has_traces_of_ours(&others));
    }

    #[test]
    fn a_chain_that_others_jump_to_is_held() {
        let wanted = ruleset(&ordinary()).unwrap();
        let mut legacy = held(&wanted);
        let to_us = Action::Jump(Name::new(b"ISTIO_OUTPUT"));
        let mine =
            LegacyChain { name: Name::new(b"MINE"), policy: None, rules: vec![legacy_rule(vec![], to_us)] };
        legacy.tables.iter_mut().for_each(|table| table.chains.push(mine.clone()));
        let found = residue(&legacy, &wanted);
        let held: Vec<_> =
            found.table(Family::V4, Table::Nat).unwrap().chains.iter().filter(|chain| chain.held).collect();
        assert_eq!(held.iter().map(|chain| chain.name.to_string()).collect::<Vec<_>>(), ["ISTIO_OUTPUT"]);
    }
}
