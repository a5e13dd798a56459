// SPDX-License-Identifier: Apache-2.0
//! Reads rules as `nft list` writes them: one rule ([`rule`]), or all of `nft list ruleset` ([`parse`]).

mod reader;

use crate::ruleset::Family;

use super::{ChainKind, Entry, FoundFamily, FoundHook, FoundRule, FoundRules, Policy};
use reader::Reader;

/// Text that `nft list ruleset` does not print.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ListError {
    /// 1-based.
    pub line: usize,
    /// Its error.
    pub reason: ListReason,
}

/// Error in a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListReason {
    /// Something outside of a table or a chain that belongs into one.
    #[error("{0:?} is outside of any table")]
    Outside(String),
    /// The head of a chain that cannot be read.
    #[error("{0:?} does not say where the chain is called from")]
    Hook(String),
    /// The text ends inside of a table or a chain.
    #[error("the text ends before the last \"}}\"")]
    Unclosed,
}

/// One rule, without its chain. Nothing here is an error: what cannot be read cannot be judged.
#[must_use]
pub fn rule(text: &str) -> FoundRule {
    Reader::new(text).read()
}

/// Where the reader is.
enum Nesting {
    Outside,
    Table(FoundFamily, String),
    Chain(FoundFamily, String, String),
    /// A set, a map, a flow table, or a table of a family that does not matter: so many brackets deep, and where it is.
    Skipped(usize, Box<Self>),
}

/// Reads what `nft list ruleset` prints, with or without `--stateless`.
///
/// # Errors
/// The first line that cannot be read.
pub fn parse(text: &str) -> Result<FoundRules, ListError> {
    let mut rules = FoundRules::default();
    let mut place = Nesting::Outside;
    for (index, line) in text.lines().enumerate() {
        let read = next(&mut rules, place, line.trim());
        place = read.map_err(|reason| ListError { line: index + 1, reason })?;
    }
    match place {
        Nesting::Outside => Ok(rules),
        _ => Err(ListError { line: text.lines().count(), reason: ListReason::Unclosed }),
    }
}

fn next(rules: &mut FoundRules, place: Nesting, line: &str) -> Result<Nesting, ListReason> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(place);
    }
    match place {
        Nesting::Skipped(depth, back) => {
            let depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
            Ok(if depth == 0 { *back } else { Nesting::Skipped(depth, back) })
        }
        Nesting::Outside => outside(rules, line),
        Nesting::Table(family, name) => Ok(in_table(rules, family, name, line)),
        Nesting::Chain(family, table, _) if line == "}" => Ok(Nesting::Table(family, table)),
        Nesting::Chain(family, table, name) => {
            let chain = rules.table(family, &table).chain(&name);
            match line.strip_prefix("type ") {
                Some(head) if chain.rules.is_empty() => {
                    chain.entry = entry(head).ok_or_else(|| ListReason::Hook(line.to_owned()))?;
                }
                // A comment on the chain.
                _ if line.starts_with("comment \"") => {}
                _ => chain.rules.push(rule(line)),
            }
            Ok(Nesting::Chain(family, table, name))
        }
    }
}

fn outside(rules: &mut FoundRules, line: &str) -> Result<Nesting, ListReason> {
    let words: Vec<_> = line.split_whitespace().collect();
    let ["table", family, name, "{"] = words.as_slice() else {
        return Err(ListReason::Outside(line.to_owned()));
    };
    let family = match *family {
        "ip" => FoundFamily::One(Family::V4),
        "ip6" => FoundFamily::One(Family::V6),
        "inet" => FoundFamily::Inet,
        _ => return Ok(Nesting::Skipped(1, Box::new(Nesting::Outside))),
    };
    rules.table(family, name);
    Ok(Nesting::Table(family, (*name).to_owned()))
}

fn in_table(rules: &mut FoundRules, family: FoundFamily, table: String, line: &str) -> Nesting {
    let words: Vec<_> = line.split_whitespace().collect();
    match words.as_slice() {
        ["}"] => Nesting::Outside,
        ["chain", name, "{"] => {
            rules.table(family, &table).chain(name);
            Nesting::Chain(family, table, (*name).to_owned())
        }
        _ if line.ends_with('{') => Nesting::Skipped(1, Box::new(Nesting::Table(family, table))),
        _ => Nesting::Table(family, table),
    }
}

/// `nat hook output priority dstnat; policy accept;`, behind `type`. Chains of hooks that do not matter have no entry.
fn entry(head: &str) -> Option<Option<Entry>> {
    let mut statements = head.split(';').map(str::trim);
    let mut words = statements.next()?.split_whitespace();
    let kind = if words.next()? == "nat" { ChainKind::First } else { ChainKind::Every };
    let ("hook", hook) = (words.next()?, words.next()?) else { return None };
    let mut words = words.skip_while(|word| *word != "priority").skip(1);
    let priority = priority(words.next()?, words.collect::<String>().as_str())?;
    let policy = if statements.next() == Some("policy drop") { Policy::Drop } else { Policy::Accept };
    Some(FoundHook::from_name(hook).map(|hook| Entry { hook, priority, kind, policy }))
}

/// A number, or one of nft's names (nft(8), standard priority names) with a number added.
fn priority(name: &str, offset: &str) -> Option<i32> {
    let base = match name {
        "raw" => -300,
        "mangle" => -150,
        "dstnat" => -100,
        "filter" => 0,
        "security" => 50,
        "srcnat" => 100,
        number => return number.parse().ok(),
    };
    match offset {
        "" => Some(base),
        offset => offset.parse::<i32>().ok()?.checked_add(base),
    }
}

/// Family of a name that nft has for it (`meta nfproto`).
pub(in crate::found) fn family(name: &str) -> Option<Family> {
    match name {
        "ipv4" => Some(Family::V4),
        "ipv6" => Some(Family::V6),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
