// SPDX-License-Identifier: Apache-2.0
//! Properties of the rules of any configuration.

use proptest::prelude::*;
use redirect::Config;
use redirect::generate::ruleset;
use redirect::ruleset::{Chain, ChainRules, Dialect, Family, Match, Ruleset, Scope, Table, Target};
use redirect::text::{self, restore};

use crate::cases;
use crate::configs::{config, iptables_config};
use crate::parse::{Parsed, parse};

/// True if a walk that enters `chain` can come back to a chain that it is in.
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

/// Every set of chains that a packet may walk.
pub(super) fn walks(ruleset: &Ruleset) -> Vec<Vec<ChainRules<'_>>> {
    match ruleset.dialect {
        Dialect::Iptables => ruleset.families().map(|family| ruleset.chains(family)).collect(),
        Dialect::Nft => vec![ruleset.inet_chains()],
    }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn jumps_lead_to_chains_that_exist_and_never_back(config in config()) {
        let ruleset = ruleset(&config).unwrap();
        for chains in walks(&ruleset) {
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
    fn restore_text_says_everything_that_a_ruleset_says(config in iptables_config()) {
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

    #[test]
    fn native_chains_are_what_the_commands_make(config in config()) {
        let ruleset = ruleset(&Config { dialect: Dialect::Nft, ..config }).unwrap();
        let mut held: Vec<(String, Vec<String>)> = Vec::new();
        for line in text::native(&ruleset).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let chain = || words[3..5].join(" ");
            let at = held.iter().position(|(name, _)| words.len() > 4 && *name == chain());
            match (words[0], words[1], at) {
                ("add" | "flush", "table", None) => {}
                ("add", "chain", None) => held.push((chain(), Vec::new())),
                ("add", "rule", Some(at)) => held[at].1.push(words[5..].join(" ")),
                ("insert", "rule", Some(at)) => {
                    let index: usize = words[6].parse().unwrap();
                    // nft takes the index of a rule that is there.
                    prop_assert!(index < held[at].1.len(), "{line}");
                    held[at].1.insert(index, words[7..].join(" "));
                }
                other => prop_assert!(false, "{line}: {other:?}"),
            }
        }
        let want: Vec<_> = ruleset.inet_chains().iter().map(|at| {
            let name = format!("{} {}", at.table.native_name(), at.chain.native_name());
            (name, at.rules.iter().map(|rule| text::rule(Dialect::Nft, rule)).collect::<Vec<_>>())
        }).collect();
        prop_assert!(want.iter().all(|(_, rules)| !rules.is_empty()));
        prop_assert_eq!(held, want);
    }
}
