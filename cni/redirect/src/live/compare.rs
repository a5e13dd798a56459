// SPDX-License-Identifier: Apache-2.0
//! Differences between found and wanted rules, in plain words. It knows rules by what they mean ([`super::same`]) and
//! ours among them by [`super::ours`]. Rules of others are told where they can keep packets from ours.

use std::fmt;

use crate::config::{Config, ConfigError};
use crate::generate::ruleset;
use crate::ruleset::{ChainRules, Dialect, Family, Rule, Ruleset};
use crate::text;

use super::ours::Ours;
use super::same::same;
use super::{LiveChain, LiveFamily, LiveRule, LiveRules, LiveTable, Policy};

/// Where a chain is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The table's family.
    pub family: LiveFamily,
    /// The table's name.
    pub table: String,
    /// The chain's name.
    pub chain: String,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.family, self.table, self.chain)
    }
}

/// A rule of a place, by its 1-based position among all rules of its chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuleOf {
    /// Its chain.
    pub place: Place,
    /// Its position: that of the wanted rule if it is missing.
    pub position: usize,
    /// The rule without its chain.
    pub rule: String,
}

/// One difference, fit for a person through its `Display`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Difference {
    /// Nothing of ours is there at all.
    #[error("there is no redirection: all traffic bypasses the proxy")]
    NoRules,
    /// Two sets of rules of ours are there.
    #[error("rules are also in table {0} {1}: two sets of rules count and redirect twice")]
    SecondSet(LiveFamily, String),
    /// A chain is not there.
    #[error("chain {0} is missing")]
    MissingChain(Place),
    /// A chain of ours is there that is not wanted.
    #[error("chain {0} is not expected")]
    UnexpectedChain(Place),
    /// The kernel does not call a chain that it should.
    #[error("chain {0} is there, and the kernel does not call it")]
    NotCalled(Place),
    /// A chain drops what none of its rules decides.
    #[error("chain {0} drops what no rule decides")]
    Drops(Place),
    /// A rule is not there.
    #[error("rule {} of {} is missing: {}", .0.position, .0.place, .0.rule)]
    Missing(RuleOf),
    /// A rule of ours is there that is not wanted, or once more than it is.
    #[error("rule {} of {} is not expected: {}", .0.position, .0.place, .0.rule)]
    Unexpected(RuleOf),
    /// All rules are there, in an order that decides otherwise.
    #[error("the rules of {0} are in another order")]
    Order(Place),
    /// A rule of somebody else comes before one of ours and may keep packets from it.
    #[error("rule {} of {} is somebody else's and comes before ours: {}", .0.position, .0.place, .0.rule)]
    Foreign(RuleOf),
}

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

    fn of(family: LiveFamily) -> Self {
        match family {
            LiveFamily::One(_) => Self::Iptables,
            LiveFamily::Legacy(_) => Self::Legacy,
            LiveFamily::Inet => Self::Native,
        }
    }

    fn family(self, family: Family) -> LiveFamily {
        match self {
            Self::Iptables => LiveFamily::One(family),
            Self::Legacy => LiveFamily::Legacy(family),
            Self::Native => LiveFamily::Inet,
        }
    }
}

