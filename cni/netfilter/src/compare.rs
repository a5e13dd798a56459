// SPDX-License-Identifier: Apache-2.0
//! How what a namespace holds differs from what is wanted; pure. Rules of others do not count, nor where they stand; in the tables
//! of the native back end there are no others.

mod native;

use std::collections::BTreeMap;
use std::fmt;

use redirect::ruleset::{Chain, Dialect, Ruleset};

use crate::describe::describe;
use crate::encode::{EncodeError, Hook};
use crate::expression::Meaning;
use crate::home::Home;
use crate::nft;
use crate::ours::{OwnTable, Survey};
use crate::snapshot::{ChainState, Name, NfFamily, RuleState, Snapshot, TableState};
use crate::wanted::{Wanted, WantedChain, WantedRule, WantedTable};

/// Where a chain is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Family of the table.
    pub family: NfFamily,
    /// The table.
    pub table: Name,
    /// The chain.
    pub chain: Name,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.family, self.table, self.chain)
    }
}

/// One difference, fit for a person through its `Display`. Rules are spelled as `iptables -S` does, those of the
/// native back end as `nft list` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The ruleset cannot be written, so nothing can hold it.
    Unencodable(EncodeError),
    /// A table holds rules of the back end that is not wanted.
    OtherBackend {
        /// Family of the table: `inet` is the native back end's.
        family: NfFamily,
        /// The table.
        table: Name,
    },
    /// A table of the native back end is there that is not wanted.
    UnexpectedTable {
        /// Family of the table.
        family: NfFamily,
        /// The table.
        table: Name,
    },
    /// A table is switched off as a whole.
    Dormant {
        /// Family of the table.
        family: NfFamily,
        /// The table.
        table: Name,
    },
    /// A chain is not there.
    MissingChain(Place),
    /// A chain of ours is there that is not wanted.
    UnexpectedChain(Place),
    /// A chain is not called from where it should be.
    WrongHook(Place),
    /// A chain drops what none of its rules decides.
    WrongPolicy(Place),
    /// A rule is not there.
    MissingRule {
        /// Its chain.
        place: Place,
        /// 1-based position among our rules of the chain.
        position: usize,
        /// The rule.
        rule: String,
    },
    /// A rule is there that is not wanted, or once more than it is.
    UnexpectedRule {
        /// Its chain.
        place: Place,
        /// 1-based position among our rules of the chain.
        position: usize,
        /// The rule.
        rule: String,
    },
    /// All rules are there, in another order.
    Order(Place),
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unencodable(error) => {
                write!(out, "the rules cannot be written: {error}")?;
                match std::error::Error::source(error) {
                    Some(source) => write!(out, ": {source}"),
                    None => Ok(()),
                }
            }
            Self::OtherBackend { family, table } => {
                let backend = if *family == NfFamily::Inet { "native nftables" } else { "iptables" };
                write!(out, "table {family} {table} holds rules of the {backend} back end")
            }
            Self::UnexpectedTable { family, table } => write!(out, "table {family} {table} is not expected"),
            Self::Dormant { family, table } => write!(out, "table {family} {table} is dormant"),
            Self::MissingChain(place) => write!(out, "chain {place} is missing"),
            Self::UnexpectedChain(place) => write!(out, "chain {place} is not expected"),
            Self::WrongHook(place) => write!(out, "chain {place} is not called from its usual hook"),
            Self::WrongPolicy(place) => write!(out, "chain {place} drops what no rule decides"),
            Self::MissingRule { place, position, rule } => {
                write!(out, "rule {position} of {place} is missing: {rule}")
            }
            Self::UnexpectedRule { place, position, rule } => {
                write!(out, "rule {position} of {place} is not expected: {rule}")
            }
            Self::Order(place) => write!(out, "the rules of {place} are in another order"),
        }
    }
}

/// All differences; none means that the namespace redirects as wanted.
#[must_use]
pub fn compare(snapshot: &Snapshot, wanted: &Ruleset) -> Vec<Difference> {
    match Wanted::new(wanted) {
        Ok(wanted) => differences(&Survey::new(snapshot, &wanted), &wanted),
        Err(error) => vec![Difference::Unencodable(error)],
    }
}

