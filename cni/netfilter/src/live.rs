// SPDX-License-Identifier: Apache-2.0
//! What nf_tables holds in the form in which it is judged and compared ([`redirect::live`]); pure.
//!
//! A rule of nf_tables is first spelled ([`crate::describe`]) and then read like anybody's listing: there is one reader of rules.

use redirect::live::{
    ChainKind, Condition, Entry, LiveChain, LiveFamily, LiveHook, LiveRule, LiveRules, LiveTable, Policy,
    native, save,
};
use redirect::ruleset::{Dialect, Family};

use crate::describe::describe;
use crate::snapshot::{ChainState, NfFamily, RuleState, Snapshot, TableState};

/// Everything that nf_tables holds.
#[must_use]
pub fn live(snapshot: &Snapshot) -> LiveRules {
    LiveRules { tables: snapshot.tables.iter().map(table).collect() }
}

fn table(state: &TableState) -> LiveTable {
    let family = match state.family {
        NfFamily::Ip => LiveFamily::One(Family::V4),
        NfFamily::Ip6 => LiveFamily::One(Family::V6),
        NfFamily::Inet => LiveFamily::Inet,
    };
    // The kernel does not call the chains of a dormant table.
    let is_called = state.flags & crate::nft::TABLE_DORMANT == 0;
    LiveTable {
        family,
        name: state.name.to_string(),
        chains: state.chains.iter().map(|found| chain(state.family, found, is_called)).collect(),
    }
}

/// The hooks by their number (`NF_INET_*`).
const HOOKS: [LiveHook; 5] =
    [LiveHook::Prerouting, LiveHook::Input, LiveHook::Forward, LiveHook::Output, LiveHook::Postrouting];

fn chain(family: NfFamily, state: &ChainState, is_called: bool) -> LiveChain {
    let entry = state.base.as_ref().filter(|_| is_called).and_then(|base| {
        Some(Entry {
            hook: *HOOKS.get(usize::try_from(base.hook).ok()?)?,
            priority: base.priority,
            kind: if base.kind == "nat" { ChainKind::First } else { ChainKind::Every },
            policy: if base.policy == 0 { Policy::Drop } else { Policy::Accept },
        })
    });
    LiveChain {
        name: state.name.to_string(),
        entry,
        rules: state.rules.iter().map(|found| rule(family, found)).collect(),
        handle: Some(state.handle),
    }
}

pub(crate) fn rule(family: NfFamily, state: &RuleState) -> LiveRule {
    let text = describe(family, &state.expressions);
    let packets = state.counter.map(|counter| counter.packets);
    let read = match family {
        NfFamily::Inet => native::rule(&text),
        NfFamily::Ip | NfFamily::Ip6 => save::rule(&text).unwrap_or_else(|_| unreadable(text)),
    };
    LiveRule { packets, handle: Some(state.handle), ..read }
}

/// A rule that no tool would list like that.
fn unreadable(text: String) -> LiveRule {
    LiveRule {
        conditions: vec![Condition::Unknown(text.clone())],
        actions: Vec::new(),
        dialect: Dialect::Iptables,
        text,
        packets: None,
        handle: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redirect::Config;
    use redirect::generate::ruleset;
    use redirect::live::compare::{Form, differences};
    use redirect::ruleset::Ruleset;

    use super::*;
    use crate::encode::batch;
    use crate::fake::{commit, ordinary, rulesets, untouched};
    use crate::snapshot::Snapshot;

    fn applied(wanted: &Ruleset) -> Snapshot {
        let mut snapshot = untouched();
        commit(&mut snapshot, &batch(wanted, None).unwrap());
        snapshot
    }

    fn held(wanted: &Ruleset) -> LiveRules {
        live(&applied(wanted))
    }

    proptest! {
        #[test]
        fn what_the_kernel_holds_of_a_ruleset_is_that_ruleset(wanted in rulesets()) {
            let form = match wanted.dialect {
                Dialect::Iptables => Form::Iptables,
                Dialect::Nft => Form::Native,
            };
            prop_assert_eq!(differences(&held(&wanted), &wanted, form), []);
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
        let found = live(&snapshot);
        let said = differences(&found, &wanted, Form::Iptables);
        assert!(
            said.iter().any(|said| said.to_string().ends_with("the kernel does not call it")),
            "{said:?}"
        );
    }
}