/// The forms in which rules of ours were found, each once.
#[must_use]
pub fn forms(rules: &LiveRules) -> Vec<Form> {
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
pub fn differences_from(found: &LiveRules, config: &Config) -> Result<Vec<Difference>, ConfigError> {
    let form = forms(found).first().copied().unwrap_or(Form::Iptables);
    let wanted = ruleset(&Config { dialect: form.dialect(), ..config.clone() })?;
    Ok(differences(found, &wanted, form))
}

/// All differences from `wanted`, which must be of `form`'s dialect; none means that the rules redirect as wanted.
#[must_use]
pub fn differences(found: &LiveRules, wanted: &Ruleset, form: Form) -> Vec<Difference> {
    if !found.hold_ours() {
        return vec![Difference::NoRules];
    }
    let mut differences = Vec::new();
    for table in found.tables.iter().filter(|table| table.holds_ours() && Form::of(table.family) != form) {
        differences.push(Difference::SecondSet(table.family, table.name.clone()));
    }
    let families: &[Family] = if form == Form::Native { &[Family::V4] } else { &[Family::V4, Family::V6] };
    for family in families {
        let chains = match form {
            Form::Native => wanted.inet_chains(),
            Form::Iptables | Form::Legacy => wanted.chains(*family),
        };
        in_family(&mut differences, found, (&chains, &wanted.rules), (form, form.family(*family)));
    }
    differences
}

fn in_family(
    out: &mut Vec<Difference>,
    found: &LiveRules,
    (wanted, rules): (&[ChainRules<'_>], &[Rule]),
    (form, family): (Form, LiveFamily),
) {
    let names = |chain: &ChainRules<'_>| match form {
        Form::Native => (chain.table.native_name(), chain.chain.native_name()),
        Form::Iptables | Form::Legacy => (chain.table.name(), chain.chain.name()),
    };
    let tables = || found.tables.iter().filter(|table| table.family == family);
    for chain in wanted {
        let (table_name, chain_name) = names(chain);
        let place = Place { family, table: table_name.to_owned(), chain: chain_name.to_owned() };
        let table = tables().find(|table| table.name == table_name);
        let held = table.and_then(|table| table.chains.iter().find(|found| found.name == chain_name));
        match (table, held) {
            (Some(table), Some(held)) => in_chain(out, &place, (chain, rules, form), (table, held)),
            _ => out.push(Difference::MissingChain(place)),
        }
    }
    for table in tables() {
        for held in table.chains.iter().filter(|held| table.owns(held)) {
            if !wanted.iter().any(|chain| names(chain) == (table.name.as_str(), held.name.as_str())) {
                let place = Place { family, table: table.name.clone(), chain: held.name.clone() };
                out.push(Difference::UnexpectedChain(place));
            }
        }
    }
}

fn in_chain(
    out: &mut Vec<Difference>,
    place: &Place,
    (wanted, rules, form): (&ChainRules<'_>, &[Rule], Form),
    (table, held): (&LiveTable, &LiveChain),
) {
    match held.entry {
        None if wanted.chain.is_builtin() => out.push(Difference::NotCalled(place.clone())),
        Some(entry) if entry.policy == Policy::Drop => out.push(Difference::Drops(place.clone())),
        _ => {}
    }
    let rule_of = |position: usize, rule: String| RuleOf { place: place.clone(), position, rule };
    let ours = Ours::of(table, rules);
    let is_ours =
        |rule: &LiveRule| table.owns(held) || table.is_native() || ours.has(held, rule, &wanted.rules);
    let numbered = || held.rules.iter().enumerate().map(|(index, rule)| (index + 1, rule));
    let ours: Vec<(usize, &LiveRule)> = numbered().filter(|(_, rule)| is_ours(rule)).collect();
    let last = ours.last().map_or(0, |(position, _)| *position);
    for (position, rule) in numbered().take_while(|(position, _)| *position < last) {
        if !is_ours(rule) {
            out.push(Difference::Foreign(rule_of(position, rule.text.clone())));
        }
    }
    let (missing, extra) = unmatched(&wanted.rules, &ours);
    for index in &missing {
        let rule = text::rule(form.dialect(), wanted.rules[*index]);
        out.push(Difference::Missing(rule_of(index + 1, rule)));
    }
    for (position, rule) in &extra {
        out.push(Difference::Unexpected(rule_of(*position, rule.text.clone())));
    }
    if missing.is_empty() && extra.is_empty() && !in_order(&wanted.rules, &ours) {
        out.push(Difference::Order(place.clone()));
    }
}

/// Whether rules of the same number decide as the wanted ones do. Neighbours that do the same may change places: an init container names
/// the excluded ports in another order than the CNI plugin.
fn in_order(wanted: &[&Rule], ours: &[(usize, &LiveRule)]) -> bool {
    let mut start = 0;
    wanted.chunk_by(|one, next| one.target == next.target).all(|alike| {
        let found = ours.get(start..start + alike.len()).unwrap_or_default();
        start += alike.len();
        let (missing, extra) = unmatched(alike, found);
        missing.is_empty() && extra.is_empty()
    })
}

/// The wanted rules that nothing stands for, and the found ones that stand for nothing: each found rule stands for one wanted rule.
fn unmatched<'a>(
    wanted: &[&Rule],
    ours: &[(usize, &'a LiveRule)],
) -> (Vec<usize>, Vec<(usize, &'a LiveRule)>) {
    let mut free: Vec<(usize, &LiveRule)> = ours.to_vec();
    let mut missing = Vec::new();
    for (index, rule) in wanted.iter().enumerate() {
        match free.iter().position(|(_, found)| same(rule, found)) {
            Some(at) => drop(free.remove(at)),
            None => missing.push(index),
        }
    }
    (missing, free)
}

#[cfg(test)]
mod tests;
