// SPDX-License-Identifier: Apache-2.0
//! The node's container runtime: which one it is, and what it makes of its plugins' configuration.

use std::time::Duration;

use cluster::RuntimeProfile;
use cucumber::{given, then, when};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;

use super::agent::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

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

/// What it would call for a pod, whatever the directory has meanwhile.
#[then(regex = r#"^the runtime has loaded "([^"]*)" within (\d+) ms$"#)]
async fn has_loaded(world: &mut LabWorld, wanted: String, millis: u64) -> Step {
    let tier = world.cluster().await?;
    eventually(world, Duration::from_millis(millis), async |_| match tier.node()?.loaded()?.join(", ") {
        found if found == wanted => Ok(()),
        found => Err(Stop::wrong(format!("it has loaded {found:?}"))),
    })
    .await
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
