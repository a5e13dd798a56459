// SPDX-License-Identifier: Apache-2.0
//! The rules of the network namespace that this process is in, with counters.

use cluster::LiveRule;
use netfilter::snapshot::RuleCounter;

use crate::line;

/// Prints the rules of nf_tables as one line of JSON.
pub fn run() -> anyhow::Result<()> {
    let snapshot = netfilter::read()?;
    let rule = |rule: RuleCounter<'_>| LiveRule {
        family: rule.family.to_string(),
        table: rule.table.to_string(),
        chain: rule.chain.to_string(),
        position: rule.position,
        packets: rule.counter.packets,
    };
    let rules: Vec<_> = snapshot.counters().map(rule).collect();
    Ok(line::announce(&serde_json::to_string(&rules)?)?)
}
