// SPDX-License-Identifier: Apache-2.0
//! Reads `iptables-save` and `ip6tables-save` output, and restore text: tables, chains, rules, counters.
//!
//! Matches and targets that rules of ours can have are understood in all the spellings that upstream, `iptables-save` and people
//! use; what else there is becomes [`super::Condition::Unknown`] or [`super::Action::Unknown`].

mod rule;
mod target;
mod words;

use crate::ruleset::Family;

use super::{
    ChainKind, Entry, FoundChain, FoundFamily, FoundHook, FoundRule, FoundRules, FoundTable, Policy,
};
use words::Words;

/// Text that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SaveError {
    /// 1-based.
    pub line: usize,
    /// Its error.
    pub reason: SaveReason,
}

/// Error in a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaveReason {
    /// A rule or a chain before any `*table`.
    #[error("this belongs into a table, and none was begun (\"*nat\")")]
    NoTable,
    /// Nothing that such a text has.
    #[error("{0:?} is neither a table, a chain, a rule nor COMMIT")]
    Unreadable(String),
    /// A quotation without an end.
    #[error("a quotation mark is not closed")]
    Quotation,
    /// An option without its value.
    #[error("option {0} needs a value")]
    NoValue(String),
    /// A value that cannot be.
    #[error("{value:?} cannot be the value of option {option}")]
    Value {
        /// The option.
        option: String,
        /// The value.
        value: String,
    },
    /// A counter that is none.
    #[error("{0:?} is no counter like [12:3456]")]
    Counter(String),
    /// An insert behind the end of a chain.
    #[error("position {0} is behind the end of the chain")]
    Position(usize),
}

/// Reads the text of one family.
///
/// # Errors
/// The first line that cannot be read.
pub fn parse(text: &str, family: Family) -> Result<FoundRules, SaveError> {
    let mut reader = Reader { family, rules: FoundRules::default(), table: None };
    for (index, line) in text.lines().enumerate() {
        reader.line(line.trim()).map_err(|reason| SaveError { line: index + 1, reason })?;
    }
    Ok(reader.rules)
}

/// Reads one rule without its chain (`-p tcp -j ACCEPT`).
///
/// # Errors
/// It cannot be read.
pub fn rule(text: &str) -> Result<FoundRule, SaveReason> {
    rule::parse(Words::new(text)?, text.to_owned(), None)
}

struct Reader {
    family: Family,
    rules: FoundRules,
    table: Option<String>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), SaveReason> {
        match line.as_bytes().first() {
            None | Some(b'#') => Ok(()),
            Some(b'*') => {
                let name = line[1..].trim();
                self.rules.table(FoundFamily::One(self.family), name);
                self.table = Some(name.to_owned());
                Ok(())
            }
            Some(b':') => self.declared(&line[1..]),
            Some(b'[' | b'-') => self.command(line),
            Some(_) if line == "COMMIT" => {
                self.table = None;
                Ok(())
            }
            Some(_) => Err(SaveReason::Unreadable(line.to_owned())),
        }
    }

    fn chain(&mut self, name: &str) -> Result<&mut FoundChain, SaveReason> {
        let table = self.table.as_deref().ok_or(SaveReason::NoTable)?;
        let table: &mut FoundTable = self.rules.table(FoundFamily::One(self.family), table);
        let entry = entry(&table.name, name);
        let chain = table.chain(name);
        // A rule may name a built-in chain that nothing declared: restore text does not.
        chain.entry = chain.entry.or(entry);
        Ok(chain)
    }

    /// `NAME POLICY [packets:bytes]`; the policy of a chain that is not built in is `-`.
    fn declared(&mut self, line: &str) -> Result<(), SaveReason> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or_else(|| SaveReason::Unreadable(":".to_owned()))?;
        let policy = words.next();
        let chain = self.chain(name)?;
        if let (Some(entry), Some("DROP")) = (&mut chain.entry, policy) {
            entry.policy = Policy::Drop;
        }
        Ok(())
    }

    fn command(&mut self, line: &str) -> Result<(), SaveReason> {
        let (packets, line) = counted(line)?;
        let mut words = Words::new(line)?;
        let command = words.next_option("-A")?;
        let name = words.value(&command)?;
        match command.as_str() {
            "-N" | "--new-chain" => self.chain(&name).map(drop),
            "-P" | "--policy" => self.declared(&format!("{name} {}", words.value(&command)?)),
            "-A" | "--append" => {
                let chain = self.chain(&name)?;
                let text = words.rest();
                chain.rules.push(rule::parse(words, text, packets)?);
                Ok(())
            }
            "-I" | "--insert" => {
                let position = words.position().unwrap_or(1);
                let chain = self.chain(&name)?;
                let at = position.checked_sub(1).filter(|at| *at <= chain.rules.len());
                let at = at.ok_or(SaveReason::Position(position))?;
                let text = words.rest();
                chain.rules.insert(at, rule::parse(words, text, packets)?);
                Ok(())
            }
            _ => Err(SaveReason::Unreadable(line.to_owned())),
        }
    }
}

/// `[packets:bytes]` before a rule.
fn counted(line: &str) -> Result<(Option<u64>, &str), SaveReason> {
    let Some(rest) = line.strip_prefix('[') else { return Ok((None, line)) };
    let wrong = || SaveReason::Counter(line.split(' ').next().unwrap_or_default().to_owned());
    let (counters, rest) = rest.split_once(']').ok_or_else(wrong)?;
    let (packets, bytes) = counters.split_once(':').ok_or_else(wrong)?;
    let _bytes: u64 = bytes.parse().map_err(|_| wrong())?;
    Ok((Some(packets.parse().map_err(|_| wrong())?), rest.trim_start()))
}

/// Where the kernel calls a built-in chain of iptables from; none for chains of other names.
#[must_use]
pub fn entry(table: &str, chain: &str) -> Option<Entry> {
    let hook = FoundHook::NAMES.into_iter().find(|(_, name)| *name == chain)?.0;
    let (priority, kind) = match (table, hook) {
        ("raw", _) => (-300, ChainKind::Every),
        ("mangle", _) => (-150, ChainKind::Every),
        ("nat", FoundHook::Prerouting | FoundHook::Output) => (-100, ChainKind::First),
        ("nat", _) => (100, ChainKind::First),
        ("security", _) => (50, ChainKind::Every),
        _ => (0, ChainKind::Every),
    };
    Some(Entry { hook, priority, kind, policy: Policy::Accept })
}

#[cfg(test)]
mod tests;
