// SPDX-License-Identifier: Apache-2.0
//! Request of a transaction's message, read back from its bytes: for telling a person what the kernel refused without
//! keeping books while everything goes well.

use std::fmt;

use crate::describe::describe;
use crate::expression::{Expression, one};
use crate::nft::{self, attribute, message};
use crate::snapshot::{Name, NfFamily};
use crate::wire::{Message, attributes, messages, text};

/// A message's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Action {
    CreateTable,
    CreateChain,
    AddRule,
    DeleteRule,
    DeleteChain,
    DeleteTable,
    Commit,
}

/// One step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub action: Action,
    /// Family of the table.
    pub family: NfFamily,
    /// The table; empty for [`Action::Commit`].
    pub table: Name,
    /// The chain, if it is about one.
    pub chain: Option<Name>,
    /// The rule that is added, in the words of `iptables -S` or `nft list`.
    pub rule: Option<String>,
    /// Optional kernel features that it needs.
    pub(crate) needs: Vec<Needed>,
}

/// Something that not every kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Needed {
    /// An xtables extension.
    Extension(NeededExtension),
    /// An expression.
    Expression {
        /// Its name.
        name: Name,
        /// All of it.
        element: Vec<u8>,
    },
    /// A type of chains that the kernel calls.
    ChainType(Name),
    /// All of it.
    NfTables,
}

/// An xtables extension that a rule needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededExtension {
    pub(crate) name: Name,
    pub(crate) revision: u32,
    pub(crate) is_target: bool,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (family, table) = (self.family, &self.table);
        match (self.action, &self.chain) {
            (Action::CreateTable, _) => write!(out, "create table {family} {table}"),
            (Action::DeleteTable, _) => write!(out, "delete table {family} {table}"),
            (Action::CreateChain, Some(chain)) => write!(out, "create chain {family} {table} {chain}"),
            (Action::DeleteChain, Some(chain)) => write!(out, "delete chain {family} {table} {chain}"),
            (Action::DeleteRule, Some(chain)) => write!(out, "delete a rule of {family} {table} {chain}"),
            (Action::AddRule, Some(chain)) => {
                let rule = self.rule.as_deref().unwrap_or_default();
                write!(out, "add to {family} {table} {chain} rule \"{rule}\"")
            }
            _ => out.write_str("commit"),
        }
    }
}

impl Step {
    /// The step of `batch` that has a sequence number. What is not about a table is about the transaction as a whole.
    pub(crate) fn of(batch: &[u8], sequence: u32) -> Self {
        messages(batch)
            .filter_map(Result::ok)
            .find(|message| message.sequence == sequence)
            .and_then(|message| Self::read(&message))
            .unwrap_or_else(Self::commit)
    }

    fn commit() -> Self {
        Self {
            action: Action::Commit,
            family: NfFamily::Ip,
            table: Name::new(&[]),
            chain: None,
            rule: None,
            needs: vec![Needed::NfTables],
        }
    }

    fn read(message: &Message<'_>) -> Option<Self> {
        let action = match message.kind {
            message::NEW_TABLE => Action::CreateTable,
            message::NEW_CHAIN => Action::CreateChain,
            message::NEW_RULE => Action::AddRule,
            message::DEL_RULE => Action::DeleteRule,
            message::DEL_CHAIN => Action::DeleteChain,
            message::DEL_TABLE => Action::DeleteTable,
            _ => return None,
        };
        let (header, body) = message.body.split_at_checked(nft::GENERIC_HEADER)?;
        let family = NfFamily::of(*header.first()?)?;
        let mut step = Self { action, family, needs: Vec::new(), ..Self::commit() };
        let is_rule = matches!(action, Action::AddRule | Action::DeleteRule);
        for attribute in attributes(body) {
            match attribute.ok()? {
                // The table's name has the same number in all messages.
                (attribute::TABLE_NAME, payload) => step.table = Name::new(text(payload)),
                (attribute::RULE_CHAIN, payload) if is_rule => step.chain = Some(Name::new(text(payload))),
                (attribute::CHAIN_NAME, payload) if !is_rule => step.chain = Some(Name::new(text(payload))),
                (attribute::RULE_EXPRESSIONS, payload) if is_rule => step.set_rule(payload),
                (attribute::CHAIN_TYPE, payload) if action == Action::CreateChain => {
                    step.needs.push(Needed::ChainType(Name::new(text(payload))));
                }
                _ => {}
            }
        }
        Some(step)
    }

    fn set_rule(&mut self, expressions: &[u8]) {
        self.rule = Some(describe(self.family, expressions));
        for (_, element) in attributes(expressions).filter_map(Result::ok) {
            self.needs.extend(need(element));
        }
    }
}

/// Optional kernel feature: an extension, or an expression that is a module of its own.
fn need(element: &[u8]) -> Option<Needed> {
    let (extension, is_target) = match one(element).ok()? {
        Expression::Match(extension) => (extension, false),
        Expression::Target(extension) => (extension, true),
        other => {
            let name = match other {
                Expression::Ct { .. } | Expression::SetCt { .. } => "ct",
                Expression::Redirect { .. } => "redir",
                Expression::Tproxy { .. } => "tproxy",
                Expression::Counter => "counter",
                _ => return None,
            };
            let name = Name::new(name.as_bytes());
            return Some(Needed::Expression { name, element: element.to_vec() });
        }
    };
    let name = Name::new(extension.name);
    Some(Needed::Extension(NeededExtension { name, revision: extension.revision, is_target }))
}
