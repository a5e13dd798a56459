// SPDX-License-Identifier: Apache-2.0
//! What a namespace holds in the form in which it is judged and compared ([`redirect::live`]); pure.
//!
//! A rule of nf_tables is first spelled ([`crate::describe`]) and then read like anybody's listing: there is one reader of rules.

use redirect::live::{
    Action, ChainKind, Condition, Entry, LiveChain, LiveFamily, LiveHook, LiveRule, LiveRules, LiveTable,
    Policy, native, save,
};
use redirect::ruleset::{Dialect, Family, Match, Target};
use redirect::text;

use crate::describe::describe;
use crate::legacy::{self, Legacy, LegacyChain, LegacyRule, LegacyTable};
use crate::snapshot::{ChainState, NfFamily, RuleState, Snapshot, TableState};

/// Everything that nf_tables and legacy iptables hold.
#[must_use]
pub fn live(snapshot: &Snapshot, legacy: &Legacy) -> LiveRules {
    let tables = snapshot.tables.iter().map(table);
    LiveRules { tables: tables.chain(legacy.tables.iter().map(legacy_table)).collect() }
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
    }
}

fn rule(family: NfFamily, state: &RuleState) -> LiveRule {
    let text = describe(family, &state.expressions);
    let packets = state.counter.map(|counter| counter.packets);
    let read = match family {
        NfFamily::Inet => native::rule(&text),
        NfFamily::Ip | NfFamily::Ip6 => save::rule(&text).unwrap_or_else(|_| unreadable(text)),
    };
    LiveRule { packets, ..read }
}

/// A rule that no tool would list like that.
fn unreadable(text: String) -> LiveRule {
    LiveRule {
        conditions: vec![Condition::Unknown(text.clone())],
        actions: Vec::new(),
        dialect: Dialect::Iptables,
        text,
        packets: None,
    }
}

fn legacy_table(state: &LegacyTable) -> LiveTable {
    let name = state.table.name();
    LiveTable {
        family: LiveFamily::Legacy(state.family),
        name: name.to_owned(),
        chains: state.chains.iter().map(|found| legacy_chain(name, found)).collect(),
    }
}

fn legacy_chain(table: &str, state: &LegacyChain) -> LiveChain {
    let name = state.name.to_string();
    let entry = state.policy.and_then(|policy| {
        let policy = match policy {
            legacy::Policy::Accept => Policy::Accept,
            legacy::Policy::Drop => Policy::Drop,
        };
        Some(Entry { policy, ..save::entry(table, &name)? })
    });
    LiveChain { name, entry, rules: state.rules.iter().map(legacy_rule).collect() }
}

fn legacy_rule(state: &LegacyRule) -> LiveRule {
    let conditions = state.conditions.iter().map(|condition| match condition {
        legacy::Condition::Known(known) => Condition::Known(known.clone()),
        legacy::Condition::Other(name) => Condition::Unknown(format!("-m {name}")),
    });
    LiveRule {
        conditions: conditions.collect(),
        actions: legacy_actions(&state.action),
        dialect: Dialect::Iptables,
        text: spell(state),
        packets: Some(state.counter.packets),
    }
}

fn legacy_actions(action: &legacy::Action) -> Vec<Action> {
    vec![match action {
        legacy::Action::Nothing => Action::Nothing,
        legacy::Action::Jump(chain) => Action::Jump(chain.to_string()),
        legacy::Action::Goto(chain) => Action::Goto(chain.to_string()),
        legacy::Action::Other(name) => Action::Unknown(format!("-j {name}")),
        legacy::Action::Known(target) => match target {
            Target::Accept => Action::Accept,
            Target::Drop => Action::Drop,
            Target::Return => Action::Return,
            Target::Redirect { port } => Action::Redirect(*port),
            Target::SetMark(mark) => Action::SetMark(*mark),
            Target::Tproxy { mark, port } => {
                return vec![Action::SetMark(*mark), Action::Tproxy(*port), Action::Accept];
            }
            Target::SaveMark => Action::SaveMark,
            Target::RestoreMark => Action::RestoreMark,
            Target::CtZone(zone) => Action::CtZone(*zone),
            // Jumps have an action of their own.
            Target::Jump(chain) => Action::Jump(chain.name().to_owned()),
        },
    }]
}

/// A rule in the words of `iptables -S`.
pub(crate) fn spell(state: &LegacyRule) -> String {
    let known: Vec<Match> = state
        .conditions
        .iter()
        .filter_map(|condition| match condition {
            legacy::Condition::Known(known) => Some(known.clone()),
            legacy::Condition::Other(_) => None,
        })
        .collect();
    let other = state.conditions.iter().filter_map(|condition| match condition {
        legacy::Condition::Known(_) => None,
        legacy::Condition::Other(name) => Some(format!("-m {name}")),
    });
    let target = match &state.action {
        legacy::Action::Nothing => None,
        legacy::Action::Jump(chain) => Some(format!("-j {chain}")),
        legacy::Action::Goto(chain) => Some(format!("-g {chain}")),
        legacy::Action::Other(name) => Some(format!("-j {name}")),
        legacy::Action::Known(target) => Some(text::target(target, &known)),
    };
    known.iter().map(text::condition).chain(other).chain(target).collect::<Vec<_>>().join(" ")
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
        live(&applied(wanted), &Legacy::default())
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
        let found = live(&snapshot, &Legacy::default());
        let said = differences(&found, &wanted, Form::Iptables);
        assert!(
            said.iter().any(|said| said.to_string().ends_with("the kernel does not call it")),
            "{said:?}"
        );
    }
}
