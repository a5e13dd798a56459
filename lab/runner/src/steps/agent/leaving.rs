// SPDX-License-Identifier: Apache-2.0
//! The agent's pod goes, and comes back or not: what it leaves on the node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::condition::is_ready;
use cluster::hand::Kind;
use cluster::{DAEMONSET, PodName, PodStart, SYSTEM_NAMESPACE};
use cucumber::{given, then, when};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::objects::{self, CONTAINER};
use super::{agent, agents, comes_up, gone, several};
use crate::binaries::PLUGIN;
use crate::pod::Pod;
use crate::steps::files::{files, process};
use crate::steps::pod::has_code;
use crate::steps::taint;
use crate::steps::traffic::redirected;
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};
use crate::tier::MESH_NAMESPACE;

/// Deadline of a start or a deletion of the agent's pod.
const SOON: Duration = Duration::from_secs(40);

/// Bounds of the number of pods that start during a rollout.
const STARTS: std::ops::Range<usize> = 4..40;

/// A file, as one that was taken away and put back is another one: inode and time of change.
type Mark = ((u64, u64), (i64, i64));

/// Remembered state.
#[derive(Debug, Default)]
pub struct Remembered {
    files: BTreeMap<String, Mark>,
    /// Names of the files in its directory of the node's `/run`: what is in them may be renewed.
    running: BTreeSet<String>,
    pods: Vec<String>,
    /// Pods that started during a rollout or at once, and their results.
    pub started: Vec<(String, PodStart)>,
}

async fn installed(world: &mut LabWorld) -> Result<BTreeMap<String, Mark>, Stop> {
    let node = files(world).await?;
    let mut found = node.hand.list(&node.paths.conf_dir).await?;
    found.extend(node.hand.look(&node.paths.bin_dir.join(PLUGIN)).await?);
    Ok(found.into_iter().map(|entry| (entry.name, (entry.inode, entry.modified))).collect())
}

