// SPDX-License-Identifier: Apache-2.0
//! The rules of the network namespace that this process is in, with counters, and how they differ from what a pod wants.

use std::io;
use std::net::IpAddr;

use cluster::LiveRule;
use cluster::hand::Wanted;
use netfilter::describe::describe;
use netfilter::{Snapshot, legacy};
use redirect::found::FoundFamily;
use redirect::generate;
use redirect::host::Environment;
use redirect::ruleset::Family;

use crate::line;

/// Prints the rules as one line of JSON.
pub fn run() -> anyhow::Result<()> {
    let mut rules = of_nf_tables(&netfilter::read()?);
    rules.extend(of_legacy_tables()?);
    Ok(line::announce(&serde_json::to_string(&rules)?)?)
}

fn of_nf_tables(snapshot: &Snapshot) -> Vec<LiveRule> {
    let mut all = Vec::new();
    for table in &snapshot.tables {
        for chain in &table.chains {
            all.extend(chain.rules.iter().zip(1..).map(|(rule, position)| LiveRule {
                family: table.family.to_string(),
                table: table.name.to_string(),
                chain: chain.name.to_string(),
                position,
                packets: rule.counter.unwrap_or_default().packets,
                text: describe(table.family, &rule.expressions),
            }));
        }
    }
    all
}

/// To ask for a table makes it, so only those that exist are read.
fn of_legacy_tables() -> anyhow::Result<Vec<LiveRule>> {
    let mut all = Vec::new();
    for table in legacy::read()?.tables {
        let family = if table.family == FoundFamily::Legacy(Family::V4) { "legacy ip" } else { "legacy ip6" };
        for chain in table.chains {
            all.extend(chain.rules.into_iter().zip(1..).map(|(rule, position)| LiveRule {
                family: family.to_owned(),
                table: table.name.to_string(),
                chain: chain.name.to_string(),
                position,
                packets: rule.packets.unwrap_or_default(),
                text: rule.text,
            }));
        }
    }
    Ok(all)
}

/// Prints the differences of the rules from those that [`Wanted`] on standard input asks for, as one line of JSON.
pub fn compare() -> anyhow::Result<()> {
    let Wanted { redirect, mut addresses } = serde_json::from_reader(io::stdin())?;
    // The kernel lists all of IPv4 before IPv6, whatever the order in which they were added.
    addresses.sort_by_key(IpAddr::is_ipv6);
    let wanted = generate::ruleset(&redirect.config_for(addresses, &Environment::default())?)?;
    let differences = netfilter::compare(&netfilter::read()?, &wanted);
    let texts: Vec<_> = differences.iter().map(ToString::to_string).collect();
    Ok(line::announce(&serde_json::to_string(&texts)?)?)
}
