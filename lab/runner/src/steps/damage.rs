// SPDX-License-Identifier: Apache-2.0
//! Damaged networks of pods: partial rules, rules of upstream's tools, no policy routes, a stranger's table.

use cluster::network::{Foreign, Part};
use cluster::{Disturbance, Wanted};
use cucumber::gherkin::Step as Line;
use cucumber::{given, when};
use redirect::generate;
use redirect::ruleset::Family;
use redirect::text;

use crate::pod::Pod;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// True if the node's pods get native rules.
pub(super) fn is_native(world: &LabWorld) -> bool {
    world.node.plugin_conf.get("native_nftables").is_some_and(|value| *value == true)
}

/// The rules that the pod that `it` means wants, once it runs.
pub(super) async fn wanted(world: &mut LabWorld, native: bool) -> Result<Wanted, Stop> {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let addresses = world.workload(&name).await?.addresses();
    wanted_by(world.it()?, addresses, native)
}

/// The rules that a pod with these addresses wants.
pub(super) fn wanted_by(pod: &Pod, addresses: Vec<std::net::IpAddr>, native: bool) -> Result<Wanted, Stop> {
    Ok(Wanted { redirect: pod.redirect().map_err(Stop::harness)?, addresses, native })
}

/// Changes the network of the pod that `it` means, which may still be starting.
async fn disturb(world: &mut LabWorld, disturbance: Disturbance) -> Step {
    let it = world.its_name()?;
    let workload = world.cluster().await?.starting(&it).await?;
    Ok(workload.disturb(&disturbance).await?)
}

#[given(
    regex = "^its namespace loses (all its rules|its rules of IPv6|its inbound rules|its DNS rules|what exempts its proxy)$"
)]
#[when(
    regex = "^its namespace loses (all its rules|its rules of IPv6|its inbound rules|its DNS rules|what exempts its proxy)$"
)]
async fn loses(world: &mut LabWorld, what: String) -> Step {
    let part = match what.as_str() {
        "its rules of IPv6" => Part::Ipv6,
        "its inbound rules" => Part::Inbound,
        "its DNS rules" => Part::Dns,
        "what exempts its proxy" => Part::ProxyExemption,
        _ => Part::All,
    };
    let native = is_native(world);
    let wanted = wanted(world, native).await?;
    disturb(world, Disturbance::Lost(wanted, part)).await
}

/// Somebody else repairs the pod, which may still be starting.
#[when("its namespace gets its rules")]
async fn gets(world: &mut LabWorld) -> Step {
    let (it, native) = (world.its_name()?, is_native(world));
    let addresses = world.cluster().await?.starting(&it).await?.addresses();
    let wanted = wanted_by(world.it()?, addresses, native)?;
    disturb(world, Disturbance::Repaired(wanted)).await
}

/// Flushes a pod's tables without an event for anybody.
#[when("its namespace loses its rules")]
async fn lose_rules(world: &mut LabWorld) -> Step {
    disturb(world, Disturbance::Flushed).await
}

#[given("its namespace loses its policy routes")]
#[when("its namespace loses its policy routes")]
async fn loses_routes(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    disturb(world, Disturbance::Unrouted).await
}

/// As a network plugin leaves it that has lost the pod.
#[when("its namespace loses its addresses")]
async fn loses_addresses(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    disturb(world, Disturbance::Unaddressed).await
}

#[given(regex = r"^its namespace has a policy rule for mark (\d+) to table (\d+) instead of its own$")]
async fn another_rule(world: &mut LabWorld, mark: u32, table: u32) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    disturb(world, Disturbance::Rerouted { mark, table }).await
}

/// Exempts packets from connection tracking, and so from NAT.
#[given("its namespace keeps packets from being redirected")]
async fn untracked(world: &mut LabWorld) -> Step {
    disturb(world, Disturbance::Untracked).await
}

/// By a table of its own, as another program's firewall has it.
#[given(
    regex = "^a foreign rule of its namespace accepts (established connections|packets by their direction)$"
)]
async fn filtered(world: &mut LabWorld, what: String) -> Step {
    let foreign = match what.as_str() {
        "established connections" => Foreign::Established,
        _ => Foreign::Direction,
    };
    disturb(world, Disturbance::Filtered(foreign)).await
}

/// Undoes the exemption.
#[when("its namespace lets packets be redirected")]
async fn tracked(world: &mut LabWorld) -> Step {
    disturb(world, Disturbance::Tracked).await
}

/// In a table of its own, at the priority of ours: as KubeVirt's virt-launcher does for the ports of its guest, but that the pod's app answers.
#[when(regex = r"^another program writes nat rules for its TCP port (\d+)$")]
async fn overtaken(world: &mut LabWorld, port: u16) -> Step {
    disturb(world, Disturbance::Overtaken(port)).await
}

/// The text is upstream's, word for word: the reference corpora say so.
#[given(regex = "^(iptables-nft|iptables-legacy) writes upstream's rules into its namespace$")]
#[when(regex = "^(iptables-nft|iptables-legacy) writes upstream's rules into its namespace$")]
async fn restored(world: &mut LabWorld, tool: String) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let workload = world.workload(&name).await?;
    let config = world.it()?.config(&workload.addresses()).map_err(Stop::harness)?;
    let rules = generate::ruleset(&config).map_err(Stop::harness)?;
    for family in rules.families() {
        let tool = if family == Family::V4 { tool.clone() } else { format!("ip6{}", &tool[2..]) };
        let program = format!("{tool}-restore");
        let answer = workload.run(&[&program, "--noflush"], &text::restore(&rules, family), (0, 0)).await?;
        if answer.exit != Some(0) {
            return Err(Stop::harness(format!("{tool}-restore answered {answer:?}")));
        }
    }
    Ok(())
}

/// IPv4 rules, in the text below the step.
#[given(regex = "^(iptables-nft|iptables-legacy) writes rules into its namespace$")]
async fn written(world: &mut LabWorld, tool: String, step: &Line) -> Step {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("the step has no rules"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let program = format!("{tool}-restore");
    let answer = world.workload(&name).await?.run(&[&program, "--noflush"], &text, (0, 0)).await?;
    if answer.exit != Some(0) {
        return Err(Stop::harness(format!("{program} answered {answer:?}")));
    }
    Ok(())
}
