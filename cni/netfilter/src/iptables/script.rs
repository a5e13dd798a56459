// SPDX-License-Identifier: Apache-2.0
//! Restore text that replaces what is ours by what is wanted, each table in one commit; pure. What adds a rule is spelled as
//! [`redirect::text`] does.

use std::fmt::Write as _;

use redirect::ruleset::{Chain, Dialect, Family, Ruleset, Table};
use redirect::text;

use super::decide::Actions;
use crate::residue::{OwnChain, Residue, TableResidue};

/// The chain that drops everything. Its name makes it ours: should it stay behind, the next who applies removes it.
const RAILS: &str = "ISTIO_GUARDRAILS";
/// The chains that are closed.
const CLOSED: [&str; 3] = ["INPUT", "FORWARD", "OUTPUT"];

/// Opens them again.
pub(super) const RAILS_DOWN: &str = "*filter
-D INPUT -j ISTIO_GUARDRAILS
-D FORWARD -j ISTIO_GUARDRAILS
-D OUTPUT -j ISTIO_GUARDRAILS
-F ISTIO_GUARDRAILS
-X ISTIO_GUARDRAILS
COMMIT
";

/// Drops all TCP and UDP of a family. Removes what else is ours in the same table: rails that somebody left behind.
pub(super) fn rails_up(family: Family, residue: &Residue) -> String {
    let mut text = "*filter\n".to_owned();
    // Writing to a String does not fail.
    let _ = writeln!(text, ":{RAILS} - [0:0]");
    if let Some(own) = residue.table(family, Table::Filter) {
        remove(&mut text, own, &[RAILS]);
    }
    for protocol in ["tcp", "udp"] {
        let _ = writeln!(text, "-A {RAILS} -p {protocol} -j DROP");
    }
    for chain in CLOSED {
        let _ = writeln!(text, "-I {chain} 1 -j {RAILS}");
    }
    text.push_str("COMMIT\n");
    text
}

/// Everything that has to be done for one family; empty if that is nothing.
pub(super) fn replace(family: Family, ruleset: &Ruleset, residue: &Residue, actions: Actions) -> String {
    let mut text = String::with_capacity(96 * ruleset.rules.len());
    let chains = if actions.add { ruleset.chains(family) } else { Vec::new() };
    for table in Table::ALL {
        let own = residue.table(family, table).filter(|_| actions.remove);
        // The rails have seen to it.
        let own = own.filter(|_| !(actions.guard && table == Table::Filter));
        let wanted: Vec<&str> = chains
            .iter()
            .filter(|chain| chain.table == table && !chain.chain.is_builtin())
            .map(|chain| Chain::name(chain.chain))
            .collect();
        let rules = || ruleset.rules_of(family, table).filter(|_| actions.add);
        if own.is_none() && rules().next().is_none() {
            continue;
        }
        let _ = writeln!(text, "*{}", table.name());
        for chain in &wanted {
            // Makes the chain, or empties it.
            let _ = writeln!(text, ":{chain} - [0:0]");
        }
        if let Some(own) = own {
            remove(&mut text, own, &wanted);
        }
        for rule in rules() {
            let _ = writeln!(text, "{}", text::command(Dialect::Iptables, rule));
        }
        text.push_str("COMMIT\n");
    }
    text
}

/// Removes what is ours except the chains `wanted`, which stay.
fn remove(text: &mut String, own: &TableResidue, wanted: &[&str]) {
    // Positions first, and from behind: a deleted rule moves those behind it. Whoever changes the chain meanwhile moves them, too, so
    // that only rules are counted that cannot be told.
    for rule in own.rules.iter().rev().filter(|rule| rule.text.is_none()) {
        let _ = writeln!(text, "-D {} {}", rule.chain, rule.position);
    }
    for rule in &own.rules {
        if let Some(rule_text) = &rule.text {
            let _ = writeln!(text, "-D {} {rule_text}", rule.chain);
        }
    }
    let stays = |chain: &&OwnChain| wanted.iter().any(|name| chain.name == *name);
    let goes: Vec<_> = own.chains.iter().filter(|chain| !stays(chain) && is_plain(&chain.name)).collect();
    // All are emptied before one is deleted: chains refer to each other.
    for chain in &goes {
        let _ = writeln!(text, "-F {}", chain.name);
    }
    for chain in goes.iter().filter(|chain| !chain.held) {
        let _ = writeln!(text, "-X {}", chain.name);
    }
}

