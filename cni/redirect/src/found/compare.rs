// SPDX-License-Identifier: Apache-2.0
//! Differences between found and wanted rules, in plain words. It knows rules by what they mean ([`super::same`]) and
//! ours among them by [`super::ours`]. Rules of others are told where they can keep packets from ours.

use std::cell::LazyCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::config::{Config, ConfigError};
use crate::generate::ruleset;
use crate::ruleset::{ChainRules, Dialect, Family, Rule, Ruleset};
use crate::text;

pub use super::difference::{ChainPlace, Difference, RuleOf};

use super::ours::Ours;
use super::same::Meaning;
use super::{FoundChain, FoundFamily, FoundRule, FoundRules, FoundTable, Policy};

/// In which form rules of ours are there: the dialects of which anything was found, and legacy tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Tables of `ip` and `ip6` with chains `ISTIO_*`.
    Iptables,
    /// The same in tables of legacy iptables.
    Legacy,
    /// Tables `inet istio-proxy-*`.
    Native,
}

impl Form {
    /// The dialect of rules in this form.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Iptables | Self::Legacy => Dialect::Iptables,
            Self::Native => Dialect::Nft,
        }
    }

    fn of(family: FoundFamily) -> Self {
        match family {
            FoundFamily::One(_) => Self::Iptables,
            FoundFamily::Legacy(_) => Self::Legacy,
            FoundFamily::Inet => Self::Native,
        }
    }

    /// The family of its tables.
    #[must_use]
    pub fn family(self, family: Family) -> FoundFamily {
        match self {
            Self::Iptables => FoundFamily::One(family),
            Self::Legacy => FoundFamily::Legacy(family),
            Self::Native => FoundFamily::Inet,
        }
    }
}

/// Name of the back end that writes this form.
impl fmt::Display for Form {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Iptables => "nft-compat",
            Self::Legacy => "iptables-legacy",
            Self::Native => "nft",
        })
    }
}

