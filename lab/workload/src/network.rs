// SPDX-License-Identifier: Apache-2.0
//! The network namespace that this thread is in: rules with counters, policy routes, addresses, and how the rules differ from what a pod wants.

use std::io;
use std::net::IpAddr;

use cluster::LiveNetwork;
use cluster::network::{LEGACY, LivePolicy, LiveRule, LiveTable, Wanted};
use futures::TryStreamExt as _;
use netfilter::describe::describe;
use netfilter::{Snapshot, legacy};
use redirect::found::{FoundFamily, FoundRules};
use redirect::host::Environment;
use redirect::ruleset::{Dialect, Family};
use redirect::{Config, generate};
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion};

/// What is in the network namespace of this thread.
pub async fn inspect() -> anyhow::Result<LiveNetwork> {
    let snapshot = netfilter::read()?;
    // To ask for a table makes it, so only those that exist are read.
    let legacy = legacy::read()?;
    let tables = tables_of(&snapshot).chain(legacy_tables(&legacy)).collect();
    let rules = rules_of(&snapshot).chain(legacy_rules(&legacy)).collect();
    let addresses = netfilter::address::list()?.into_iter().map(|address| address.ip).collect();
    Ok(LiveNetwork { generation: snapshot.generation, tables, rules, policies: policies().await?, addresses })
}

fn tables_of(snapshot: &Snapshot) -> impl Iterator<Item = LiveTable> {
    snapshot.tables.iter().map(|table| LiveTable {
        family: table.family.to_string(),
        name: table.name.to_string(),
        chains: table.chains.iter().map(|chain| chain.name.to_string()).collect(),
    })
}

fn rules_of(snapshot: &Snapshot) -> impl Iterator<Item = LiveRule> {
    let chains =
        snapshot.tables.iter().flat_map(|table| table.chains.iter().map(move |chain| (table, chain)));
    chains.flat_map(|(table, chain)| {
        chain.rules.iter().zip(1..).map(move |(rule, position)| LiveRule {
            family: table.family.to_string(),
            table: table.name.to_string(),
            chain: chain.name.to_string(),
            position,
            packets: rule.counter.unwrap_or_default().packets,
            handle: rule.handle,
            text: describe(table.family, &rule.expressions),
        })
    })
}

fn legacy_family(family: FoundFamily) -> String {
    let name = if family == FoundFamily::Legacy(Family::V4) { "ip" } else { "ip6" };
    format!("{LEGACY}{name}")
}

fn legacy_tables(found: &FoundRules) -> impl Iterator<Item = LiveTable> {
    found.tables.iter().map(|table| LiveTable {
        family: legacy_family(table.family),
        name: table.name.clone(),
        chains: table.chains.iter().map(|chain| chain.name.clone()).collect(),
    })
}

fn legacy_rules(found: &FoundRules) -> impl Iterator<Item = LiveRule> {
    let chains = found.tables.iter().flat_map(|table| table.chains.iter().map(move |chain| (table, chain)));
    chains.flat_map(|(table, chain)| {
        chain.rules.iter().zip(1..).map(move |(rule, position)| LiveRule {
            family: legacy_family(table.family),
            table: table.name.clone(),
            chain: chain.name.clone(),
            position,
            packets: rule.packets.unwrap_or_default(),
            handle: 0,
            text: rule.text.clone(),
        })
    })
}

/// A socket of the namespace that this thread is in.
pub(crate) fn netlink() -> io::Result<Handle> {
    let (connection, handle, _) = rtnetlink::new_connection()?;
    tokio::spawn(connection);
    Ok(handle)
}

async fn policies() -> anyhow::Result<Vec<LivePolicy>> {
    let handle = netlink()?;
    let mut all = Vec::new();
    for (ipv6, version, family) in
        [(false, IpVersion::V4, AddressFamily::Inet), (true, IpVersion::V6, AddressFamily::Inet6)]
    {
        let rules: Vec<RuleMessage> = handle.rule().get(version).execute().try_collect().await?;
        let mut question = RouteMessage::default();
        question.header.address_family = family;
        let routes: Vec<RouteMessage> = handle.route().get(question).execute().try_collect().await?;
        for rule in rules.iter().filter(|rule| rule.header.action == RuleAction::ToTable) {
            let Some(mark) = mark_of(rule) else { continue };
            let table = table_of_rule(rule);
            let everything_local = routes.iter().any(|route| {
                table_of_route(route) == table
                    && route.header.kind == RouteType::Local
                    && route.header.destination_prefix_length == 0
            });
            all.push(LivePolicy { ipv6, mark, table, everything_local });
        }
    }
    Ok(all)
}

pub(crate) fn mark_of(rule: &RuleMessage) -> Option<u32> {
    rule.attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::FwMark(mark) => Some(*mark),
        _ => None,
    })
}

fn table_of_rule(rule: &RuleMessage) -> u32 {
    let named = rule.attributes.iter().find_map(|attribute| match attribute {
        RuleAttribute::Table(table) => Some(*table),
        _ => None,
    });
    named.unwrap_or_else(|| rule.header.table.into())
}

fn table_of_route(route: &RouteMessage) -> u32 {
    let named = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    named.unwrap_or_else(|| route.header.table.into())
}

/// Configuration of the wanted rules. The kernel lists all of IPv4 before IPv6, whatever the order in which they were added.
pub(crate) fn config_of(wanted: Wanted) -> anyhow::Result<Config> {
    let Wanted { redirect, mut addresses, native } = wanted;
    addresses.sort_by_key(IpAddr::is_ipv6);
    let config = redirect.config_for(addresses, &Environment::default())?;
    let dialect = if native { Dialect::Nft } else { Dialect::Iptables };
    Ok(Config { dialect, ..config })
}

/// Differences of the rules in this thread's network namespace from those that are wanted.
pub fn compare(wanted: Wanted) -> anyhow::Result<Vec<String>> {
    let wanted = generate::ruleset(&config_of(wanted)?)?;
    Ok(netfilter::compare(&netfilter::read()?, &wanted).iter().map(ToString::to_string).collect())
}
