// SPDX-License-Identifier: Apache-2.0
//! Transaction that makes a namespace hold a ruleset; pure.
//!
//! One transaction deletes what is ours ([`crate::ours`]) and writes what is wanted. Rules and chains of others stay where they are,
//! among themselves and in front of what upstream would append behind them. A chain of ours that a rule of somebody else
//! jumps to is emptied but not deleted: the kernel would refuse. Built-in chains and tables of iptables are never deleted, those of
//! the native back end always: they are made anew.

use redirect::found::compare::ChainPlace;
use redirect::ruleset::{Chain, Dialect, Family, Rule, RulePlace, Ruleset};

use crate::encode::{self, EncodeError, Hook, Position, begin_message};
use crate::found::{differences, family, without_text};
use crate::home::Home;
use crate::nft::{self, attribute, message};
use crate::ours::{OwnTable, Survey, native_tables};
use crate::snapshot::{ChainState, Name, NfFamily, Snapshot};
use crate::wanted::{Wanted, WantedChain, WantedTable};
use crate::wire::Writer;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: the wanted rules are there, and nothing else of ours.
    Nothing,
    /// This transaction has to be sent. It commits only at the snapshot's generation.
    Send {
        /// The transaction.
        batch: Vec<u8>,
        /// True if something of ours is replaced.
        replaces: bool,
    },
}

/// Conflict of a ruleset with what the namespace holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A rule cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Somebody switched the table off as a whole.
    #[error("apply rules: table {family} {table} is dormant, rules in it would never run")]
    Dormant {
        /// Family of the table.
        family: NfFamily,
        /// The table.
        table: Name,
    },
    /// A chain has a built-in chain's name and is not called from its hook.
    #[error("apply rules: chain {0} exists and is not called from where iptables calls it")]
    WrongHook(ChainPlace),
}

/// Plans the way from what a namespace holds to what is wanted.
///
/// # Errors
/// If a rule cannot be encoded, or what is there makes it impossible.
pub fn plan(snapshot: &Snapshot, ruleset: &Ruleset) -> Result<Plan, PlanError> {
    let wanted = Wanted::new(ruleset);
    let found = without_text(snapshot);
    let survey = Survey::new(snapshot, &found, &wanted);
    for table in &wanted.tables {
        check(table, survey.table(table.home))?;
    }
    if differences(&found, ruleset).is_empty() && are_hooked(&survey, &wanted) {
        return Ok(Plan::Nothing);
    }
    let mut out = encode::begin(Some(snapshot.generation));
    for own in &survey.tables {
        delete_own(&mut out, own);
    }
    delete_tables(&mut out, survey.native.iter().map(|(home, _)| *home));
    match ruleset.dialect {
        Dialect::Nft => encode::native_tables(&mut out, ruleset)?,
        Dialect::Iptables => {
            for table in &wanted.tables {
                create(&mut out, table, survey.table(table.home), ruleset)?;
            }
        }
    }
    Ok(Plan::Send { batch: encode::end(out), replaces: !survey.is_empty() })
}

/// Transaction that removes the tables of the native back end and nothing else; none if there are none. It commits only at the
/// snapshot's generation.
pub(crate) fn without_native(snapshot: &Snapshot) -> Option<Vec<u8>> {
    let mut homes = native_tables(snapshot).map(|(home, _)| home).peekable();
    homes.peek()?;
    let mut out = encode::begin(Some(snapshot.generation));
    delete_tables(&mut out, homes);
    Some(encode::end(out))
}

fn delete_tables(out: &mut Writer, homes: impl Iterator<Item = Home>) {
    for home in homes {
        begin_message(out, message::DEL_TABLE, 0, home.family.number());
        out.name(attribute::TABLE_NAME, home.table_name().as_bytes());
    }
}

/// Checks that wanted rules run where they go.
fn check(wanted: &WantedTable<'_>, own: Option<&OwnTable<'_>>) -> Result<(), PlanError> {
    let Some(own) = own else { return Ok(()) };
    if own.state.flags & nft::TABLE_DORMANT != 0 {
        return Err(PlanError::Dormant { family: own.state.family, table: own.state.name.clone() });
    }
    for chain in wanted.chains.iter().filter(|chain| chain.chain.is_builtin()) {
        if let Some(state) = own.state.chain(chain.chain.name())
            && !is_hooked(wanted, chain, state)
        {
            return Err(PlanError::WrongHook(ChainPlace {
                family: family(wanted.home.family),
                table: own.state.name.to_string(),
                chain: state.name.to_string(),
            }));
        }
    }
    Ok(())
}

