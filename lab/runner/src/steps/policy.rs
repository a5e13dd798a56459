// SPDX-License-Identifier: Apache-2.0
//! The policy routes of a pod's network (which marked packets are looked up in which table), and its addresses.

use std::net::IpAddr;

use cluster::network::LivePolicy;
use cucumber::then;

use super::rules::network;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

#[then(
    regex = r"^its packets with mark (\d+) are looked up in table (\d+) once((?: over IPv6)?)(, where every address is local)?$"
)]
async fn once(world: &mut LabWorld, mark: u32, table: u32, over: String, local: String) -> Step {
    let ipv6 = !over.is_empty();
    let mut found = find(world, mark, table).await?;
    found.retain(|policy| policy.ipv6 == ipv6);
    let wanted = LivePolicy { ipv6, mark, table, everything_local: !local.is_empty() };
    expect_eq("the lookups that were found", &found, &vec![wanted])
}

#[then(regex = r"^its packets with mark (\d+) are not looked up in table (\d+)$")]
async fn never(world: &mut LabWorld, mark: u32, table: u32) -> Step {
    expect_eq("the lookups that were found", &find(world, mark, table).await?, &Vec::new())
}

/// An address of any of its interfaces, of `lo` as well.
#[then(regex = "^it (has|does not have) the address (\\S+)$")]
async fn has_address(world: &mut LabWorld, whether: String, address: IpAddr) -> Step {
    let found = network(world).await?.addresses;
    expect(found.contains(&address) == (whether == "has"), || format!("its addresses are {found:?}"))
}

async fn find(world: &mut LabWorld, mark: u32, table: u32) -> Result<Vec<LivePolicy>, Stop> {
    let network = network(world).await?;
    Ok(network.policies.into_iter().filter(|policy| policy.mark == mark && policy.table == table).collect())
}