/// The differences between what is ours and what is wanted.
pub(crate) fn differences(survey: &Survey<'_>, wanted: &Wanted<'_>) -> Vec<Difference> {
    match wanted.ruleset.dialect {
        Dialect::Iptables => of_iptables(survey, wanted),
        Dialect::Nft => native::differences(survey, wanted),
    }
}

fn of_iptables(survey: &Survey<'_>, wanted: &Wanted<'_>) -> Vec<Difference> {
    let mut found: Vec<_> = survey.native.iter().map(|(_, table)| other_backend(table)).collect();
    for table in &wanted.tables {
        missing(table, survey.table(table.home), &mut found);
    }
    for own in &survey.tables {
        unexpected(own, wanted.table(own.home), &mut found);
    }
    found
}

fn other_backend(table: &TableState) -> Difference {
    Difference::OtherBackend { family: table.family, table: table.name.clone() }
}

fn place(home: Home, chain: Chain) -> Place {
    Place {
        family: home.family,
        table: Name::new(home.table_name().as_bytes()),
        chain: Name::new(home.chain_name(chain).as_bytes()),
    }
}

/// Goes through the wanted chains of a table.
fn missing(wanted: &WantedTable<'_>, own: Option<&OwnTable<'_>>, found: &mut Vec<Difference>) {
    if let Some(own) = own {
        dormant(own.state, found);
    }
    for chain in &wanted.chains {
        let place = place(wanted.home, chain.chain);
        let Some((own, state)) = own.and_then(|own| Some((own, own.state.chain(chain.chain.name())?))) else {
            found.push(Difference::MissingChain(place));
            continue;
        };
        if !is_hooked(wanted, chain, state) {
            found.push(Difference::WrongHook(place.clone()));
        }
        if chain.chain.is_builtin() {
            let rules: Vec<_> = own.own_rules(chain.chain.name()).collect();
            compare_rules(&place, &chain.rules, &rules, found);
        } else {
            let rules: Vec<_> = state.rules.iter().collect();
            compare_rules(&place, &chain.rules, &rules, found);
        }
    }
}

fn dormant(table: &TableState, found: &mut Vec<Difference>) {
    if table.flags & nft::TABLE_DORMANT != 0 {
        found.push(Difference::Dormant { family: table.family, table: table.name.clone() });
    }
}

/// Whether the kernel calls a chain from where it should, or, for a chain of ours, does not call it at all.
pub(crate) fn is_hooked(table: &WantedTable<'_>, chain: &WantedChain<'_>, state: &ChainState) -> bool {
    match (Hook::of(table.home.table, chain.chain), &state.base) {
        (None, None) => true,
        (Some(hook), Some(base)) => {
            (hook.number, hook.priority) == (base.hook, base.priority) && base.kind == hook.kind
        }
        _ => false,
    }
}

/// Goes through what is ours in a table and finds the chains and rules that are not wanted.
fn unexpected(own: &OwnTable<'_>, wanted: Option<&WantedTable<'_>>, found: &mut Vec<Difference>) {
    let wants =
        |chain: &ChainState| wanted.is_some_and(|wanted| wanted.chain(chain.name.as_bytes()).is_some());
    // Empty and jumped to by others, a chain does nothing and cannot be deleted.
    let is_shell = |chain: &ChainState| chain.rules.is_empty() && own.is_held(&chain.name.to_string());
    for chain in own.chains.iter().filter(|chain| !wants(chain) && !is_shell(chain)) {
        found.push(Difference::UnexpectedChain(state_place(own.state, chain)));
    }
    for (chain, _) in own.built_in.iter().filter(|(chain, _)| !wants(chain)) {
        let name = chain.name.to_string();
        let rules: Vec<_> = own.own_rules(&name).collect();
        compare_rules(&state_place(own.state, chain), &[], &rules, found);
    }
}

fn state_place(table: &TableState, chain: &ChainState) -> Place {
    Place { family: table.family, table: table.name.clone(), chain: chain.name.clone() }
}

