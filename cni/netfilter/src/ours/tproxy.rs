// SPDX-License-Identifier: Apache-2.0
//! TPROXY's rules in the built-in chains of `mangle`, told by their form and their marks.

use crate::expression::{Expression, parse};
use crate::nft::{meta, operation, verdict};
use crate::snapshot::{ChainState, RuleState};
use crate::wanted::Wanted;

/// Marks that upstream uses: inbound and outbound TPROXY.
const MARKS: [u32; 2] = [1337, 1338];

/// The marks that are ours in a table with these chains of ours: upstream's, those that are wanted, and those that the chains set or
/// ask for.
pub(super) fn marks(chains: &[&ChainState], wanted: &Wanted<'_>) -> Vec<u32> {
    let named = chains.iter().flat_map(|chain| &chain.rules).flat_map(|rule| {
        let facts = facts(&rule.expressions);
        [facts.mark, facts.set_mark].into_iter().flatten()
    });
    MARKS.into_iter().chain(wanted.marks()).chain(named).collect()
}

/// What counts in the forms of TPROXY's rules.
#[derive(Default)]
struct Facts {
    on_loopback: bool,
    owner: bool,
    mark: Option<u32>,
    connmark: Option<u32>,
    set_mark: Option<u32>,
    saves: bool,
    restores: bool,
    returns: bool,
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_ne_bytes)
}

fn facts(expressions: &[u8]) -> Facts {
    let mut facts = Facts::default();
    let mut loaded = None;
    for expression in parse(expressions).unwrap_or_default() {
        match expression {
            Expression::Meta { key, .. } => loaded = Some(key),
            Expression::Compare { operation: operation::EQUAL, value, .. } => match loaded.take() {
                Some(meta::OUT_INTERFACE) => facts.on_loopback = value == b"lo\0",
                Some(meta::MARK) => facts.mark = number(value),
                _ => {}
            },
            Expression::Match(extension) => match extension.name {
                b"owner" => facts.owner = true,
                b"connmark" => facts.connmark = number(extension.info),
                _ => {}
            },
            Expression::Target(extension) => match extension.name {
                b"MARK" => facts.set_mark = number(extension.info),
                // Behind the mask.
                b"TPROXY" => facts.set_mark = extension.info.get(4..).and_then(number),
                b"CONNMARK" => {
                    facts.saves = extension.info.get(14) == Some(&1);
                    facts.restores = extension.info.get(14) == Some(&2);
                }
                _ => {}
            },
            Expression::Verdict { code: verdict::RETURN, .. } => facts.returns = true,
            _ => {}
        }
    }
    facts
}

/// Whether a rule in a built-in chain of `mangle` is one of TPROXY's on one of these marks.
pub(super) fn is_ours(chain: &ChainState, rule: &RuleState, marks: &[u32]) -> bool {
    let facts = facts(&rule.expressions);
    let ours = |mark: Option<u32>| mark.is_some_and(|mark| marks.contains(&mark));
    if chain.name == "PREROUTING" {
        return facts.saves && ours(facts.mark);
    }
    chain.name == "OUTPUT"
        && ((facts.restores && ours(facts.connmark))
            || (facts.on_loopback && facts.returns && ours(facts.mark))
            || (facts.on_loopback && facts.owner && ours(facts.set_mark)))
}