/// True if a name is one word: a pod may name its chains as it likes, and must not write our text.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use redirect::generate::ruleset;

    use super::*;
    use crate::fake::ordinary;
    use crate::residue::OwnRule;

    const REPLACE: Actions = Actions { guard: false, remove: true, add: true };

    fn residue() -> Residue {
        let rule = |position, text: Option<&str>| OwnRule {
            chain: "OUTPUT".to_owned(),
            position,
            text: text.map(str::to_owned),
        };
        let chain = |name: &str, held| OwnChain { name: name.to_owned(), held };
        let tables = [Table::Filter, Table::Nat].map(|table| TableResidue {
            family: Family::V4,
            table,
            chains: vec![
                chain("ISTIO_OLD", false),
                chain("ISTIO_OUTPUT", false),
                chain("ISTIO_HELD", true),
                chain("ISTIO_ -X PREROUTING\n", false),
            ],
            rules: vec![rule(1, None), rule(2, Some("-j ISTIO_OLD")), rule(3, None)],
        });
        Residue { tables: tables.into(), differs: true }
    }

    #[test]
    fn one_commit_per_table_removes_and_adds() {
        let wanted = ruleset(&ordinary()).unwrap();
        let text = replace(Family::V4, &wanted, &residue(), REPLACE);
        assert_eq!(text.matches("COMMIT").count(), 2, "{text}");
        let nat = text.split_once("*nat\n").unwrap().1;
        let at = |line: &str| {
            nat.lines().position(|found| found == line).unwrap_or_else(|| panic!("{line}\n{nat}"))
        };
        assert!(at(":ISTIO_OUTPUT - [0:0]") < at("-D OUTPUT 3"));
        assert!(at("-D OUTPUT 3") < at("-D OUTPUT 1"), "from behind");
        assert!(at("-D OUTPUT 1") < at("-D OUTPUT -j ISTIO_OLD"), "positions are as they were read");
        assert!(at("-F ISTIO_HELD") < at("-X ISTIO_OLD"));
        assert!(at("-X ISTIO_OLD") < at("-A OUTPUT -j ISTIO_OUTPUT"));
        assert!(!nat.contains("-X ISTIO_OUTPUT") && !nat.contains("-X ISTIO_HELD"), "{nat}");
        assert!(!text.contains("-X PREROUTING"), "a name is not text: {text}");
        assert_eq!(replace(Family::V6, &wanted, &Residue::default(), Actions { add: false, ..REPLACE }), "");
    }

    #[test]
    fn rails_stand_in_front_and_take_over_the_table() {
        let up = rails_up(Family::V4, &residue());
        assert!(up.ends_with("-I OUTPUT 1 -j ISTIO_GUARDRAILS\nCOMMIT\n"), "{up}");
        assert!(
            up.contains("-D OUTPUT 3\n-D OUTPUT 1\n-D OUTPUT -j ISTIO_OLD\n") && up.contains("-X ISTIO_OLD"),
            "{up}"
        );
        let text = replace(
            Family::V4,
            &ruleset(&ordinary()).unwrap(),
            &residue(),
            Actions { guard: true, ..REPLACE },
        );
        assert!(!text.contains("*filter"), "{text}");
        for chain in CLOSED {
            assert!(RAILS_DOWN.contains(&format!("-D {chain} -j {RAILS}\n")));
        }
    }
}