/// True if each wanted chain that is there is called from where it should. A chain's type and priority matter here alone: somebody else
/// who made the chain beforehand has chosen them.
fn are_hooked(survey: &Survey<'_>, wanted: &Wanted<'_>) -> bool {
    wanted.tables.iter().all(|table| {
        let state = survey.table(table.home).map(|own| own.state).or_else(|| survey.native(table.home));
        state.is_none_or(|state| {
            let there = |chain: &WantedChain<'_>| state.chain(table.home.chain_name(chain.chain));
            table.chains.iter().all(|chain| there(chain).is_none_or(|there| is_hooked(table, chain, there)))
        })
    })
}

/// True if the kernel calls a chain from where it should, or, for a chain of ours, does not call it at all.
fn is_hooked(table: &WantedTable<'_>, chain: &WantedChain<'_>, state: &ChainState) -> bool {
    match (Hook::of(table.home.table, chain.chain), &state.base) {
        (None, None) => true,
        (Some(hook), Some(base)) => {
            (hook.number, hook.priority) == (base.hook, base.priority) && base.kind == hook.kind
        }
        _ => false,
    }
}

fn delete_own(out: &mut Writer, own: &OwnTable<'_>) {
    let family = own.home.family.number();
    let table = own.home.table_name().as_bytes();
    for (chain, flags) in &own.built_in {
        for (rule, _) in chain.rules.iter().zip(flags).filter(|(_, own)| **own) {
            begin_message(out, message::DEL_RULE, 0, family);
            out.name(attribute::RULE_TABLE, table);
            out.name(attribute::RULE_CHAIN, chain.name.as_bytes());
            out.be64(attribute::RULE_HANDLE, rule.handle);
        }
    }
    // All rules before any chain: chains refer to each other.
    for chain in own.chains.iter().filter(|chain| !chain.rules.is_empty()) {
        begin_message(out, message::DEL_RULE, 0, family);
        out.name(attribute::RULE_TABLE, table);
        out.name(attribute::RULE_CHAIN, chain.name.as_bytes());
    }
    for chain in own.chains.iter().filter(|chain| !own.is_held(&chain.name.to_string())) {
        begin_message(out, message::DEL_CHAIN, 0, family);
        out.name(attribute::CHAIN_TABLE, table);
        out.name(attribute::CHAIN_NAME, chain.name.as_bytes());
    }
}

fn create(
    out: &mut Writer,
    wanted: &WantedTable<'_>,
    own: Option<&OwnTable<'_>>,
    ruleset: &Ruleset,
) -> Result<(), EncodeError> {
    let home = wanted.home;
    if own.is_none() {
        encode::table(out, home);
    }
    let stays = |chain: Chain| {
        own.is_some_and(|own| {
            own.state
                .chain(chain.name())
                .is_some_and(|state| chain.is_builtin() || own.is_held(&state.name.to_string()))
        })
    };
    for chain in wanted.chains.iter().filter(|chain| !chain.chain.is_builtin() && !stays(chain.chain)) {
        encode::own_chain(out, home, chain.chain);
    }
    for chain in &wanted.chains {
        match Hook::of(home.table, chain.chain) {
            Some(hook) => {
                if !stays(chain.chain) {
                    encode::base_chain(out, home, chain.chain, hook);
                }
                let foreign = own.map_or_else(Vec::new, |own| foreign_rules(own, chain.chain));
                for (rule, position) in order(ruleset, (wanted, chain.chain), foreign) {
                    encode::rule(out, home.family, rule, position)?;
                }
            }
            None => {
                for rule in &chain.rules {
                    encode::rule(out, home.family, rule, Position::End)?;
                }
            }
        }
    }
    Ok(())
}

/// Handles of the rules of others in a built-in chain, in order.
fn foreign_rules(own: &OwnTable<'_>, chain: Chain) -> Vec<u64> {
    own.built_in
        .iter()
        .filter(|(state, _)| state.name == chain.name())
        .flat_map(|(state, flags)| state.rules.iter().zip(flags))
        .filter(|(_, own)| !**own)
        .map(|(rule, _)| rule.handle)
        .collect()
}