async fn running(world: &mut LabWorld) -> Result<BTreeSet<String>, Stop> {
    let node = files(world).await?;
    let entries = node.hand.list(&node.paths.run_dir).await?.into_iter();
    Ok(entries.filter(|entry| entry.kind == Kind::File).map(|entry| entry.name).collect())
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

/// Remembers our files and the agent's pod.
#[given("what is installed is remembered")]
#[when("what is installed is remembered")]
async fn remember(world: &mut LabWorld) -> Step {
    world.agent.remembered.files = installed(world).await?;
    world.agent.remembered.running = running(world).await?;
    remember_pods(world).await
}

/// Pods that a later one must differ from.
pub(super) async fn remember_pods(world: &mut LabWorld) -> Step {
    world.agent.remembered.pods = agents(world).await?.iter().map(uid).collect();
    Ok(())
}

/// Configuration and binary are still the same files (inodes), and what the plugin reads of the agent is there.
#[then("what is installed was not touched")]
async fn untouched(world: &mut LabWorld) -> Step {
    let now = installed(world).await?;
    let before = &world.agent.remembered.files;
    if before.is_empty() {
        return Err(Stop::harness("nothing was remembered"));
    }
    expect(now == *before, || format!("it is {now:?}, and was {before:?}"))?;
    let stay = running(world).await?;
    let gone: Vec<_> = world.agent.remembered.running.difference(&stay).collect();
    expect(gone.is_empty(), || format!("{gone:?} went"))
}

fn sets(world: &LabWorld) -> Result<Api<DaemonSet>, Stop> {
    let tier = world.cluster.as_ref().ok_or_else(|| Stop::harness("there is no cluster yet"))?;
    Ok(Api::namespaced(tier.client(), SYSTEM_NAMESPACE))
}

async fn patch_set(world: &LabWorld, template: Value) -> Step {
    let patch = Patch::Merge(json!({ "spec": { "template": template } }));
    sets(world)?.patch(DAEMONSET, &PatchParams::default(), &patch).await.map_err(Stop::harness)?;
    Ok(())
}

/// Rolls out another template, as an upgrade does.
#[when("the DaemonSet's template changes")]
async fn template(world: &mut LabWorld) -> Step {
    let annotations = json!({ "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z" });
    patch_set(world, json!({ "metadata": { "annotations": annotations } })).await
}

/// Waits until a pod that was not remembered is ready, and alone.
async fn another(world: &mut LabWorld) -> Step {
    let pods = agents(world).await?;
    let new = pods.iter().all(|pod| !world.agent.remembered.pods.contains(&uid(pod)));
    if new && pods.len() == 1 && pods.iter().all(is_ready) {
        return Ok(());
    }
    let states: Vec<String> = pods.iter().map(|pod| pod["status"].to_string()).collect();
    Err(Stop::wrong(format!("the pods of the agent are {}", states.join(", "))))
}

/// Waits for a pod other than the remembered one.
#[then(regex = r"^another pod of the node agent is ready within (\d+) s$")]
async fn another_within(world: &mut LabWorld, seconds: u64) -> Step {
    eventually(world, Duration::from_secs(seconds), async |world| another(world).await).await
}

/// Rolls out another template; pods start one after the other meanwhile.
#[when("the DaemonSet rolls while pods like it start")]
async fn roll(world: &mut LabWorld) -> Step {
    remember(world).await?;
    template(world).await?;
    for number in 0..STARTS.end {
        if number >= STARTS.start && another(world).await.is_ok() {
            return Ok(());
        }
        let name = world.like_it(number)?.name;
        let start = world.start(&name).await?;
        world.agent.remembered.started.push((name, start));
    }
    another(world).await
}

/// None of those pods ever ran without rules. On a tier that is not told of codes any refusal counts.
#[then("each of them is redirected, at once or after a refusal with code 11")]
async fn all_redirected(world: &mut LabWorld) -> Step {
    let started = std::mem::take(&mut world.agent.remembered.started);
    if started.len() < STARTS.start {
        return Err(Stop::harness(format!("only {} pods started", started.len())));
    }
    let told = world.cluster().await?.knows_codes();
    for (name, start) in started {
        world.it.clone_from(&name);
        match start {
            PodStart::Running { .. } => {}
            PodStart::SandboxFailed { code, .. } if has_code(code, 11, told) => {
                comes_up(world, SOON.as_secs()).await?
            }
            other => return Err(Stop::wrong(format!("the start of {name} ended with {other:?}"))),
        }
        redirected(world, &name).await?;
    }
    Ok(())
}

/// The first of them runs by then. The others start one after the other meanwhile, and every other one is deleted as soon as it has.
#[when("the DaemonSet is deleted while pods like it start and end")]
async fn deleted_meanwhile(world: &mut LabWorld) -> Step {
    for number in 0..STARTS.end {
        if number >= STARTS.start && agents(world).await?.is_empty() {
            break;
        }
        let Pod { name, namespace, .. } = world.like_it(number)?;
        let start = world.start(&name).await?;
        match number {
            0 => drop(sets(world)?.delete(DAEMONSET, &DeleteParams::default()).await.map_err(Stop::harness)?),
            _ if number % 2 == 1 => {
                let pods: Api<PodObject> = Api::namespaced(world.cluster().await?.client(), &namespace);
                pods.delete(&name, &DeleteParams::default()).await.map_err(Stop::harness)?;
            }
            _ => {}
        }
        world.agent.remembered.started.push((name, start));
    }
    gone(world).await
}

/// However its first start ended.
#[then("each of them runs in the end, and can be deleted")]
async fn nothing_stuck(world: &mut LabWorld) -> Step {
    let pods: Api<PodObject> = Api::namespaced(world.cluster().await?.client(), MESH_NAMESPACE);
    for (name, start) in std::mem::take(&mut world.agent.remembered.started) {
        let object = pods.get_opt(&name).await.map_err(Stop::harness)?;
        if object.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()) {
            world.it.clone_from(&name);
            if !matches!(start, PodStart::Running { .. }) {
                comes_up(world, SOON.as_secs()).await?;
            }
            pods.delete(&name, &DeleteParams::default()).await.map_err(Stop::harness)?;
        }
        eventually(world, SOON, async |_| match pods.get_opt(&name).await.map_err(Stop::harness)? {
            Some(_) => Err(Stop::wrong(format!("{name} cannot be deleted"))),
            None => Ok(()),
        })
        .await?;
    }
    Ok(())
}

/// Waits until it is gone.
#[when("the node agent's pod is evicted")]
async fn evicted(world: &mut LabWorld) -> Step {
    let before: Vec<Value> = agents(world).await?;
    let pods: Api<PodObject> = Api::namespaced(world.cluster().await?.client(), SYSTEM_NAMESPACE);
    for pod in &before {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        pods.evict(name, &EvictParams::default()).await.map_err(Stop::harness)?;
    }
    eventually(world, SOON, async |world| {
        let left = agents(world).await?;
        match left.iter().any(|pod| before.iter().any(|old| uid(old) == uid(pod))) {
            false => Ok(()),
            true => Err(Stop::wrong("the pod that was evicted is still there")),
        }
    })
    .await
}

