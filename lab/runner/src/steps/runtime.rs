// SPDX-License-Identifier: Apache-2.0
//! The node's container runtime: which one it is, what it makes of its plugins' configuration, and what its kubelet makes of that.

use std::time::Duration;

use cluster::{Configuration, PRIMARY, PodStart, RuntimeProfile};
use cucumber::{given, then, when};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::DeleteParams;

use super::agent::bare;
use super::files::files;
use crate::steps::events;
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

/// Deadline of a condition: a kubelet looks every five seconds, and here much more often.
const SOON: Duration = Duration::from_secs(10);

/// `containerd-1.6`, `containerd-2` (if no step says anything), `cri-o`, `cri-dockerd`.
#[given(regex = r#"^the node's runtime is "([^"]+)"$"#)]
fn is(world: &mut LabWorld, name: String) -> Step {
    let profile: &RuntimeProfile = name.parse().map_err(Stop::harness)?;
    if world.cluster.is_some() {
        return Err(Stop::harness("the node is there already, with another runtime"));
    }
    world.node.runtime = Some(profile);
    Ok(())
}

/// As one whose watcher has much to do, or whose machine has.
#[given(regex = r"^the node's runtime notices a change of its configuration after (\d+) ms$")]
fn is_slow(world: &mut LabWorld, millis: u64) {
    world.node.runtime_conf.lag = Duration::from_millis(millis);
}

/// By SIGKILL, and DEL follows: so it is where the kubelet's `runtimeRequestTimeout` is over.
#[given(regex = r"^the node's runtime kills a call that takes (\d+) ms$")]
fn is_impatient(world: &mut LabWorld, millis: u64) {
    world.node.runtime_conf.patience = Some(Duration::from_millis(millis));
}

/// Its sandbox has failed so.
#[then("the runtime kills the call for it")]
async fn kills(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    match world.start(&name).await? {
        PodStart::SandboxFailed { code: None, message } if message.contains("killed: too slow") => Ok(()),
        other => Err(Stop::wrong(format!("its start ended with {other:?}"))),
    }
}

/// `cni_default_network` of CRI-O.
#[given(regex = r#"^the node's runtime goes by the network "([^"]+)"$"#)]
fn goes_by(world: &mut LabWorld, network: String) {
    world.node.runtime_conf.default_network = Some(network);
}

/// A list as the node's own, under another name.
#[given(regex = r#"^network "([^"]+)" is in "([^"]+)" as well$"#)]
async fn second_list(world: &mut LabWorld, name: String, file: String) -> Step {
    bare(world)?;
    let mut list = world.cluster().await?.node()?.network();
    list["name"] = name.into();
    let node = files(world).await?;
    node.write(&node.paths.conf_dir.join(file), list.to_string()).await
}

/// Of lists with 1.1.0 a runtime may call STATUS and GC.
#[given(regex = r#"^the node's network speaks CNI "([^"]+)"$"#)]
fn speaks(world: &mut LabWorld, version: String) {
    world.node.cni_version = Some(version);
}

/// As Talos and Bottlerocket: a reboot empties the CNI directory.
#[given("the node is of an immutable system")]
fn immutable(world: &mut LabWorld) {
    world.node.configuration = Configuration::IsLost;
}

/// As on a node whose primary CNI is not installed yet.
#[given("the primary CNI has yet to write its list")]
async fn no_list(world: &mut LabWorld) -> Step {
    bare(world)?;
    let node = files(world).await?;
    Ok(node.hand.remove(&node.paths.conf_dir.join(PRIMARY)).await?)
}

/// The list that a new node has.
#[when("the primary CNI writes its list")]
async fn writes(world: &mut LabWorld) -> Step {
    let text = world.cluster().await?.node()?.network().to_string();
    let node = files(world).await?;
    node.write(&node.paths.conf_dir.join(PRIMARY), text).await
}

