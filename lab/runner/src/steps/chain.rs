// SPDX-License-Identifier: Apache-2.0
//! Calls that the runtime makes of its whole chain, as it does outside of a pod's usual life.

use cluster::{PRIMARY, RuntimeCall};
use cucumber::{given, then, when};

use super::files::files;
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

#[when(regex = "^the runtime calls (CHECK|DEL) of it$")]
async fn about_it(world: &mut LabWorld, command: String) -> Step {
    let pod = world.its_name()?;
    world.run_pod(&pod.name).await?;
    let call = if command == "CHECK" { RuntimeCall::Check(pod) } else { RuntimeCall::Del(pod) };
    world.chain = Some(world.cluster().await?.node()?.runtime_call(call).await?);
    Ok(())
}

#[when("it is deleted")]
async fn delete(world: &mut LabWorld) -> Step {
    let pod = world.its_name()?;
    world.cluster().await?.delete_pod(&pod).await?;
    world.starts.remove(&pod.name);
    Ok(())
}

/// At the scenario's end, with this text in the runtime's error. Any other failure of a DEL there fails the scenario.
#[given(regex = r#"^pods may be left that nobody can delete: "(.+)"$"#)]
fn may_be_left(world: &mut LabWorld, fragment: String) {
    world.left_networks.push(fragment);
}

#[then("the runtime is content")]
fn content(world: &mut LabWorld) -> Step {
    match &world.chain {
        Some(Ok(())) => Ok(()),
        Some(Err(failure)) => Err(Stop::wrong(format!("it was told {failure:?}"))),
        None => Err(Stop::harness("the runtime was not asked to call anything")),
    }
}

#[then(regex = r#"^the runtime is told: code (\d+), "(.*)"$"#)]
fn told(world: &mut LabWorld, code: u32, fragment: String) -> Step {
    match &world.chain {
        Some(Err(failure)) if failure.code == Some(code) && failure.message.contains(&fragment) => Ok(()),
        Some(other) => Err(Stop::wrong(format!("it was told {other:?}"))),
        None => Err(Stop::harness("the runtime was not asked to call anything")),
    }
}

/// The plugin was really called, and really succeeded: a chain that leaves it out would be content, too.
#[then(regex = "^the plugin's last ([A-Z]+) succeeded$")]
async fn last(world: &mut LabWorld, command: String) -> Step {
    let calls = world.cluster().await?.node()?.cni_calls()?;
    let last = calls.iter().rfind(|(call, _)| call.plugin == PLUGIN && call.command() == command);
    match last {
        Some((_, answer)) if answer.exit == Some(0) => Ok(()),
        Some((_, answer)) => Err(Stop::wrong(format!("{command} was answered {answer:?}"))),
        None => Err(Stop::wrong(format!("the runtime never called {command}"))),
    }
}

/// As on a node before the plugin is installed.
#[given("the node's network lacks the plugin")]
async fn without(world: &mut LabWorld) -> Step {
    let cluster =
        world.cluster_without_agent("take the plugin from a node whose agent gives it back").await?;
    let mut network = cluster.node()?.network();
    if let Some(plugins) = network["plugins"].as_array_mut() {
        plugins.retain(|plugin| plugin["type"] != PLUGIN);
    }
    let node = files(world).await?;
    node.write(&node.paths.conf_dir.join(PRIMARY), network.to_string()).await
}
