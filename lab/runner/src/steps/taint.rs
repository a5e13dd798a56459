// SPDX-License-Identifier: Apache-2.0
//! Taints of nodes, and the controllers that mind them. The lab's own node is called `the node`; others are objects alone, and so are the
//! agents' pods on them.

use std::time::Duration;

use cluster::{DAEMONSET, PodName, SYSTEM_NAMESPACE};
use cucumber::{given, then, when};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::agent::bare;
use super::agent::objects::CONTAINER;
use crate::steps::wait::{eventually, throughout_versions};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};

mod asked;
pub mod controller;
mod leading;

/// Deadline of a decision. A controller acts within milliseconds, on a machine that may be busy.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Window in which a controller that goes on would change something more.
const QUIET: Duration = Duration::from_millis(500);

/// The node that is more than an object.
const REAL: &str = "the node";

/// State between steps.
#[derive(Debug, Default)]
pub struct Taints {
    /// Number of changes of nodes and pods: each has a number of its own.
    changes: u32,
    pub controllers: controller::Controllers,
}

/// `a, b:NoExecute`
fn list(text: &str) -> Vec<Value> {
    let taint = |word: &str| {
        let (key, effect) = word.split_once(':').unwrap_or((word, "NoSchedule"));
        json!({ "key": key, "effect": effect })
    };
    text.split(", ").filter(|word| !word.is_empty()).map(taint).collect()
}

/// Name of a node's object.
pub(super) async fn named(world: &mut LabWorld, name: &str) -> Result<String, Stop> {
    if name == REAL {
        return Ok(world.cluster().await?.node()?.name().to_owned());
    }
    Ok(name.trim_matches('"').trim_start_matches("node \"").to_owned())
}

fn changed(world: &mut LabWorld) -> u32 {
    world.taints.changes += 1;
    world.taints.changes
}

fn now() -> String {
    Timestamp::now().to_string()
}

async fn object(world: &mut LabWorld, node: &str) -> Result<Option<Value>, Stop> {
    let path = format!("/api/v1/nodes/{}", named(world, node).await?);
    Ok(world.cluster().await?.object(&path).await?)
}

pub async fn patch(world: &mut LabWorld, node: &str, patch: Value) -> Step {
    let nodes: Api<Node> = Api::all(world.cluster().await?.client());
    let name = named(world, node).await?;
    let status = !patch["status"].is_null();
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let done = match status {
        true => nodes.patch_status(&name, &params, &patch).await,
        false => nodes.patch(&name, &params, &patch).await,
    };
    done.map(drop).map_err(Stop::harness)
}

/// Taints before anything runs there; `NoSchedule` unless the effect is given.
#[given(regex = r#"^(the|every) node is made with the taints "([^"]*)"$"#)]
async fn tainted(world: &mut LabWorld, which: String, taints: String) -> Step {
    bare(world)?;
    let tier = world.cluster().await?;
    let count = if which == "every" { tier.nodes().len() } else { 1 };
    for node in tier.nodes().iter().take(count) {
        patch(world, node.name(), json!({ "spec": { "taints": list(&taints) } })).await?;
    }
    Ok(())
}

/// Node object; replaces one of its name.
#[given(regex = r#"^node "([^"]+)" is made with the taints "([^"]*)"$"#)]
#[when(regex = r#"^node "([^"]+)" is made with the taints "([^"]*)"$"#)]
async fn made(world: &mut LabWorld, name: String, taints: String) -> Step {
    bare(world)?;
    let boot = format!("{name}-{}", changed(world));
    let tier = world.cluster().await?;
    if object(world, &name).await?.is_some() {
        let nodes: Api<Node> = Api::all(tier.client());
        nodes.delete(&name, &DeleteParams::default()).await.map_err(Stop::harness)?;
        past_the_second().await;
    }
    // Nobody has told yet what it is: without a label for its system nothing is scheduled there that asks for Linux.
    let mut node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": {} });
    if !taints.is_empty() {
        node["spec"]["taints"] = list(&taints).into();
    }
    world.apply(node).await?;
    // A controller of nodes waits for news of it from now on.
    let ready = json!([{ "type": "Ready", "status": "True", "lastHeartbeatTime": now(), "lastTransitionTime": now() }]);
    patch(world, &name, json!({ "status": { "conditions": ready, "nodeInfo": { "bootID": boot } } })).await?;
    // A node is made with the taint of one that is not ready, until the controller of nodes has seen that it is.
    // Ours may be gone by then.
    let ours: Vec<_> = list(&taints).iter().map(|taint| taint["key"].clone()).collect();
    eventually(world, SOON, async |world| {
        let held = object(world, &name).await?.unwrap_or_default();
        let keys = held["spec"]["taints"].as_array().into_iter().flatten().map(|taint| taint["key"].clone());
        expect_eq(
            "its further taints",
            &keys.filter(|key| !ours.contains(key)).collect::<Vec<_>>(),
            &Vec::new(),
        )
    })
    .await
}

/// An object's creation is told in whole seconds: what was before it must be before its second.
async fn past_the_second() {
    let since = Timestamp::now().as_second();
    let mut due = tokio::time::interval(Duration::from_millis(10));
    while Timestamp::now().as_second() == since {
        due.tick().await;
    }
}

/// Changes the boot ID; nothing is known of its pods yet.
#[when(regex = r#"^node "([^"]+)" reboots$"#)]
async fn reboots(world: &mut LabWorld, name: String) -> Step {
    let boot = format!("{name}-{}", changed(world));
    patch(world, &name, json!({ "status": { "nodeInfo": { "bootID": boot } } })).await
}

