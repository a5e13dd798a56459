// SPDX-License-Identifier: Apache-2.0
//! nf_tables' snapshot as [`redirect::found`], and compared as such; pure.

use redirect::found::compare::{Difference, Form, to_rewrite};
use redirect::found::{ChainKind, Entry, FoundChain, FoundFamily, FoundHook, FoundRules, FoundTable, Policy};
use redirect::ruleset::{Dialect, Family, Ruleset};

use crate::decode::decode;
use crate::describe::describe;
use crate::snapshot::{ChainState, NfFamily, Snapshot, TableState};

/// Everything that nf_tables holds.
#[must_use]
pub fn found_rules(snapshot: &Snapshot) -> FoundRules {
    let mut found = without_text(snapshot);
    for (table, state) in found.tables.iter_mut().zip(&snapshot.tables) {
        for (chain, held) in table.chains.iter_mut().zip(&state.chains) {
            for (rule, held) in chain.rules.iter_mut().zip(&held.rules) {
                rule.text = describe(state.family, &held.expressions);
            }
        }
    }
    found
}

/// The same for those who print no rule.
pub(crate) fn without_text(snapshot: &Snapshot) -> FoundRules {
    FoundRules { tables: snapshot.tables.iter().map(table).collect() }
}

/// Changes from writing `wanted` into a snapshot's namespace ([`to_rewrite`]), but for where the kernel calls chains from.
#[must_use]
pub fn compare(snapshot: &Snapshot, wanted: &Ruleset) -> Vec<Difference> {
    match differences(&without_text(snapshot), wanted) {
        same if same.is_empty() => same,
        _ => differences(&found_rules(snapshot), wanted),
    }
}

pub(crate) fn differences(found: &FoundRules, wanted: &Ruleset) -> Vec<Difference> {
    to_rewrite(found, wanted, form(wanted.dialect))
}

/// Form of a dialect in nf_tables.
fn form(dialect: Dialect) -> Form {
    match dialect {
        Dialect::Iptables => Form::Iptables,
        Dialect::Nft => Form::Native,
    }
}

pub(crate) fn family(family: NfFamily) -> FoundFamily {
    match family {
        NfFamily::Ip => FoundFamily::One(Family::V4),
        NfFamily::Ip6 => FoundFamily::One(Family::V6),
        NfFamily::Inet => FoundFamily::Inet,
    }
}

fn table(state: &TableState) -> FoundTable {
    // The kernel does not call the chains of a dormant table.
    let is_called = state.flags & crate::nft::TABLE_DORMANT == 0;
    FoundTable {
        family: family(state.family),
        name: state.name.to_string(),
        chains: state.chains.iter().map(|found| chain(state.family, found, is_called)).collect(),
    }
}

/// The hooks by their number (`NF_INET_*`).
const HOOKS: [FoundHook; 5] =
    [FoundHook::Prerouting, FoundHook::Input, FoundHook::Forward, FoundHook::Output, FoundHook::Postrouting];

fn chain(family: NfFamily, state: &ChainState, is_called: bool) -> FoundChain {
    let entry = state.base.as_ref().filter(|_| is_called).and_then(|base| {
        Some(Entry {
            hook: *HOOKS.get(usize::try_from(base.hook).ok()?)?,
            priority: base.priority,
            kind: if base.kind == "nat" { ChainKind::First } else { ChainKind::Every },
            policy: if base.policy == 0 { Policy::Drop } else { Policy::Accept },
        })
    });
    FoundChain {
        name: state.name.to_string(),
        entry,
        rules: state.rules.iter().map(|found| decode(family, found)).collect(),
        handle: Some(state.handle),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redirect::Config;
    use redirect::found::compare::differences;
    use redirect::generate::ruleset;

    use super::*;
    use crate::encode::batch;
    use crate::fake::{commit, ordinary, rulesets, untouched};
    use crate::snapshot::Snapshot;

    fn applied(wanted: &Ruleset) -> Snapshot {
        let mut snapshot = untouched();
        commit(&mut snapshot, &batch(wanted, None).unwrap());
        snapshot
    }

    fn held(wanted: &Ruleset) -> FoundRules {
        found_rules(&applied(wanted))
    }

    proptest! {
        #[test]
        fn what_the_kernel_holds_of_a_ruleset_is_that_ruleset(wanted in rulesets()) {
            prop_assert_eq!(differences(&held(&wanted), &wanted, form(wanted.dialect)), []);
        }
    }

    #[test]
    fn another_ruleset_is_another() {
        let wanted = ruleset(&ordinary()).unwrap();
        let other = ruleset(&Config { proxy_port: 1, ..ordinary() }).unwrap();
        assert_eq!(differences(&held(&other), &wanted, Form::Iptables).len(), 4, "a port in two families");
    }

    #[test]
    fn a_dormant_table_is_not_called() {
        let wanted = ruleset(&ordinary()).unwrap();
        let mut snapshot = applied(&wanted);
        snapshot.tables[0].flags = crate::nft::TABLE_DORMANT;
        let found = found_rules(&snapshot);
        let said = differences(&found, &wanted, Form::Iptables);
        assert!(
            said.iter().any(|said| said.to_string().ends_with("the kernel does not call it")),
            "{said:?}"
        );
    }
}