/// Pairs each wanted rule with one that is there; what is left on either side differs.
fn compare_rules(
    place: &Place,
    wanted: &[WantedRule<'_>],
    rules: &[&RuleState],
    found: &mut Vec<Difference>,
) {
    let meanings: Vec<_> = rules.iter().map(|state| Meaning::of(&state.expressions)).collect();
    let mut free = vec![true; rules.len()];
    let mut elsewhere = None;
    let mut in_order = true;
    let mut complete = true;
    for (index, rule) in wanted.iter().enumerate() {
        let meaning = Meaning::of(&rule.expressions);
        // The one at the same position first: of two equal rules neither is then out of order.
        let here = free.get(index) == Some(&true) && meanings.get(index) == Some(&meaning);
        let at = if here {
            Some(index)
        } else {
            in_order = false;
            let places = elsewhere.get_or_insert_with(|| places(&meanings)).get_mut(&meaning);
            places.and_then(|places| {
                std::iter::from_fn(|| places.pop()).find(|at| free.get(*at) == Some(&true))
            })
        };
        match at.and_then(|at| free.get_mut(at)) {
            Some(free) => *free = false,
            None => {
                complete = false;
                let text = describe(place.family, &rule.expressions);
                found.push(Difference::MissingRule { place: place.clone(), position: index + 1, rule: text });
            }
        }
    }
    for (index, (state, _)) in rules.iter().zip(&free).enumerate().filter(|(_, (_, free))| **free) {
        complete = false;
        let text = describe(place.family, &state.expressions);
        found.push(Difference::UnexpectedRule { place: place.clone(), position: index + 1, rule: text });
    }
    if complete && !in_order {
        found.push(Difference::Order(place.clone()));
    }
}

/// Where each meaning is found, the first place last.
fn places<'a, 'b>(meanings: &'b [Meaning<'a>]) -> BTreeMap<&'b Meaning<'a>, Vec<usize>> {
    let mut places = BTreeMap::<_, Vec<usize>>::new();
    for (at, meaning) in meanings.iter().enumerate().rev() {
        places.entry(meaning).or_default().push(at);
    }
    places
}

#[cfg(test)]
mod tests {
    use redirect::generate::ruleset;

    use super::*;
    use crate::encode::batch;
    use crate::fake::{commit, ordinary, untouched};
    use crate::nft::UNTOUCHED;

    /// The differences after `change` was done to the rules of `ISTIO_INBOUND` (IPv4): one for the tunnel port, two for excluded
    /// ports, one that redirects.
    fn after(change: impl FnOnce(&mut Vec<RuleState>)) -> Vec<String> {
        let wanted = ruleset(&ordinary()).unwrap();
        let mut snapshot = untouched();
        commit(&mut snapshot, &batch(&wanted, Some(UNTOUCHED)).unwrap());
        let tables = snapshot.tables.iter_mut().filter(|table| table.family == NfFamily::Ip);
        let mut chains = tables.flat_map(|table| &mut table.chains);
        let inbound = chains.find(|chain| chain.name == "ISTIO_INBOUND").unwrap();
        assert_eq!(inbound.rules.len(), 4);
        change(&mut inbound.rules);
        compare(&snapshot, &wanted).iter().map(|difference| difference.to_string()).collect()
    }

    #[test]
    fn each_rule_has_one_partner_wherever_it_stands() {
        const PLACE: &str = "ip nat ISTIO_INBOUND";
        assert_eq!(after(|_| ()), [""; 0]);
        assert_eq!(after(|rules| rules.swap(1, 3)), [format!("the rules of {PLACE} are in another order")]);
        assert_eq!(
            after(|rules| drop(rules.remove(0))),
            [format!("rule 1 of {PLACE} is missing: -p tcp -m tcp --dport 15008 -j RETURN")]
        );
        assert_eq!(
            after(|rules| rules.insert(1, rules[0].clone())),
            [format!("rule 2 of {PLACE} is not expected: -p tcp -m tcp --dport 15008 -j RETURN")]
        );
        let twice = after(|rules| rules[3] = rules[0].clone());
        assert_eq!(twice.len(), 2, "{twice:?}");
        assert!(twice[0].starts_with(&format!("rule 4 of {PLACE} is missing")), "{twice:?}");
        assert!(twice[1].starts_with(&format!("rule 4 of {PLACE} is not expected")), "{twice:?}");
    }
}
