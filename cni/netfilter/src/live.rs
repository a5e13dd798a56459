// SPDX-License-Identifier: Apache-2.0
//! nf_tables' snapshot as [`redirect::live`]; pure.

use redirect::live::{ChainKind, Entry, LiveChain, LiveFamily, LiveHook, LiveRules, LiveTable, Policy};
use redirect::ruleset::Family;

use crate::decode::decode;
use crate::snapshot::{ChainState, NfFamily, Snapshot, TableState};

/// Everything that nf_tables holds.
#[must_use]
pub fn live(snapshot: &Snapshot) -> LiveRules {
    LiveRules { tables: snapshot.tables.iter().map(table).collect() }
}

pub(crate) fn table(state: &TableState) -> LiveTable {
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
        rules: state.rules.iter().map(|found| decode(family, found)).collect(),
        handle: Some(state.handle),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redirect::Config;
    use redirect::generate::ruleset;
    use redirect::live::compare::{Form, differences};
    use redirect::ruleset::{Dialect, Ruleset};

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