/// Pods run on.
#[when(regex = "^the node's (runtime|kubelet) is restarted$")]
async fn restarted(world: &mut LabWorld, what: String) -> Step {
    let tier = world.cluster().await?;
    let name = tier.node()?.name().to_owned();
    let machines = tier.machines()?;
    Ok(match what.as_str() {
        "runtime" => machines.restart_runtime(&name).await,
        _ => machines.restart_kubelet(&name).await,
    }?)
}

/// Status and message of the first node's condition `Ready`.
async fn ready(world: &mut LabWorld) -> Result<(bool, String), Stop> {
    let tier = world.cluster().await?;
    let nodes: Api<Node> = Api::all(tier.client());
    let node = nodes.get(tier.node()?.name()).await.map_err(Stop::harness)?;
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let found = conditions.into_iter().find(|one| one.type_ == "Ready");
    let found = found.ok_or_else(|| Stop::wrong("it has no condition Ready"))?;
    Ok((found.status == "True", found.message.unwrap_or_default()))
}

/// Waits for the condition's message.
#[then(regex = r#"^the node is not ready: "(.+)"$"#)]
async fn is_not_ready(world: &mut LabWorld, fragment: String) -> Step {
    eventually(world, SOON, async |world| match ready(world).await? {
        (false, message) if message.contains(&fragment) => Ok(()),
        (ready, message) => Err(Stop::wrong(format!("its condition Ready is {ready}: {message:?}"))),
    })
    .await
}

/// Waits for the condition.
#[then("the node is ready")]
async fn is_ready(world: &mut LabWorld) -> Step {
    eventually(world, SOON, async |world| match ready(world).await? {
        (true, _) => Ok(()),
        (false, message) => Err(Stop::wrong(format!("its condition Ready is false: {message:?}"))),
    })
    .await
}

/// The kubelet's event: it does not start the pod.
#[then("it waits for the node's network")]
async fn waits(world: &mut LabWorld) -> Step {
    let it = world.its_name()?;
    let tier = world.cluster().await?;
    eventually(world, SOON, async |_| {
        let told = events::about(&tier, &it).await?;
        expect(
            told.iter().any(|event| event.reason.as_deref() == Some("NetworkNotReady")),
            || "the kubelet does not say so",
        )
    })
    .await
}

/// What it would call for a pod, whatever the directory has meanwhile.
#[given(regex = r#"^the runtime has loaded "([^"]*)" within (\d+) ms$"#)]
#[then(regex = r#"^the runtime has loaded "([^"]*)" within (\d+) ms$"#)]
async fn has_loaded(world: &mut LabWorld, wanted: String, millis: u64) -> Step {
    let tier = world.cluster().await?;
    eventually(world, Duration::from_millis(millis), async |_| match tier.node()?.loaded()?.join(", ") {
        found if found == wanted => Ok(()),
        found => Err(Stop::wrong(format!("it has loaded {found:?}"))),
    })
    .await
}

/// It reads at each change of a file. Ever: of all the scenario's reads.
#[then("the runtime has never lost its network")]
async fn has_lost_nothing(world: &mut LabWorld) -> Step {
    let lost = world.cluster().await?.node()?.lost_networks()?;
    expect(lost.is_empty(), || format!("it read {} times that there is none: {lost:?}", lost.len()))
}

async fn pods(world: &mut LabWorld) -> Result<Api<Pod>, Stop> {
    let namespace = world.it()?.namespace.clone();
    Ok(Api::namespaced(world.cluster().await?.client(), &namespace))
}

/// Does not wait for its end.
#[when("somebody deletes it")]
async fn delete(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    pods(world).await?.delete(&name, &DeleteParams::default()).await.map_err(Stop::harness)?;
    world.starts.remove(&name);
    Ok(())
}

/// Its sandbox is taken down, and its object gone.
#[then(regex = r"^it is gone within (\d+) s$")]
async fn gone(world: &mut LabWorld, seconds: u64) -> Step {
    let (name, pods) = (world.it.clone(), pods(world).await?);
    eventually(world, Duration::from_secs(seconds), async |_| {
        match pods.get_opt(&name).await.map_err(Stop::harness)? {
            None => Ok(()),
            Some(_) => Err(Stop::wrong("it is still there")),
        }
    })
    .await
}
