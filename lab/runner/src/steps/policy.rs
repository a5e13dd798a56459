// SPDX-License-Identifier: Apache-2.0
//! The policy routes of a pod's namespace: which marked packets are looked up in which table. Read by netlink, with nothing
//! of the system under test in between.

use cucumber::{given, then};
use futures::TryStreamExt as _;
use redirect::ruleset::Family;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion};

use super::rules::inside;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// Policy rule by mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Policy {
    mark: u32,
    table: u32,
}

/// A namespace's policy rule and its table.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    /// Number of rules.
    rules: usize,
    /// The table has the default route as local.
    everything_local: bool,
}

#[given(regex = r"^its namespace has a policy rule for mark (\d+) to table (\d+) instead of its own$")]
async fn another(world: &mut LabWorld, mark: u32, table: u32) -> Step {
    let other = Policy { mark, table };
    let removed = ask(world, async move |handle| {
        let own: Vec<RuleMessage> = handle.rule().get(IpVersion::V4).execute().try_collect().await?;
        let own: Vec<_> = own.into_iter().filter(|rule| mark_of(rule) == Some(other.mark)).collect();
        for rule in &own {
            handle.rule().del(rule.clone()).execute().await?;
        }
        let mut add = handle.rule().add().v4().fw_mark(other.mark).action(RuleAction::ToTable);
        let message = add.message_mut();
        message.header.table = u8::try_from(other.table).unwrap_or_default();
        message.attributes.push(RuleAttribute::Table(other.table));
        add.execute().await?;
        Ok(own.len())
    })
    .await?;
    if removed == 1 { Ok(()) } else { Err(Stop::wrong(format!("{removed} rules were there for this mark"))) }
}

#[then(
    regex = r"^its packets with mark (\d+) are looked up in table (\d+) once((?: over IPv6)?)(, where every address is local)?$"
)]
async fn once(world: &mut LabWorld, mark: u32, table: u32, over: String, local: String) -> Step {
    let family = if over.is_empty() { Family::V4 } else { Family::V6 };
    let found = find(world, Policy { mark, table }, family).await?;
    expect_eq("what was found", &found, &Found { rules: 1, everything_local: !local.is_empty() })
}

#[then(regex = r"^its packets with mark (\d+) are not looked up in table (\d+)$")]
async fn never(world: &mut LabWorld, mark: u32, table: u32) -> Step {
    for family in [Family::V4, Family::V6] {
        let found = find(world, Policy { mark, table }, family).await?;
        expect_eq("what was found", &found, &Found { rules: 0, everything_local: false })?;
    }
    Ok(())
}

async fn find(world: &mut LabWorld, policy: Policy, family: Family) -> Result<Found, Stop> {
    ask(world, async move |handle| {
        let version = match family {
            Family::V4 => IpVersion::V4,
            Family::V6 => IpVersion::V6,
        };
        let rules: Vec<RuleMessage> = handle.rule().get(version).execute().try_collect().await?;
        let ours = |rule: &&RuleMessage| {
            mark_of(rule) == Some(policy.mark)
                && table_of_rule(rule) == policy.table
                && rule.header.action == RuleAction::ToTable
        };
        let mut question = RouteMessage::default();
        question.header.address_family =
            if family == Family::V4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let routes: Vec<RouteMessage> = handle.route().get(question).execute().try_collect().await?;
        let everything_local = routes.iter().any(|route| {
            table_of_route(route) == policy.table
                && route.header.kind == RouteType::Local
                && route.header.destination_prefix_length == 0
        });
        Ok(Found { rules: rules.iter().filter(ours).count(), everything_local })
    })
    .await
}

fn mark_of(rule: &RuleMessage) -> Option<u32> {
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

/// Asks the kernel inside the pod's namespace: a socket belongs to the namespace that it was made in.
pub(super) async fn ask<T: Send + 'static, F: Future<Output = Result<T, rtnetlink::Error>>>(
    world: &mut LabWorld,
    question: impl FnOnce(Handle) -> F + Send + 'static,
) -> Result<T, Stop> {
    inside(world, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection().map_err(|error| error.to_string())?;
            tokio::spawn(connection);
            question(handle).await.map_err(|error| error.to_string())
        })
    })
    .await
}
