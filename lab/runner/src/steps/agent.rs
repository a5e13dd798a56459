// SPDX-License-Identifier: Apache-2.0
//! The node agent under test, as a pod of its DaemonSet on a node that has nothing but its own network at first.

pub mod account;
pub mod asked;
pub mod chart;
pub mod crash;
pub mod denied;
pub mod disk;
pub mod leaving;
pub mod load;
pub mod node;
pub mod objects;
pub mod power;
pub mod settings;
pub mod several;
pub mod time;
pub mod uninstall;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use cluster::condition::is_ready;
use cluster::hand::Signal;
use cluster::{
    BASE_PLUGIN, DAEMONSET, Installed, Issuer, LabError, PRIMARY, PodName, PodStart, Position,
    SYSTEM_NAMESPACE,
};
use cucumber::{given, then, when};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::binaries::PLUGIN;
use crate::product::{Deployment, excuses};
use crate::steps::account::Account;
use crate::steps::files::{files, process};
use crate::steps::readiness;
use crate::steps::taint::controller;
use crate::steps::wait::{deadline_of, eventually};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};
use objects::{CONFIG_MAP, CONTAINER};

/// Default deadline of the agent.
const SOON: Duration = Duration::from_secs(30);
/// Deadline of what a cluster says about a pod that is late.
const STATED: Duration = Duration::from_secs(5);

/// Deployment of the node agent in a scenario.
#[derive(Debug, Default)]
pub struct AgentPlan {
    /// Values of the chart that are not the defaults.
    pub values: Value,
    /// Environment of its container, beside the chart's.
    pub env: Vec<Value>,
    /// Flags of its container, beside the chart's.
    pub flags: Vec<String>,
    /// Objects of the chart, once they are applied.
    pub applied: Vec<Value>,
    pub account: Account,
    /// Its account lacks rights of its policy.
    pub no_writes: bool,
    /// Configuration directory before the deployment.
    pub before: BTreeMap<String, Vec<u8>>,
    /// State of steps that compare pods.
    pub remembered: leaving::Remembered,
    /// Its containers before the node's last reboot, or the kill.
    pub former: Vec<String>,
    /// Last answer of its socket.
    pub answered: asked::Answered,
    /// Capabilities that its container lacks.
    pub lacks: Vec<String>,
    pub denials: Vec<denied::Denial>,
    /// Speed of its time, if it passes faster.
    pub times: Option<NonZeroU32>,
    /// Disk beneath a directory that it writes.
    pub disk: Option<disk::OwnDisk>,
    /// Takes the place of the cluster's authority.
    pub successor: Option<Arc<dyn Issuer>>,
    /// Its resource usage at an earlier step.
    pub uses: Option<load::Uses>,
}

/// A node with nothing but its own network at first.
#[given("a node without the plugin")]
pub fn bare(world: &mut LabWorld) -> Step {
    if world.cluster.is_some() && world.node.installed != Installed::ByAgent {
        return Err(Stop::harness("the node is there already, with the plugin"));
    }
    world.node.installed = Installed::ByAgent;
    Ok(())
}

/// Applies the chart; implies a node without the plugin.
#[given("the node agent is deployed")]
#[when("the node agent is deployed")]
async fn deploy(world: &mut LabWorld) -> Step {
    bare(world)?;
    let node = files(world).await?;
    world.agent.before = node.all(&node.paths.conf_dir).await?;
    chart::apply(world).await
}

/// Deploys it and waits until every wanted node has a ready pod of it.
#[given("the node agent is ready")]
async fn deployed(world: &mut LabWorld) -> Step {
    deploy(world).await?;
    ready(world, SOON).await
}

/// Deploys it where a scenario finds the plugin on the node, and the lab installs none itself. What the scenario says of the plugin's
/// configuration is the template of its entry.
pub async fn bring_plugin(world: &mut LabWorld) -> Step {
    if !world.node.plugin_conf.is_empty() {
        let lab = world.lab()?;
        let product = &lab.plan.sut.product;
        if matches!(product.deployed, Deployment::Objects(_)) {
            return Err(Stop::Unsupported(format!("{}: no template of its entry", product.name)));
        }
        let named = [("type".to_owned(), json!(PLUGIN))];
        let template: Map<_, _> = named.into_iter().chain(world.node.plugin_conf.clone()).collect();
        world.agent.values["env"]["CNI_NETWORK_CONFIG"] = Value::Object(template).to_string().into();
    }
    chart::apply(world).await?;
    ready(world, SOON).await
}