#[given(regex = r#"^the agent on node "([^"]+)" is (ready|not ready)$"#)]
#[when(regex = r#"^the agent on node "([^"]+)" is (ready|not ready)$"#)]
async fn agent_is(world: &mut LabWorld, node: String, how: String) -> Step {
    let restarts = changed(world);
    let ready = if how == "ready" { "True" } else { "False" };
    let running = json!({ "name": CONTAINER, "restartCount": restarts, "state": { "running": { "startedAt": now() } } });
    let name = format!("{DAEMONSET}-{node}");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": SYSTEM_NAMESPACE, "labels": { "k8s-app": DAEMONSET } },
        // As the chart's: else a `NoExecute` taint ends it.
        "spec": {
            "nodeName": node, "containers": [{ "name": CONTAINER, "image": "install-cni" }],
            "tolerations": [{ "operator": "Exists" }],
        },
    });
    let tier = world.cluster().await?;
    if tier.pod(&PodName::in_system(&name)).await?.is_none() {
        tier.apply(pod).await?;
    }
    let status = json!({
        "phase": "Running",
        "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": now() }],
        "containerStatuses": [running],
    });
    let pods: Api<Pod> = Api::namespaced(tier.client(), SYSTEM_NAMESPACE);
    let status = Patch::Merge(json!({ "status": status }));
    pods.patch_status(&name, &PatchParams::default(), &status).await.map(drop).map_err(Stop::harness)
}

/// Deletes the pod's object.
#[when(regex = r#"^the agent on node "([^"]+)" is gone$"#)]
async fn agent_gone(world: &mut LabWorld, node: String) -> Step {
    let pods: Api<Pod> = Api::namespaced(world.cluster().await?.client(), SYSTEM_NAMESPACE);
    let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(&format!("{DAEMONSET}-{node}"), &at_once).await.map(drop).map_err(Stop::harness)
}

/// Adds a foreign taint.
#[when(regex = r#"^somebody taints (the node|node "[^"]+") with "([^"]+)"$"#)]
async fn somebody(world: &mut LabWorld, node: String, key: String) -> Step {
    let held = object(world, &node).await?.ok_or_else(|| Stop::harness("there is no such node"))?;
    let mut taints = held["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.extend(list(&key));
    patch(world, &node, json!({ "spec": { "taints": taints } })).await
}

/// A node's taints, in order: the key alone of one with the effect `NoSchedule`, else `key:Effect`.
pub async fn keys(world: &mut LabWorld, node: &str) -> Result<String, Stop> {
    let held = object(world, node).await?.map(serde_json::from_value).transpose().map_err(Stop::harness)?;
    shown(held.as_ref())
}

fn shown(node: Option<&Node>) -> Result<String, Stop> {
    let node = node.ok_or_else(|| Stop::wrong("there is no such node"))?;
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let shown = taints.map(|taint| match (&taint.key, &*taint.effect) {
        (key, "NoSchedule") => key.clone(),
        (key, effect) => format!("{key}:{effect}"),
    });
    Ok(shown.collect::<Vec<_>>().join(", "))
}

/// Waits for these in this order.
#[given(regex = r#"^(the node|node "[^"]+") has the taints "([^"]*)"(?: within (\d+) s)?$"#)]
#[then(regex = r#"^(the node|node "[^"]+") has the taints "([^"]*)"(?: within (\d+) s)?$"#)]
async fn has(world: &mut LabWorld, node: String, wanted: String, within: String) -> Step {
    let deadline = within.parse().map_or(SOON, Duration::from_secs);
    eventually(world, deadline, async |world| expect_eq("the taints", &keys(world, &node).await?, &wanted))
        .await
}

/// The controller logs the reason; the taint is still there a while after it.
#[then(regex = r#"^the taint stays on node "([^"]+)": "(.*)"$"#)]
async fn stays(world: &mut LabWorld, node: String, why: String) -> Step {
    let before = keys(world, &node).await?;
    expect(!before.is_empty(), || format!("node {node} has no taint"))?;
    let line = format!("node={node}");
    eventually(world, SOON, async |world| {
        expect_eq("the taints", &keys(world, &node).await?, &before)?;
        let said = controller::logs(world).await?;
        expect(
            said.iter()
                .any(|one| one.contains("the taint stays") && one.contains(&line) && one.contains(&why)),
            || format!("nobody said so: {said:#?}"),
        )
    })
    .await?;
    let nodes = Api::all(world.cluster().await?.client());
    let name = named(world, &node).await?;
    throughout_versions(world, &nodes, &name, QUIET, |node| expect_eq("the taints", &shown(node)?, &before))
        .await
}

/// Pod without a node.
#[when(regex = r#"^"([^"]+)" is created$"#)]
async fn created(world: &mut LabWorld, name: String) -> Step {
    world.it.clone_from(&name);
    let object = world.pod(&name)?.admitted().map_err(Stop::harness)?;
    world.cluster().await?.apply(object).await?;
    Ok(())
}

/// The scheduler gives this reason.
#[then(regex = r#"^it waits for a node: "(.*)"$"#)]
async fn waits(world: &mut LabWorld, why: String) -> Step {
    let it = world.its_name()?;
    let tier = world.cluster().await?;
    eventually(world, SOON, async |_| {
        let pod = tier.pod(&it).await?.unwrap_or_default();
        let said = pod["status"]["conditions"].to_string();
        match pod["spec"]["nodeName"].is_null() && said.contains(&why) {
            true => Ok(()),
            false => {
                Err(Stop::wrong(format!("its node is {}, and it is said: {said}", pod["spec"]["nodeName"])))
            }
        }
    })
    .await
}
