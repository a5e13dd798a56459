// SPDX-License-Identifier: Apache-2.0
//! What holds for the rules of any configuration.

use proptest::prelude::*;
use redirect::generate::ruleset;
use redirect::ruleset::{Chain, ChainRules, Family, Match, Scope, Table, Target};
use redirect::text::restore;

use crate::configs::config;
use crate::parse::{Parsed, parse};

/// Whether a walk that enters `chain` can come back to a chain that it is in.
fn loops(chains: &[ChainRules<'_>], table: Table, chain: Chain, inside: &mut Vec<Chain>) -> bool {
    if inside.contains(&chain) {
        return true;
    }
    inside.push(chain);
    let found = chains
        .iter()
        .filter(|at| (at.table, at.chain) == (table, chain))
        .flat_map(|at| &at.rules)
        .any(|rule| matches!(rule.target, Target::Jump(next) if loops(chains, table, next, inside)));
    inside.pop();
    found
}

proptest! {
    #[test]
    fn jumps_lead_to_chains_that_exist_and_never_back(config in config()) {
        let ruleset = ruleset(&config).unwrap();
        for family in ruleset.families() {
            let chains = ruleset.chains(family);
            for at in &chains {
                prop_assert!(!loops(&chains, at.table, at.chain, &mut Vec::new()), "{:?} loops", at.chain);
                for rule in &at.rules {
                    let Target::Jump(to) = rule.target else { continue };
                    prop_assert!(!to.is_builtin());
                    prop_assert!(chains.iter().any(|other| (other.table, other.chain) == (at.table, to)));
                }
            }
        }
    }

    #[test]
    fn text_says_everything_that_a_ruleset_says(config in config()) {
        let ruleset = ruleset(&config).unwrap();
        for family in [Family::V4, Family::V6] {
            let (chains, rules) = parse(&restore(&ruleset, family));
            let want: Vec<Parsed> = Table::ALL
                .into_iter()
                .flat_map(|table| ruleset.rules_of(family, table))
                .map(|rule| Parsed {
                    table: rule.table,
                    chain: rule.chain,
                    place: rule.place,
                    matches: rule.matches.clone(),
                    target: rule.target.clone(),
                })
                .collect();
            prop_assert_eq!(rules, want);
            let own: Vec<_> = ruleset.chains(family).iter().map(|at| (at.table, at.chain)).filter(|at| !at.1.is_builtin()).collect();
            prop_assert_eq!(chains, own);
        }
    }

    #[test]
    fn a_rule_names_addresses_of_its_own_family_only(config in config()) {
        let ruleset = ruleset(&config).unwrap();
        prop_assert!(config.ipv6 || ruleset.rules.iter().all(|rule| rule.scope != Scope::Only(Family::V6)));
        for rule in &ruleset.rules {
            for condition in &rule.matches {
                if let Match::Source(_, cidr) | Match::Destination(_, cidr) = condition {
                    prop_assert_eq!(rule.scope, Scope::Only(cidr.family()));
                }
            }
        }
    }
}