/// Changes a key of the ConfigMap, live.
#[when(regex = r#"^its ConfigMap sets "([A-Z_0-9]+)" to "([^"]*)"$"#)]
async fn set(world: &mut LabWorld, key: String, value: String) -> Step {
    patch_config_map(world, CONFIG_MAP, json!({ key: value })).await
}

/// Merges data into a ConfigMap of the system's namespace.
pub async fn patch_config_map(world: &mut LabWorld, name: &str, data: Value) -> Step {
    let maps: Api<ConfigMap> = Api::namespaced(world.cluster().await?.client(), SYSTEM_NAMESPACE);
    let patch = Patch::Merge(json!({ "data": data }));
    maps.patch(name, &PatchParams::default(), &patch).await.map(drop).map_err(Stop::harness)
}

/// Pods of the agent in the API, on the nodes that the scenario plays on or on none yet.
pub async fn agents(world: &mut LabWorld) -> Result<Vec<Value>, Stop> {
    let tier = world.cluster().await?;
    let all = tier.pods(SYSTEM_NAMESPACE, ("k8s-app", DAEMONSET)).await?;
    let nodes = tier.nodes();
    let plays = |on: &Value| on.is_null() || nodes.iter().any(|node| *on == *node.name());
    Ok(all.into_iter().filter(|pod| plays(&pod["spec"]["nodeName"])).collect())
}

/// IDs of a pod's containers.
pub fn containers(pod: &Value) -> impl Iterator<Item = &String> {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    statuses.filter_map(|one| match &one["containerID"] {
        Value::String(id) => Some(id),
        _ => None,
    })
}

/// Name of the agent's pod that is not terminating; of several that of the first node.
pub async fn agent(world: &mut LabWorld) -> Result<PodName, Stop> {
    let pods = agents(world).await?;
    let first = world.cluster().await?.node()?.name().to_owned();
    let stays = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    let found = stays.clone().find(|pod| pod["spec"]["nodeName"] == *first).or(stays.clone().next());
    let name = found.and_then(|pod| pod["metadata"]["name"].as_str());
    Ok(PodName::in_system(name.ok_or_else(|| Stop::wrong("there is no pod of the agent"))?))
}

/// Number of nodes that the DaemonSet wants a pod on, once its controller has seen its latest generation.
async fn desired(world: &mut LabWorld) -> Result<Option<i32>, Stop> {
    let client = world.cluster().await?.client();
    let sets: Api<DaemonSet> = Api::namespaced(client, SYSTEM_NAMESPACE);
    let set = sets.get_opt(DAEMONSET).await.map_err(Stop::harness)?.unwrap_or_default();
    let status = set.status.unwrap_or_default();
    Ok((status.observed_generation == set.metadata.generation).then_some(status.desired_number_scheduled))
}

/// Waits until every node that the DaemonSet wants has a pod of the agent, and all of them are ready.
async fn ready(world: &mut LabWorld, deadline: Duration) -> Step {
    let waited = eventually(world, deadline, async |world| {
        let pods = agents(world).await?;
        let staying = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let former = &world.agent.former;
        let is_of_before = |pod: &Value| containers(pod).any(|id| former.contains(id));
        let ready = staying.clone().filter(|pod| is_ready(pod) && !is_of_before(pod)).count();
        // A node that is an object alone has a pod as well, which nobody starts.
        let most = world.cluster().await?.nodes().len();
        let desired = desired(world).await?.and_then(|desired| usize::try_from(desired).ok());
        let desired = desired.map(|desired| desired.min(most));
        if ready > 0 && ready == staying.count() && desired.is_some_and(|desired| ready >= desired) {
            return Ok(());
        }
        let states: Vec<_> = pods.iter().map(|pod| pod["status"]["containerStatuses"].to_string()).collect();
        let states = states.join(", ");
        Err(Stop::wrong(format!("the agent is not ready: {ready} of {desired:?} pods: {states}")))
    });
    if let Err(late) = waited.await {
        started_by_lab(world).await?;
        return Err(late);
    }
    Ok(())
}

