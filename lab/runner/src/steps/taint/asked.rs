// SPDX-License-Identifier: Apache-2.0
//! Requests of the taint controllers to the API server, and their faults.

use std::time::Duration;

use cluster::{Asked, Effect, Fault, Verb};
use cucumber::{given, then, when};

use super::controller::user;
use super::{QUIET, SOON};
use crate::steps::agent::bare;
use crate::steps::wait::{throughout, within};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// Requests of the controllers, in order of arrival.
pub(super) async fn requests(world: &mut LabWorld) -> Result<Vec<Asked>, Stop> {
    let mut requests = world.cluster().await?.front()?.requests();
    requests.retain(|one| one.user == user());
    Ok(requests)
}

/// Injects a fault for the controllers alone.
async fn fault(world: &mut LabWorld, fault: Fault) -> Step {
    bare(world)?;
    world.cluster().await?.front()?.add(Fault { user: Some(user()), ..fault });
    Ok(())
}

/// The API server holds the request back until its fault is lifted.
#[given(regex = r#"^the first patch of node "([^"]+)" hangs$"#)]
async fn hangs(world: &mut LabWorld, node: String) -> Step {
    let first = Fault::about(Verb::Patch, "nodes", Effect::Hold(None)).first(1);
    fault(world, Fault { name: Some(node), ..first }).await
}

/// Delays these requests of the controller.
#[given(regex = r"^(lists of pods|lists of nodes|new events) take (\d+) ms$")]
async fn slow_requests(world: &mut LabWorld, which: String, millis: u64) -> Step {
    let effect = Effect::Hold(Some(Duration::from_millis(millis)));
    let (verb, resource) = match which.as_str() {
        "new events" => (Verb::Create, "events"),
        "lists of nodes" => (Verb::List, "nodes"),
        _ => (Verb::List, "pods"),
    };
    fault(world, Fault::about(verb, resource, effect)).await
}

/// An outage in which nothing changes.
#[when(regex = r"^watches of ConfigMaps break off, and the next (\d+) are refused$")]
async fn outage(world: &mut LabWorld, times: u32) -> Step {
    let watches =
        |effect, times| Fault { times: Some(times), ..Fault::about(Verb::Watch, "configmaps", effect) };
    fault(world, watches(Effect::answer(503), times)).await?;
    fault(world, watches(Effect::Cut { after: 0 }, 1)).await
}

/// True if it is a patch of a node by a user.
fn is_patch(one: &Asked, user: &str, node: &str) -> bool {
    let of_node = one.verb == Verb::Patch && one.resource.as_deref() == Some("nodes");
    of_node && one.name.as_deref() == Some(node) && one.user == user
}

#[when(regex = r#"^a patch of node "([^"]+)" is on its way$"#)]
async fn on_its_way(world: &mut LabWorld, node: String) -> Step {
    let tier = world.cluster().await?;
    let user = user();
    let is_patch = |one: &Asked| is_patch(one, &user, &node);
    let arrived = tier.front()?.until_requests(1, &is_patch);
    within(&**tier, SOON, arrived, || Stop::wrong("no node was patched")).await
}

/// So many patches of a node by a user succeeded or are on their way, and for a while no other.
async fn changed_by(world: &mut LabWorld, user: &str, node: &str, wanted: usize) -> Step {
    let is_change = |one: &Asked| is_patch(one, user, node) && one.code.is_none_or(|code| code == 200);
    throughout(world, QUIET, async |world| {
        let changes = world.cluster().await?.front()?.count(&is_change);
        expect_eq("the number of changes", &changes, &wanted)
    })
    .await
}

/// Counts patches that succeeded.
#[then(regex = r#"^the taint controller changed node "([^"]+)" (\d+) times?$"#)]
async fn changed(world: &mut LabWorld, node: String, wanted: usize) -> Step {
    changed_by(world, &user(), &node, wanted).await
}

#[then(regex = r"^the node agent changed the node (\d+) times?$")]
async fn agent_changed(world: &mut LabWorld, wanted: usize) -> Step {
    let node = world.cluster().await?.node()?.name().to_owned();
    changed_by(world, &cluster::plugin_user(), &node, wanted).await
}