/// Our rules of a built-in chain in final order, each with its place among the rules of others, as if each had been appended or
/// inserted by itself in order of emission.
fn order<'a>(
    ruleset: &'a Ruleset,
    (wanted, chain): (&WantedTable<'_>, Chain),
    foreign: Vec<u64>,
) -> Vec<(&'a Rule, Position)> {
    let mut list: Vec<Result<&Rule, u64>> = foreign.into_iter().map(Err).collect();
    let family = if wanted.home.family == NfFamily::Ip6 { Family::V6 } else { Family::V4 };
    for rule in ruleset.rules_of(family, wanted.home.table).filter(|rule| rule.chain == chain) {
        match rule.place {
            RulePlace::Append => list.push(Ok(rule)),
            RulePlace::Insert(at) => {
                list.insert(usize::from(at).saturating_sub(1).min(list.len()), Ok(rule));
            }
        }
    }
    let mut position = Position::End;
    let mut ordered = Vec::with_capacity(list.len());
    for entry in list.into_iter().rev() {
        match entry {
            Ok(rule) => ordered.push((rule, position)),
            Err(handle) => position = Position::Before(handle),
        }
    }
    ordered.reverse();
    ordered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use redirect::config::{Config, Dns, Mode};
    use redirect::generate::ruleset;
    use redirect::ruleset::{Family, Match, Origin, Port, Protocol, RulePlace, Scope, Sense, Table, Target};

    use super::*;
    use crate::fake::{FOREIGN, commit, ordinary, rulesets, untouched};
    use crate::snapshot::{ChainState, RuleState};
    use crate::{compare, has_rules_of_ours};

    /// Plans and commits; tells whether anything was sent.
    fn settle(snapshot: &mut Snapshot, ruleset: &Ruleset) -> bool {
        match plan(snapshot, ruleset).unwrap() {
            Plan::Nothing => false,
            Plan::Send { batch, .. } => {
                commit(snapshot, &batch);
                true
            }
        }
    }

    #[test]
    fn native_tables_go_and_the_rest_stays_as_it_is() {
        let mut snapshot = untouched();
        settle(&mut snapshot, &ruleset(&ordinary()).unwrap());
        assert_eq!(without_native(&snapshot), None);
        let iptables = snapshot.tables.clone();
        let mut native = untouched();
        settle(&mut native, &ruleset(&Config { dialect: Dialect::Nft, ..ordinary() }).unwrap());
        snapshot.tables.extend(native.tables);
        let batch = without_native(&snapshot).unwrap();
        commit(&mut snapshot, &batch);
        assert_eq!(snapshot.tables, iptables);
    }

    /// A rule that nobody of ours would write, told from others by its port.
    fn foreign(port: u16) -> RuleState {
        let rule = Rule {
            table: Table::Nat,
            chain: Chain::Output,
            scope: Scope::Both,
            place: RulePlace::Append,
            matches: vec![Match::Protocol(Protocol::Udp), Match::SourcePort(Sense::Not, Port::One(port))],
            target: Target::Accept,
            origin: Origin::Always,
        };
        RuleState {
            handle: FOREIGN + u64::from(port),
            counter: None,
            expressions: encode::expressions(NfFamily::Ip, &rule).unwrap(),
            userdata: Vec::new(),
        }
    }

    /// Puts rules of others into built-in chains of iptables at arbitrary places.
    fn scatter(snapshot: &mut Snapshot, places: &[(usize, usize)]) {
        let mut chains: Vec<_> = snapshot
            .tables
            .iter_mut()
            .filter(|table| table.family != NfFamily::Inet)
            .flat_map(|table| &mut table.chains)
            .filter(|chain| chain.base.is_some())
            .collect();
        if chains.is_empty() {
            return;
        }
        let count = chains.len();
        for (port, (chain, at)) in (1..).zip(places) {
            let rules = &mut chains[chain % count].rules;
            rules.insert(at % (rules.len() + 1), foreign(port));
        }
    }

    fn foreign_handles(snapshot: &Snapshot) -> Vec<u64> {
        let rules = snapshot.tables.iter().flat_map(|table| &table.chains).flat_map(|chain| &chain.rules);
        rules.map(|rule| rule.handle).filter(|handle| *handle >= FOREIGN).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_was_there_of_ours_ends_as_wanted_and_others_stay(
            before in rulesets(),
            after in rulesets(),
            places in proptest::collection::vec((any::<usize>(), any::<usize>()), 0..12),
        ) {
            let mut snapshot = untouched();
            prop_assert!(settle(&mut snapshot, &before));
            scatter(&mut snapshot, &places);
            let others = foreign_handles(&snapshot);
            prop_assert!(!settle(&mut snapshot, &before), "others do not matter");
            let sent = settle(&mut snapshot, &after);
            prop_assert_eq!(compare(&snapshot, &after), vec![]);
            prop_assert_eq!(foreign_handles(&snapshot), others);
            prop_assert!(!settle(&mut snapshot, &after), "twice changes nothing");
            prop_assert!(sent || compare(&snapshot, &before).is_empty());
            prop_assert!(has_rules_of_ours(&snapshot));
        }

        #[test]
        fn a_state_that_lost_any_of_our_rules_is_replaced(
            wanted in rulesets(),
            lost in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        ) {
            let mut snapshot = untouched();
            settle(&mut snapshot, &wanted);
            let whole = snapshot.clone();
            for (chain, rule) in lost {
                let mut chains: Vec<_> = snapshot.tables.iter_mut().flat_map(|table| &mut table.chains)
                    .filter(|chain| !chain.rules.is_empty()).collect();
                let chain = chain.index(chains.len());
                let rules = &mut chains[chain].rules;
                rules.remove(rule.index(rules.len()));
            }
            prop_assert!(!compare(&snapshot, &wanted).is_empty());
            prop_assert!(settle(&mut snapshot, &wanted));
            prop_assert_eq!(compare(&snapshot, &wanted), vec![]);
            let count = |snapshot: &Snapshot| snapshot.counters().count();
            prop_assert_eq!(count(&snapshot), count(&whole));
        }

        #[test]
        fn the_batch_for_an_untouched_namespace_is_what_is_planned_for_it(wanted in rulesets()) {
            let mut planned = untouched();
            settle(&mut planned, &wanted);
            let mut sent = untouched();
            commit(&mut sent, &encode::batch(&wanted, Some(nft::UNTOUCHED)).unwrap());
            prop_assert_eq!(sent, planned);
        }

        #[test]
        fn expressions_of_any_bytes_are_planned_around(
            wanted in rulesets(),
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut snapshot = untouched();
            settle(&mut snapshot, &wanted);
            for chain in snapshot.tables.iter_mut().flat_map(|table| &mut table.chains) {
                let odd = RuleState { handle: 200_000, counter: None, expressions: bytes.clone(), userdata: Vec::new() };
                chain.rules.insert(0, odd);
            }
            let _differences = compare(&snapshot, &wanted);
            prop_assert!(plan(&snapshot, &wanted).is_ok());
        }
    }

    #[test]
    fn a_chain_that_stays_because_others_jump_to_it_does_not_count_as_a_difference() {
        let wanted = ruleset(&ordinary()).unwrap();
        let with_dns = ruleset(&Config { dns: Dns::All, ..ordinary() }).unwrap();
        let mut snapshot = untouched();
        settle(&mut snapshot, &with_dns);
        let is_jump = |rule: &&Rule| rule.target == Target::Jump(Chain::IstioOutputDns);
        let jump = with_dns.rules_of(Family::V4, Table::Nat).find(is_jump).unwrap();
        let expressions = encode::expressions(NfFamily::Ip, jump).unwrap();
        let rule = RuleState { expressions, ..foreign(1) };
        let nat = snapshot.tables.iter_mut().find(|table| table.name == "nat").unwrap();
        nat.chains.push(ChainState { name: Name::new(b"MINE"), handle: 0, base: None, rules: vec![rule] });
        assert!(settle(&mut snapshot, &wanted));
        assert!(snapshot.table(NfFamily::Ip, "nat").unwrap().chain("ISTIO_OUTPUT_DNS").is_some());
        assert_eq!(compare(&snapshot, &wanted), vec![]);
        assert!(!settle(&mut snapshot, &wanted), "twice changes nothing");
    }

    #[test]
    fn an_interface_that_others_excluded_before_or_after_us_stays_excluded() {
        let wanted = ruleset(&ordinary()).unwrap();
        let excluding = |name: &'static str| {
            ruleset(&Config { exclude_interfaces: vec![name.into()], ..ordinary() }).unwrap()
        };
        let pair = |snapshot: &mut Snapshot, name: &'static str, handles: [u64; 2]| {
            let rules = excluding(name);
            for (rule, handle) in rules.rules_of(Family::V4, Table::Nat).take(2).zip(handles) {
                let expressions = encode::expressions(NfFamily::Ip, rule).unwrap();
                let table = snapshot.tables.iter_mut().find(|table| table.family == NfFamily::Ip).unwrap();
                let chains = &mut table.chains;
                let chain = chains.iter_mut().find(|chain| chain.name == rule.chain.name()).unwrap();
                chain.rules.push(RuleState { expressions, handle, ..foreign(0) });
            }
        };
        let mut snapshot = untouched();
        settle(&mut snapshot, &wanted);
        settle(&mut snapshot, &Ruleset { rules: Vec::new(), ..wanted.clone() });
        pair(&mut snapshot, "before", [3, 4]);
        assert!(settle(&mut snapshot, &excluding("ours")));
        pair(&mut snapshot, "after", [FOREIGN, FOREIGN + 1]);
        assert!(!settle(&mut snapshot, &excluding("ours")), "twice changes nothing");
        assert!(settle(&mut snapshot, &wanted), "what we excluded goes");
        assert!(!settle(&mut snapshot, &wanted));
        let built_in = |chain: &&ChainState| chain.base.is_some();
        let table = snapshot.table(NfFamily::Ip, "nat").unwrap();
        let counts: Vec<_> = table.chains.iter().filter(built_in).map(|chain| chain.rules.len()).collect();
        assert_eq!(counts, [3, 3], "two of others and a jump of ours in each chain");
    }

    #[test]
    fn what_others_put_into_a_native_table_goes_with_it() {
        let wanted = ruleset(&Config { dialect: Dialect::Nft, ..ordinary() }).unwrap();
        let mut whole = untouched();
        settle(&mut whole, &wanted);
        let chain = ChainState { name: Name::new(b"mine"), handle: 9, base: None, rules: Vec::new() };
        let changes: [fn(&mut crate::snapshot::TableState, ChainState); 5] = [
            |table, chain| table.chains.push(chain),
            |table, _| table.chains[0].rules.insert(0, foreign(1)),
            |table, _| table.flags = nft::TABLE_DORMANT,
            |table, _| table.chains[0].base.as_mut().unwrap().policy = 0,
            |table, _| table.chains[0].base.as_mut().unwrap().priority = 7,
        ];
        for change in changes {
            let mut snapshot = whole.clone();
            change(&mut snapshot.tables[0], chain.clone());
            assert!(settle(&mut snapshot, &wanted));
            assert_eq!(compare(&snapshot, &wanted), vec![]);
            assert_eq!(snapshot.tables.len(), whole.tables.len());
            assert_eq!(snapshot.counters().count(), whole.counters().count());
        }
    }

    #[test]
    fn marks_of_an_older_configuration_are_known_from_its_chains() {
        let older = Config { mode: Mode::Tproxy, tproxy_mark: 77, ..ordinary() };
        let wanted = ruleset(&older).unwrap();
        for dialect in [Dialect::Iptables, Dialect::Nft] {
            let mut snapshot = untouched();
            settle(&mut snapshot, &wanted);
            assert!(settle(&mut snapshot, &ruleset(&Config { dialect, ..ordinary() }).unwrap()));
            let mangle = snapshot.table(NfFamily::Ip, "mangle").unwrap();
            assert_eq!(mangle.chains.iter().map(|chain| chain.rules.len()).sum::<usize>(), 0);
        }
    }

    #[test]
    fn no_rules_wanted_removes_ours_and_nothing_else() {
        let wanted = ruleset(&ordinary()).unwrap();
        let nothing = Ruleset { dialect: wanted.dialect, ipv6: true, rules: Vec::new() };
        let mut snapshot = untouched();
        assert_eq!(plan(&snapshot, &nothing), Ok(Plan::Nothing));
        settle(&mut snapshot, &wanted);
        scatter(&mut snapshot, &[(0, 0), (1, 1), (2, 5)]);
        assert!(settle(&mut snapshot, &nothing));
        assert!(!has_rules_of_ours(&snapshot));
        assert_eq!(snapshot.counters().count(), 3);
    }
}
