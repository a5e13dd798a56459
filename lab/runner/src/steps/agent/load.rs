// SPDX-License-Identifier: Apache-2.0
//! Much at once: pods that start together, bursts of changes, and what the agent needs for them.

use std::time::Duration;

use cluster::hand::Writing;
use cluster::{PodName, PodStart};
use cucumber::{given, then, when};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use super::agent;
use super::objects::CONTAINER;
use crate::steps::files::{files, process};
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

/// Pause between bursts: longer than the agent's debounce.
const PAUSE: Duration = Duration::from_millis(60);
/// Files per burst.
const BURST: usize = 8;
/// Deadline of a pod whose sandbox may have to be made more than once: a kubelet backs off for 10 s and then longer.
const COME_UP: Duration = Duration::from_secs(60);
/// Absence of an API server that is restarted.
const AWAY: Duration = Duration::from_secs(5);
/// Blocking threads end after 10 s of idleness.
const IDLE: Duration = Duration::from_secs(20);
/// Permitted growth in KiB of a process after a few more passes.
const SLACK: u64 = 2048;

/// Resource usage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uses {
    process: u32,
    descriptors: usize,
    threads: u64,
    memory: u64,
}

/// Names and objects of so many pods like the one that is meant.
fn many(world: &mut LabWorld, count: usize) -> Result<Vec<(PodName, Value)>, Stop> {
    let mut all = Vec::new();
    for number in 0..count {
        let pod = world.like_it(number)?;
        let object = pod.admitted().map_err(Stop::harness)?;
        world.objects.push(object.clone());
        all.push((PodName::new(&pod.namespace, &pod.name), object));
    }
    Ok(all)
}

/// Waits until each has run or failed.
#[when(regex = r"^(\d+) pods like it start(?: at once|, (\d+) at a time)$")]
async fn crowd(world: &mut LabWorld, count: usize, at_a_time: String) -> Step {
    let at_a_time = if at_a_time.is_empty() { count } else { at_a_time.parse().map_err(Stop::harness)? };
    let tier = world.cluster().await?;
    let mut starts = Vec::new();
    for (pod, object) in many(world, count)? {
        let tier = &tier;
        starts.push(async move {
            let start = tier.start_pod(&pod, object).await?;
            Ok::<_, Stop>((pod.name, start))
        });
    }
    let started: Vec<_> = stream::iter(starts).buffer_unordered(at_a_time).try_collect().await?;
    world.starts.extend(started.iter().cloned());
    world.agent.remembered.started.extend(started);
    Ok(())
}

/// The starts have begun, and nothing of them is waited for before the restart. Then each runs in the end, however many starts that takes. The API
/// server is killed, and away for 5 s.
#[when(
    regex = r"^the (node's runtime|node's kubelet|API server) is restarted while (\d+) pods like it start$"
)]
async fn restarted_meanwhile(world: &mut LabWorld, what: String, count: usize) -> Step {
    let tier = world.cluster().await?;
    let node = tier.node()?.name().to_owned();
    let all = many(world, count)?;
    for (_, object) in &all {
        tier.create_pod(object.clone()).await?;
    }
    match what.as_str() {
        "node's runtime" => tier.machines()?.restart_runtime(&node).await?,
        "node's kubelet" => tier.machines()?.restart_kubelet(&node).await?,
        _ => tier.machines()?.restart_api(AWAY).await?,
    }
    for (pod, _) in all {
        tier.comes_up(&pod, COME_UP).await?;
        let addresses = tier.workload(&pod).await?.addresses();
        let start = PodStart::Running { addresses };
        world.started(&pod, start.clone()).await?;
        world.agent.remembered.started.push((pod.name, start));
    }
    Ok(())
}

async fn uses(world: &mut LabWorld) -> Result<Uses, Stop> {
    let pod = agent(world).await?;
    let process = process(world, &pod, CONTAINER).await?;
    let status = process.hand.read(&process.file("status")).await?;
    let status = String::from_utf8_lossy(&status);
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| Stop::harness(format!("its status has no {key}")))
    };
    let descriptors = process.hand.list(&process.file("fd")).await?.len();
    let (threads, memory) = (number("Threads:")?, number("VmRSS:")?);
    Ok(Uses { process: process.number, descriptors, threads, memory })
}

/// Descriptors, threads, resident memory.
#[given("what the node agent uses is remembered")]
async fn remember(world: &mut LabWorld) -> Step {
    world.agent.uses = Some(uses(world).await?);
    Ok(())
}

/// Malformed lists appear and vanish.
#[when(regex = r"^the CNI directory changes in (\d+) bursts$")]
async fn bursts(world: &mut LabWorld, count: usize) -> Step {
    let node = files(world).await?;
    let mut due = tokio::time::interval(PAUSE);
    for _ in 0..count {
        due.tick().await;
        for number in 0..BURST {
            let path = node.paths.conf_dir.join(format!("noise-{number}.conflist"));
            node.hand.write(&path, b"noise", Writing::InPlace).await?;
            node.hand.remove(&path).await?;
        }
    }
    Ok(())
}

/// The same process: descriptors exactly, threads and memory within the usual; waited for.
#[then("the node agent uses no more than then")]
async fn no_more(world: &mut LabWorld) -> Step {
    let before = world.agent.uses.ok_or_else(|| Stop::harness("nothing was remembered"))?;
    eventually(world, IDLE, async |world| {
        let now = uses(world).await?;
        let fine = now.process == before.process
            && now.descriptors <= before.descriptors
            && now.threads <= before.threads
            && now.memory <= before.memory + SLACK;
        expect(fine, || format!("it uses {now:?}, and used {before:?}"))
    })
    .await
}
