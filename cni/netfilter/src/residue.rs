// SPDX-License-Identifier: Apache-2.0
//! Our part of tables that the iptables tools write: the chains to empty and the rules to delete.

use redirect::found::compare::{Form, to_rewrite};
use redirect::found::ours::Ours;
use redirect::found::{Action, FoundRule, FoundRules, FoundTable, save};
use redirect::ruleset::{Family, Ruleset, Table};

/// A chain of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnChain {
    pub(crate) name: String,
    /// True if a foreign rule jumps to it, so that it cannot be deleted.
    pub(crate) held: bool,
}

/// A rule of ours in a built-in chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnRule {
    pub(crate) chain: String,
    /// 1-based, among all rules of the chain.
    pub(crate) position: usize,
    /// The rule without its chain, if that says which one is meant.
    pub(crate) text: Option<String>,
}

/// The rules of a chain that are ours: each is its text, if the tools can be told it, and whether it is ours. A text that a rule of
/// somebody else has, too, does not say which one is meant.
pub(crate) fn own_rules(chain: &str, rules: &[(Option<String>, bool)]) -> Vec<OwnRule> {
    let of_others = |text: &String| rules.iter().any(|(other, own)| !own && other.as_ref() == Some(text));
    let own = rules.iter().enumerate().filter(|(_, (_, own))| *own);
    own.map(|(index, (text, _))| OwnRule {
        chain: chain.to_owned(),
        position: index + 1,
        text: text.clone().filter(|text| !of_others(text)),
    })
    .collect()
}

/// A rule as the tools can be told it: all of it is understood, and a pod that names its interfaces as it likes does not write our text.
pub(crate) fn tellable(rule: &FoundRule) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" -_./:,!=+".contains(&byte);
    let is_understood = |rule: &FoundRule| {
        rule.conditions.iter().all(|condition| condition.known().is_some())
            && matches!(rule.actions.as_slice(), [only] if !matches!(only, Action::Unknown(_)))
    };
    let parsed = save::rule(&rule.text).ok().filter(is_understood)?;
    let says_as_much = is_understood(rule) && parsed.conditions.len() == rule.conditions.len();
    (says_as_much && rule.text.bytes().all(is_plain)).then(|| rule.text.clone())
}

/// Our part of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableResidue {
    pub(crate) family: Family,
    pub(crate) table: Table,
    pub(crate) chains: Vec<OwnChain>,
    /// In order of position.
    pub(crate) rules: Vec<OwnRule>,
}

/// Our part of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Residue {
    /// The tables that hold anything of ours.
    pub(crate) tables: Vec<TableResidue>,
    /// True unless that is exactly what is wanted.
    pub(crate) differs: bool,
}

impl Residue {
    pub(crate) fn table(&self, family: Family, table: Table) -> Option<&TableResidue> {
        self.tables.iter().find(|found| (found.family, found.table) == (family, table))
    }
}

/// Our part of iptables' tables, and whether it is what `wanted` asks for. Tables of another form than `form` only count as different.
pub(crate) fn residue(found: &FoundRules, wanted: &Ruleset, form: Form) -> Residue {
    let mut residue = Residue { tables: Vec::new(), differs: !to_rewrite(found, wanted, form).is_empty() };
    for family in [Family::V4, Family::V6] {
        let chains = wanted.chains(family);
        for table in Table::ALL {
            let Some(state) = found.find(form.family(family), table.name()) else { continue };
            let wanted_chains = || chains.iter().filter(|chain| chain.table == table);
            let ours = Ours::of(state, &wanted.rules);
            let rules = state.chains.iter().filter(|chain| chain.is_built_in()).flat_map(|chain| {
                let rules = wanted_chains().find(|wanted| chain.name == wanted.chain.name());
                let rules = rules.map_or(&[][..], |chain| &chain.rules);
                let marked = chain.rules.iter().map(|rule| (tellable(rule), ours.has(chain, rule, rules)));
                own_rules(&chain.name, &marked.collect::<Vec<_>>())
            });
            let (chains, rules) = (own_chains(state), rules.collect::<Vec<_>>());
            if !chains.is_empty() || !rules.is_empty() {
                residue.tables.push(TableResidue { family, table, chains, rules });
            }
        }
    }
    residue
}

fn own_chains(table: &FoundTable) -> Vec<OwnChain> {
    let own = table.chains.iter().filter(|chain| chain.is_ours());
    own.map(|chain| OwnChain { held: table.is_held(&chain.name), name: chain.name.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_told_unless_another_reads_the_same() {
        let rules =
            [("-i x -j RETURN", false), ("-j ISTIO_OUTPUT", true), ("-i x -j RETURN", true), ("?", true)];
        let rules = rules.map(|(text, own)| (tellable(&save::rule(text).unwrap()), own));
        let found = own_rules("OUTPUT", &rules);
        let found: Vec<_> = found.iter().map(|rule| (rule.position, rule.text.as_deref())).collect();
        assert_eq!(found, [(2, Some("-j ISTIO_OUTPUT")), (3, None), (4, None)]);
    }

    #[test]
    fn what_is_not_understood_whole_is_not_told() {
        let is_tellable = |text: &str| save::rule(text).is_ok_and(|rule| tellable(&rule).is_some());
        assert!(is_tellable(
            "! -d 127.0.0.1/32 -o lo -p tcp -m owner --uid-owner 1337 -j MARK --set-xmark 0x53a/0xffffffff"
        ));
        for text in [
            "-m limit --limit 5/min -j ISTIO_OUTPUT",
            "-j DNAT --to-destination 1.2.3.4",
            "-i x",
            "-i \"x y\" -j ISTIO_OUTPUT",
            "-i x -j ISTIO_A\n-F",
            "-m comment --comment 'x' -j ISTIO_OUTPUT",
        ] {
            assert!(!is_tellable(text), "{text}");
        }
    }
}
