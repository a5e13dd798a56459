// SPDX-License-Identifier: Apache-2.0
//! The node beneath the agent: its runtime, its kubelet, its machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{Disturbance, SYSTEM_NAMESPACE};
use cucumber::{given, then, when};
use serde_json::json;

use super::{agent, agents, containers};
use crate::steps::events;
use crate::steps::exposure;
use crate::steps::files::files;
use crate::steps::observe;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// As nodes of k3d and Docker Desktop: later mounts do not propagate.
#[given("the node is a container, whose /run is no shared mount")]
fn private_run(world: &mut LabWorld) {
    world.node.run_is_private = true;
}

/// Otherwise the probes of containers are forty times as fast.
#[given("the kubelet's probes take their real time")]
fn probes_in_real_time(world: &mut LabWorld) {
    world.node.probes_in_real_time = true;
}

/// What its pod sends is lost, and no connection is reset: as on a node that is cut off from the network.
#[when(regex = "^packets of the node agent (are dropped in silence|pass again)$")]
async fn cut_off(world: &mut LabWorld, what: String) -> Step {
    let disturbance = if what == "pass again" { Disturbance::Joined } else { Disturbance::CutOff };
    let pod = agent(world).await?;
    Ok(world.cluster().await?.starting(&pod).await?.disturb(&disturbance).await?)
}

/// Of the kubelet, since the scenario began.
#[then(regex = "^no event says that the node agent (is unhealthy|was evicted)$")]
async fn healthy(world: &mut LabWorld, what: String) -> Step {
    let reason = if what == "was evicted" { "Evicted" } else { "Unhealthy" };
    let all = events::of_namespace(&*world.cluster().await?, SYSTEM_NAMESPACE).await?;
    let begun = world.begun.as_second();
    let own = all.into_iter().filter(|event| observe::is_of_scenario(event, begun));
    let of_reason = own.filter(|event| event.reason.as_deref() == Some(reason));
    let told: Vec<_> = of_reason.filter_map(|event| event.message).collect();
    expect_eq("what the kubelet tells", &told, &Vec::<String>::new())
}

/// Multus' cache files of a pod whose DEL never came.
#[given("Multus left what it attached to a pod whose sandbox is gone")]
async fn left_by_multus(world: &mut LabWorld) -> Step {
    const CONF: &str = r#"{"cniVersion": "0.3.1", "name": "istio-cni", "plugins": [{"type": "istio-cni"}]}"#;
    let container = "0".repeat(64);
    let entry = json!({
        "kind": "cniCacheV1", "containerId": container, "config": STANDARD.encode(CONF), "ifName": "net1",
        "networkName": "istio-cni", "netns": "/var/run/netns/cni-of-a-pod-that-is-gone",
        "cniArgs": [], "capabilityArgs": {}, "result": null,
    });
    let node = files(world).await?;
    let results = node.paths.cache_dir.join("multus/results");
    node.hand.make_directory(&results).await?;
    node.write(&results.join(format!("istio-cni-{container}-net1")), entry.to_string()).await
}

/// The API server's, against all nodes'; what it has made so far keeps its times.
#[given(regex = "^the API server's clock is (\\d+) minutes (ahead|behind)$")]
#[when(regex = "^the API server's clock is (\\d+) minutes (ahead|behind)$")]
async fn clock(world: &mut LabWorld, minutes: i64, how: String) -> Step {
    let seconds = minutes * 60;
    let ahead = if how == "behind" { -seconds } else { seconds };
    world.cluster().await?.server()?.set_clock(ahead);
    Ok(())
}

/// Processes, namespaces and `/run` are lost, everything else stays, all pods start again.
#[when("the node reboots")]
async fn reboots(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    let name = tier.node()?.name().to_owned();
    world.starts.clear();
    // A kubelet tells late of pods that are gone.
    let agents = agents(world).await?;
    let here = agents.iter().filter(|pod| pod["spec"]["nodeName"] == *name);
    world.agent.former = here.flat_map(containers).cloned().collect();
    exposure::begin_anew(world);
    Ok(tier.machines()?.reboot(&name, world.node.configuration).await?)
}

/// Each kubelet ends its pods, whose objects stay as those of pods that failed (`GracefulNodeShutdown`); then all machines are turned on again.
#[when("all nodes shut down, and are turned on again")]
async fn shut_down(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    let names: Vec<_> = tier.nodes().into_iter().map(|node| node.name().to_owned()).collect();
    for name in &names {
        tier.machines()?.shut_down(name).await?;
    }
    world.starts.clear();
    world.agent.former = agents(world).await?.iter().flat_map(containers).cloned().collect();
    exposure::begin_anew(world);
    for name in &names {
        tier.machines()?.reboot(name, world.node.configuration).await?;
    }
    Ok(())
}

/// The chain's last DEL of it succeeded, with every plugin of the list.
#[then("its last sandbox was taken down")]
async fn taken_down(world: &mut LabWorld) -> Step {
    let name = world.its_name()?.name;
    let calls = world.cluster().await?.node()?.cni_calls()?;
    match calls.iter().rfind(|(call, _)| call.command() == "DEL" && call.is_for(&name)) {
        Some((call, answer)) if answer.exit == Some(0) && call.plugin == cluster::BASE_PLUGIN => Ok(()),
        Some((call, answer)) => Err(Stop::wrong(format!("DEL of {} ended with {answer:?}", call.plugin))),
        None => Err(Stop::wrong("nobody called DEL")),
    }
}