/// The forms in which rules of ours were found, each once.
#[must_use]
pub fn forms(rules: &FoundRules) -> Vec<Form> {
    let mut forms: Vec<Form> =
        rules.tables.iter().filter(|table| table.holds_ours()).map(|table| Form::of(table.family)).collect();
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// All differences from what `config` asks for, in the form in which rules of ours are: any form redirects.
///
/// # Errors
/// When no rules can be made of `config`.
pub fn differences_from(found: &FoundRules, config: &Config) -> Result<Vec<Difference>, ConfigError> {
    let form = forms(found).first().copied().unwrap_or(Form::Iptables);
    let wanted = ruleset(&config.clone().in_dialect(form.dialect()))?;
    Ok(differences(found, &wanted, form))
}

/// All differences from `wanted`, which must be of `form`'s dialect; none means that the rules redirect as wanted.
#[must_use]
pub fn differences(found: &FoundRules, wanted: &Ruleset, form: Form) -> Vec<Difference> {
    if !found.hold_ours() {
        return vec![Difference::NoRules];
    }
    let mut differences = Vec::new();
    let holds = |table: &FoundTable| table.holds_ours() || table.holds_dns();
    for table in found.tables.iter().filter(|table| Form::of(table.family) != form && holds(table)) {
        differences.push(Difference::SecondSet(table.family, table.name.clone()));
    }
    in_form(&mut differences, found, wanted, form);
    differences
}

/// The differences that end when the rules are written anew. Unlike [`differences`] these count what redirects nothing (an empty table or chain
/// of ours in another form), and not what belongs to others: rules before ours, the policy of a chain of iptables.
#[must_use]
pub fn to_rewrite(found: &FoundRules, wanted: &Ruleset, form: Form) -> Vec<Difference> {
    let mut differences = Vec::new();
    for table in found.tables.iter().filter(|table| Form::of(table.family) != form) {
        let mut traces = Vec::new();
        leftovers(&mut traces, table, &wanted.rules, |_| false);
        if table.is_native() || !traces.is_empty() {
            differences.push(Difference::SecondSet(table.family, table.name.clone()));
        }
    }
    in_form(&mut differences, found, wanted, form);
    differences.retain(|difference| match difference {
        Difference::Foreign(_) => false,
        Difference::Drops(place) => place.family == FoundFamily::Inet,
        _ => true,
    });
    differences
}

fn in_form(out: &mut Vec<Difference>, found: &FoundRules, wanted: &Ruleset, form: Form) {
    let families: &[Family] = if form == Form::Native { &[Family::V4] } else { &[Family::V4, Family::V6] };
    for family in families {
        let chains = match form {
            Form::Native => wanted.inet_chains(),
            Form::Iptables | Form::Legacy => wanted.chains(*family),
        };
        in_family(out, found, (&chains, &wanted.rules), (form, form.family(*family)));
    }
}

fn in_family(
    out: &mut Vec<Difference>,
    found: &FoundRules,
    (wanted, rules): (&[ChainRules<'_>], &[Rule]),
    (form, family): (Form, FoundFamily),
) {
    let dialect = form.dialect();
    let names = |chain: &ChainRules<'_>| (chain.table.name_in(dialect), chain.chain.name_in(dialect));
    let tables = || found.tables.iter().filter(|table| table.family == family);
    for chain in wanted {
        let (table_name, chain_name) = names(chain);
        let place = ChainPlace { family, table: table_name.to_owned(), chain: chain_name.to_owned() };
        let table = tables().find(|table| table.name == table_name);
        let held = table.and_then(|table| table.find(chain_name));
        match (table, held) {
            (Some(table), Some(held)) => in_chain(out, &place, (chain, rules, form), (table, held)),
            _ => out.push(Difference::MissingChain(place)),
        }
    }
    for table in tables() {
        if table.is_native() && !wanted.iter().any(|chain| names(chain).0 == table.name) {
            out.push(Difference::UnexpectedTable(table.family, table.name.clone()));
        } else {
            leftovers(out, table, rules, |name| {
                wanted.iter().any(|chain| names(chain) == (table.name.as_str(), name))
            });
        }
    }
}

/// Our own chains and rules outside of the wanted chains.
fn leftovers(
    out: &mut Vec<Difference>,
    table: &FoundTable,
    rules: &[Rule],
    is_wanted: impl Fn(&str) -> bool,
) {
    let is_of_iptables = table.is_of_iptables();
    if !is_of_iptables && !table.is_native() {
        return;
    }
    let ours = LazyCell::new(|| Ours::of(table, rules));
    for held in table.chains.iter().filter(|held| !is_wanted(&held.name)) {
        let place =
            || ChainPlace { family: table.family, table: table.name.clone(), chain: held.name.clone() };
        // Empty and jumped to by others, a chain does nothing and cannot be deleted.
        let is_shell = || held.rules.is_empty() && table.is_held(&held.name);
        if table.is_native() || (held.is_ours() && !is_shell()) {
            out.push(Difference::UnexpectedChain(place()));
        } else if held.is_built_in() {
            for (index, rule) in held.rules.iter().enumerate().filter(|(_, rule)| ours.has(held, rule, &[])) {
                let rule = RuleOf { place: place(), position: index + 1, rule: rule.text.clone() };
                out.push(Difference::Unexpected(rule));
            }
        }
    }
}

fn in_chain(
    out: &mut Vec<Difference>,
    place: &ChainPlace,
    (wanted, rules, form): (&ChainRules<'_>, &[Rule], Form),
    (table, held): (&FoundTable, &FoundChain),
) {
    match held.entry {
        None if wanted.chain.is_builtin() => out.push(Difference::NotCalled(place.clone())),
        Some(entry) if entry.policy == Policy::Drop => out.push(Difference::Drops(place.clone())),
        _ => {}
    }
    let rule_of = |position: usize, rule: String| RuleOf { place: place.clone(), position, rule };
    let ours = Ours::of(table, rules);
    let is_ours =
        |rule: &FoundRule| table.owns(held) || table.is_native() || ours.has(held, rule, &wanted.rules);
    let numbered = || held.rules.iter().enumerate().map(|(index, rule)| (index + 1, rule));
    let ours: Vec<(usize, &FoundRule)> = numbered().filter(|(_, rule)| is_ours(rule)).collect();
    let last = ours.last().map_or(0, |(position, _)| *position);
    for (position, rule) in numbered().take_while(|(position, _)| *position < last) {
        if !is_ours(rule) {
            out.push(Difference::Foreign(rule_of(position, rule.text.clone())));
        }
    }
    let wants: Vec<_> =
        wanted.rules.iter().map(|rule| Meaning::wanted(rule, form.dialect(), place.family)).collect();
    let holds: Vec<_> = ours.iter().map(|(_, rule)| Meaning::found(rule, place.family)).collect();
    let (missing, extra) = unmatched(&wants, &holds);
    for index in &missing {
        let rule = text::rule(form.dialect(), wanted.rules[*index]);
        out.push(Difference::Missing(rule_of(index + 1, rule)));
    }
    for (position, rule) in extra.iter().map(|index| ours[*index]) {
        out.push(Difference::Unexpected(rule_of(position, rule.text.clone())));
    }
    if missing.is_empty() && extra.is_empty() && !in_order(&wanted.rules, &wants, &holds) {
        out.push(Difference::Order(place.clone()));
    }
}

/// True if equally many rules decide as the wanted ones do. Neighbours that do the same may change places: an init container names
/// the excluded ports in another order than the CNI plugin.
fn in_order(wanted: &[&Rule], wants: &[Meaning], holds: &[Option<Meaning>]) -> bool {
    let mut start = 0;
    wanted.chunk_by(|one, next| one.target == next.target).all(|alike| {
        let at = start..start + alike.len();
        start = at.end;
        let (wants, holds) = (&wants[at.clone()], holds.get(at).unwrap_or_default());
        let (missing, extra) = unmatched(wants, holds);
        missing.is_empty() && extra.is_empty()
    })
}

/// The missing and the unexpected rules by index: each found rule stands for one wanted rule.
fn unmatched(wants: &[Meaning], holds: &[Option<Meaning>]) -> (Vec<usize>, Vec<usize>) {
    if wants.len() == holds.len() && wants.iter().zip(holds).all(|(want, held)| Some(want) == held.as_ref()) {
        return (Vec::new(), Vec::new());
    }
    let mut free = BTreeMap::<_, VecDeque<usize>>::new();
    for (index, held) in holds.iter().enumerate() {
        free.entry(held.as_ref()).or_default().push_back(index);
    }
    let mut missing = Vec::new();
    for (index, want) in wants.iter().enumerate() {
        if free.get_mut(&Some(want)).and_then(VecDeque::pop_front).is_none() {
            missing.push(index);
        }
    }
    let mut extra: Vec<usize> = free.into_values().flatten().collect();
    extra.sort_unstable();
    (missing, extra)
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
