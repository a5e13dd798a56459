// SPDX-License-Identifier: Apache-2.0
//! What has to be sent so that a namespace holds a ruleset; pure.
//!
//! One transaction deletes what is ours ([`crate::ours`]) and writes what is wanted. Rules and chains of others stay where they are,
//! among themselves and in front of what upstream would append behind them. A chain of ours that a rule of somebody else
//! jumps to is emptied but not deleted: the kernel would refuse. Built-in chains and tables are never deleted.

use redirect::ruleset::{Chain, Place as RulePlace, Rule, Ruleset};

use crate::compare::{Place, differences, is_hooked};
use crate::encode::{self, EncodeError, Hook, Position, begin_message, family_number};
use crate::expression::jumps_to;
use crate::nft::{self, attribute, message};
use crate::ours::{OwnTable, Survey, is_own_name};
use crate::snapshot::{Name, NfFamily, Snapshot};
use crate::wanted::{Wanted, WantedTable, nf_family};
use crate::wire::Writer;

/// What has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: the wanted rules are there, and nothing else of ours.
    Nothing,
    /// This transaction has to be sent. It commits only at the snapshot's generation.
    Send {
        /// The transaction.
        batch: Vec<u8>,
        /// Whether something of ours is replaced.
        replaces: bool,
    },
}

/// Why a ruleset cannot be put into a namespace next to what is there.
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
    /// A chain has a built-in chain's name and is not called from its hook, or one of ours and is.
    #[error("apply rules: chain {0} exists and is not called from where iptables calls it")]
    WrongHook(Place),
}

/// Plans the way from what a namespace holds to what is wanted.
///
/// # Errors
/// If a rule cannot be encoded, or what is there makes it impossible.
pub fn plan(snapshot: &Snapshot, ruleset: &Ruleset) -> Result<Plan, PlanError> {
    let wanted = Wanted::new(ruleset)?;
    let survey = Survey::new(snapshot, &wanted);
    for table in &wanted.tables {
        check(table, survey.table(table.family, table.table))?;
    }
    if differences(&survey, &wanted).is_empty() {
        return Ok(Plan::Nothing);
    }
    let mut out = encode::begin(ruleset, Some(snapshot.generation))?;
    for own in &survey.tables {
        delete_own(&mut out, own);
    }
    for table in &survey.native {
        begin_message(&mut out, message::DEL_TABLE, 0, nft::family::INET);
        out.name(attribute::TABLE_NAME, table.name.as_bytes());
    }
    for table in &wanted.tables {
        create(&mut out, table, survey.table(table.family, table.table), ruleset)?;
    }
    Ok(Plan::Send { batch: encode::end(out), replaces: !survey.is_empty() })
}

/// Whether wanted rules would run where they go.
fn check(wanted: &WantedTable<'_>, own: Option<&OwnTable<'_>>) -> Result<(), PlanError> {
    let Some(own) = own else { return Ok(()) };
    if own.state.flags & nft::TABLE_DORMANT != 0 {
        return Err(PlanError::Dormant { family: own.state.family, table: own.state.name.clone() });
    }
    for chain in wanted.chains.iter().filter(|chain| chain.chain.is_builtin()) {
        if let Some(state) = own.state.chain(chain.chain.name())
            && !is_hooked(wanted, chain, state)
        {
            return Err(PlanError::WrongHook(Place {
                family: nf_family(wanted.family),
                table: own.state.name.clone(),
                chain: state.name.clone(),
            }));
        }
    }
    Ok(())
}

fn delete_own(out: &mut Writer, own: &OwnTable<'_>) {
    let family = family_number(own.family);
    let table = own.table.name().as_bytes();
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
    for chain in own.chains.iter().filter(|chain| !is_held(own, &chain.name)) {
        begin_message(out, message::DEL_CHAIN, 0, family);
        out.name(attribute::CHAIN_TABLE, table);
        out.name(attribute::CHAIN_NAME, chain.name.as_bytes());
    }
}

/// Whether a rule that stays jumps to a chain: one in a chain of somebody else. (In built-in chains every jump to us is ours.)
fn is_held(own: &OwnTable<'_>, name: &Name) -> bool {
    own.state
        .chains
        .iter()
        .filter(|chain| !is_own_name(chain.name.as_bytes()))
        .filter(|chain| !own.built_in.iter().any(|(built_in, _)| built_in.name == chain.name))
        .flat_map(|chain| &chain.rules)
        .any(|rule| jumps_to(&rule.expressions) == Some(name.as_bytes()))
}

fn create(
    out: &mut Writer,
    wanted: &WantedTable<'_>,
    own: Option<&OwnTable<'_>>,
    ruleset: &Ruleset,
) -> Result<(), EncodeError> {
    let (family, table) = (wanted.family, wanted.table);
    if own.is_none() {
        encode::table(out, family, table);
    }
    let stays = |chain: Chain| {
        own.is_some_and(|own| {
            own.state.chain(chain.name()).is_some_and(|state| chain.is_builtin() || is_held(own, &state.name))
        })
    };
    for chain in wanted.chains.iter().filter(|chain| !chain.chain.is_builtin() && !stays(chain.chain)) {
        encode::own_chain(out, family, table, chain.chain);
    }
    for chain in &wanted.chains {
        match Hook::of(table, chain.chain) {
            Some(hook) => {
                if !stays(chain.chain) {
                    encode::base_chain(out, family, table, chain.chain, hook);
                }
                let foreign = own.map_or_else(Vec::new, |own| foreign_rules(own, chain.chain));
                for (rule, position) in order(ruleset, (wanted, chain.chain), foreign) {
                    encode::rule(out, family, rule, position)?;
                }
            }
            None => {
                for rule in &chain.rules {
                    encode::rule(out, family, rule.rule, Position::End)?;
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
    for rule in ruleset.rules_of(wanted.family, wanted.table).filter(|rule| rule.chain == chain) {
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