/// Fails, as the lab, if it could not start a pod of the agent.
async fn started_by_lab(world: &mut LabWorld) -> Step {
    let pods = agents(world).await?;
    let tier = world.cluster().await?;
    for pod in &pods {
        let name = PodName::in_system(pod["metadata"]["name"].as_str().unwrap_or_default());
        let node = tier.nodes().into_iter().find(|node| pod["spec"]["nodeName"] == *node.name());
        let Some(node) = node else { continue };
        if let Err(error @ LabError::Harness { .. }) = node.pod_started(&name, STATED).await {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Waits for the Ready condition of all its pods.
#[then(regex = r"^the node agent becomes ready within (\d+) s$")]
async fn becomes_ready(world: &mut LabWorld, seconds: u64) -> Step {
    ready(world, Duration::from_secs(seconds)).await
}

/// The primary's list before the deployment, where it is not called as scenarios call it: its name, and the types of its plugins.
fn others_list(before: &BTreeMap<String, Vec<u8>>) -> Option<(&str, String)> {
    if before.contains_key(PRIMARY) {
        return None;
    }
    let (name, text) = before.iter().find(|(name, _)| name.ends_with(".conflist"))?;
    let list: Value = serde_json::from_slice(text).unwrap_or_default();
    let types = list["plugins"].as_array().into_iter().flatten().filter_map(|plugin| plugin["type"].as_str());
    Some((name, types.collect::<Vec<_>>().join(", ")))
}

/// Types of the list's plugins, in order.
#[then(regex = r#"^the conflist "([^"]+)" lists "([^"]*)"(?: within (\d+) ms)?$"#)]
async fn lists(world: &mut LabWorld, file: String, wanted: String, millis: String) -> Step {
    let node = files(world).await?;
    let (file, wanted) = match others_list(&world.agent.before) {
        Some((name, types)) if file == PRIMARY => (name.to_owned(), wanted.replace(BASE_PLUGIN, &types)),
        _ => (file, wanted),
    };
    let path = node.paths.conf_dir.join(file);
    let deadline = Duration::from_millis(millis.parse().unwrap_or(0));
    node.until(deadline, &[&path], async || match node.types(&path).await? {
        found if found == wanted => Ok(()),
        found => Err(Stop::wrong(format!("it lists {found:?}"))),
    })
    .await
}

/// As before the deployment: it says the same, or its text is the same.
#[then(regex = r#"^the conflist "([^"]+)" is as it was(, byte for byte)?$"#)]
async fn as_before(world: &mut LabWorld, file: String, how: String) -> Step {
    let node = files(world).await?;
    let now = node.all(&node.paths.conf_dir).await?;
    let likeness = if how.is_empty() { Likeness::Meaning } else { Likeness::Bytes };
    is_as_it_was(&file, &OverTime { now: &now, before: &world.agent.before }, likeness)
}

/// Files of a directory, now and before the deployment.
struct OverTime<'a> {
    now: &'a BTreeMap<String, Vec<u8>>,
    before: &'a BTreeMap<String, Vec<u8>>,
}

/// Equality of two texts of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    Meaning,
    Bytes,
}

fn is_as_it_was(file: &str, files: &OverTime<'_>, likeness: Likeness) -> Step {
    let OverTime { now, before } = files;
    let file = match others_list(before) {
        Some((name, _)) if file == PRIMARY => name,
        _ => file,
    };
    let before = before
        .get(file)
        .ok_or_else(|| Stop::harness(format!("there was no {file} before the deployment")))?;
    let now = now.get(file).ok_or_else(|| Stop::wrong(format!("there is no {file}")))?;
    let parsed = |text: &[u8]| serde_json::from_slice::<Value>(text).ok();
    let says_the_same =
        || likeness == Likeness::Meaning && parsed(now).is_some() && parsed(now) == parsed(before);
    if now == before || says_the_same() {
        return Ok(());
    }
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Err(Stop::wrong(format!("it is {:?}, and was {:?}", text(now), text(before))))
}

/// Waits until no pod of the agent exists.
#[then("there is no pod of the node agent")]
pub async fn gone(world: &mut LabWorld) -> Step {
    eventually(world, SOON, async |world| match agents(world).await?.as_slice() {
        [] => Ok(()),
        left => Err(Stop::wrong(format!("{} pods of the agent are still there", left.len()))),
    })
    .await
}

/// Waits until its pods are gone. In the foreground it keeps a `deletionTimestamp` until then; roles and bindings may go before, as
/// `helm uninstall` does it.
#[when(regex = r"^the DaemonSet is deleted( in the foreground)?(, its rights first)?$")]
async fn delete(world: &mut LabWorld, foreground: String, rights: String) -> Step {
    if !rights.is_empty() {
        world.agent_is_tried().await?;
        chart::delete(world, "rbac.authorization.k8s.io").await?;
    }
    let how = match foreground.is_empty() {
        true => DeleteParams::default(),
        false => DeleteParams::foreground(),
    };
    let sets: Api<DaemonSet> = Api::namespaced(world.cluster().await?.client(), SYSTEM_NAMESPACE);
    sets.delete(DAEMONSET, &how).await.map_err(Stop::harness)?;
    gone(world).await
}

/// Allows lines of level `error` with this text, of it or of a taint controller. Any other fails the scenario at its end, unless a step waits
/// for it.
#[given(regex = r#"^its log may have the error "(.+)"$"#)]
fn may_say(world: &mut LabWorld, fragment: String) -> Step {
    if let Some(why) = excuses::fault(&fragment) {
        return Err(Stop::harness(format!("{fragment:?} excuses no error: {why}")));
    }
    world.errors.push(fragment);
    Ok(())
}

/// Waits for a line of its log, since the last action and of the process that lives now; `has ever said`: of any process of its pod.
#[then(regex = r#"^the node agent (says|has ever said) "(.+)"$"#)]
async fn says(world: &mut LabWorld, when: String, fragment: String) -> Step {
    world.errors.push(fragment.clone());
    let from = if when == "says" { world.marks.last().position() } else { Position::Ever };
    let pod = agent(world).await?;
    let workload = world.cluster().await?.starting(&pod).await?;
    workload.said(CONTAINER, &fragment, from).await?;
    Ok(())
}

/// Waits for the kubelet's word that it is not ready, and for an answer to the probe with this text: a kubelet tells the code alone.
#[then(regex = r#"^(the node agent|the other version's agent|the taint controller) is not ready: "(.*)"$"#)]
async fn not_ready(world: &mut LabWorld, whose: String, fragment: String) -> Step {
    world.errors.push(fragment.clone());
    eventually(world, SOON, async |world| {
        let pod = match whose.as_str() {
            "the node agent" => agent(world).await?,
            "the taint controller" => controller::name(),
            _ => several::other(),
        };
        readiness::lacks(&*world.cluster().await?, &pod, &fragment).await
    })
    .await
}

/// SIGKILL; the kubelet starts it again.
#[when("the node agent is killed")]
async fn killed(world: &mut LabWorld) -> Step {
    // A real kubelet waits before it starts a container again.
    let process = eventually(world, SOON, async |world| {
        let pod = agent(world).await?;
        process(world, &pod, CONTAINER).await
    });
    let process = process.await?;
    // A kubelet tells late of what has ended.
    let pods = agents(world).await?;
    world.agent.former.extend(pods.iter().flat_map(containers).cloned());
    process.signal(Signal::Kill).await
}

/// Waits until the pod that `it` means runs, however many starts that takes.
#[then(regex = r"^it comes up within (\d+) s$")]
pub async fn comes_up(world: &mut LabWorld, seconds: u64) -> Step {
    let pod = world.its_name()?;
    let tier = world.cluster().await?;
    tier.comes_up(&pod, deadline_of(world, Duration::from_secs(seconds))).await?;
    // The result of its first start no longer counts.
    let addresses = tier.workload(&pod).await?.addresses();
    world.started(&pod, PodStart::Running { addresses }).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(all: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
        all.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_owned())).collect()
    }

    #[test]
    fn the_primarys_list_is_found_whatever_it_is_called() {
        let list = r#"{"plugins": [{"type": "calico"}, {"type": "portmap"}]}"#;
        let calico = files(&[("10-calico.conflist", list), ("calico-kubeconfig", "")]);
        assert_eq!(others_list(&calico), Some(("10-calico.conflist", "calico, portmap".to_owned())));
        assert_eq!(others_list(&files(&[("05-other.conflist", list), (PRIMARY, list)])), None);
        assert_eq!(others_list(&files(&[])), None);
    }

    #[test]
    fn a_list_is_as_it_was_only_if_it_was_there_and_is() {
        let (old, new) =
            (files(&[("10-a.conflist", r#"{"b": 1}"#)]), files(&[("10-a.conflist", r#"{"b": 2}"#)]));
        let (none, spaced) = (files(&[]), files(&[("10-a.conflist", r#"{ "b": 1 }"#)]));
        let judged = |now, before, likeness| is_as_it_was(PRIMARY, &OverTime { now, before }, likeness);
        assert!(judged(&old, &old, Likeness::Bytes).is_ok());
        assert!(matches!(judged(&new, &old, Likeness::Bytes), Err(Stop::Wrong(_))));
        assert!(matches!(judged(&none, &old, Likeness::Bytes), Err(Stop::Wrong(_))));
        assert!(matches!(judged(&old, &none, Likeness::Bytes), Err(Stop::Harness(_))));
        assert!(judged(&spaced, &old, Likeness::Meaning).is_ok());
        assert!(matches!(judged(&spaced, &old, Likeness::Bytes), Err(Stop::Wrong(_))));
    }
}