/// Its object goes at once. Until the end of the scenario there is no other agent on the node.
#[when("the node agent's pod is deleted by force, and the next one does not start")]
async fn forced(world: &mut LabWorld) -> Step {
    let strategy = json!({ "spec": { "updateStrategy": { "type": "OnDelete", "rollingUpdate": null } } });
    let patch = Patch::Merge(strategy);
    sets(world)?.patch(DAEMONSET, &PatchParams::default(), &patch).await.map_err(Stop::harness)?;
    let containers = json!([{ "name": CONTAINER, "command": ["/no/such/program"] }]);
    let patch = Patch::Strategic(json!({ "spec": { "template": { "spec": { "containers": containers } } } }));
    sets(world)?.patch(DAEMONSET, &PatchParams::default(), &patch).await.map_err(Stop::harness)?;
    let name = agent(world).await?.name;
    let pod = process(world, &PodName::in_system(&name), CONTAINER).await?;
    let pods: Api<PodObject> = Api::namespaced(world.cluster().await?.client(), SYSTEM_NAMESPACE);
    pods.delete(&name, &DeleteParams::default().grace_period(0)).await.map_err(Stop::harness)?;
    let proc = pod.file("stat");
    eventually(world, SOON, async |_| match pod.hand.look(&proc).await? {
        None => Ok(()),
        Some(_) => Err(Stop::wrong("the node agent's process is still there")),
    })
    .await
}

/// Waits until its pod is gone.
#[when("the DaemonSet's affinity leaves the node out")]
async fn affinity(world: &mut LabWorld) -> Step {
    let expression = json!({ "key": "mesh", "operator": "Exists" });
    let terms = json!([{ "matchExpressions": [expression] }]);
    let required =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
    patch_set(world, json!({ "spec": { "affinity": { "nodeAffinity": required } } })).await?;
    gone(world).await
}

/// Changes the node's object. A kubelet restores labels of its own, `kubernetes.io/os` for one, within seconds.
#[when(regex = r#"^the node's label "([^"]+)" is "([^"]*)"$"#)]
async fn label(world: &mut LabWorld, key: String, value: String) -> Step {
    taint::patch(world, "the node", json!({ "metadata": { "labels": { key: value } } })).await
}

/// Runs it to completion in a pod with the agent's mounts.
#[when("install-cni --purge is run on the node")]
async fn purge(world: &mut LabWorld) -> Step {
    const NAME: &str = "purge";
    let pod = objects::once(NAME, &several::template(world).await?, objects::Job::Purge);
    run_once(world, NAME, pod).await
}

/// Runs a pod to its end, which has to be a success.
pub(super) async fn run_once(world: &mut LabWorld, name: &str, pod: Value) -> Step {
    match run_to_its_end(world, name, pod).await?.as_str() {
        "Succeeded" => Ok(()),
        phase => Err(Stop::wrong(format!("its pod is {phase}"))),
    }
}

/// Runs a pod to its end; returns its phase.
pub(super) async fn run_to_its_end(world: &mut LabWorld, name: &str, pod: Value) -> Result<String, Stop> {
    let tier = world.cluster().await?;
    let start = tier.start_pod(&PodName::in_system(name), pod).await?;
    let pods: Api<PodObject> = Api::namespaced(tier.client(), SYSTEM_NAMESPACE);
    let ended = eventually(world, SOON, async |_| {
        let pod = pods.get(name).await.map_err(Stop::harness)?;
        match pod.status.and_then(|status| status.phase) {
            Some(phase) if phase == "Succeeded" || phase == "Failed" => Ok(phase),
            other => Err(Stop::wrong(format!("its pod is {other:?}, its start was {start:?}"))),
        }
    })
    .await?;
    tier.delete_pod(&PodName::in_system(name)).await?;
    Ok(ended)
}

/// The program is there, whole, and can be run; or nothing is.
#[then(regex = "^the plugin's binary is (on the node|gone)$")]
async fn binary(world: &mut LabWorld, wanted: String) -> Step {
    let node = files(world).await?;
    let there = node.hand.look(&node.paths.bin_dir.join(PLUGIN)).await?;
    let whole = several::own_plugin(world)?.len() as u64;
    let is_there = there
        .as_ref()
        .is_some_and(|entry| entry.kind == Kind::File && entry.mode & 0o111 == 0o111 && entry.size == whole);
    let holds = if wanted == "gone" { there.is_none() } else { is_there };
    expect(holds, || format!("{PLUGIN} of {whole} bytes is {there:?}"))
}
