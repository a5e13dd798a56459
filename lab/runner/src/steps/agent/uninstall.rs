// SPDX-License-Identifier: Apache-2.0
//! An operator uninstalls: everything that was applied is deleted, in one order or another.
//!
//! Each order of deletion waits until the agent's pods are gone.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cluster::conflist::{List, is_configuration};
use cluster::hand::Network;
use cluster::{Asked, LiveRule, PodName, PodStart, SERVICE_ACCOUNT, SYSTEM_NAMESPACE};
use cucumber::{given, then, when};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{chart, gone};
use crate::binaries::PLUGIN;
use crate::pod::Pod;
use crate::steps::files::Files;
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};
use crate::tier::{MESH_NAMESPACE, Tier};

/// The kinds of a release in the order in which Helm 3 uninstalls them; kinds that it does not know come last, by name.
const HELMS: [&str; 10] = [
    "Deployment",
    "DaemonSet",
    "RoleBinding",
    "Role",
    "ClusterRoleBinding",
    "ClusterRole",
    "ConfigMap",
    "ServiceAccount",
    "ResourceQuota",
    "NetworkPolicy",
];

/// The API server's cache of tokens that it has accepted: 10 s from its last look (`tokenSuccessCacheTTL`).
const IDLE: Duration = Duration::from_secs(11);

/// Deadline of a pod's start, or of a namespace's deletion.
const SOON: Duration = Duration::from_secs(60);

/// Number of nodes; before the deployment.
#[given(regex = r"^(\d+) nodes$")]
fn nodes(world: &mut LabWorld, count: usize) -> Step {
    if world.cluster.is_some() {
        return Err(Stop::harness("the cluster is there already"));
    }
    world.node.count = Some(count);
    Ok(())
}

/// The API server must look the token up again. The lab's own is told to; of another one nobody asks anything for so long.
#[when("nobody uses the node agent's token for 10 s")]
async fn idle(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    if let Ok(server) = tier.server() {
        server.forget_tokens();
        return Ok(());
    }
    let (front, user) = (tier.front()?, cluster::plugin_user());
    let its = |one: &Asked| one.user == user;
    let used =
        async || while timeout(IDLE, front.until_requests(front.count(&its) + 1, &its)).await.is_ok() {};
    let idle = timeout(SOON, used()).await;
    idle.map_err(|_| Stop::harness(format!("its token was used again and again for {SOON:?}")))
}

/// Deletes this object only.
#[when("the node agent's service account is deleted")]
async fn account(world: &mut LabWorld) -> Step {
    world.agent_is_tried().await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.cluster().await?.client(), SYSTEM_NAMESPACE);
    accounts.delete(SERVICE_ACCOUNT, &DeleteParams::default()).await.map_err(Stop::harness)?;
    Ok(())
}

/// By `kubectl delete -f` in the order of the file or in reverse, with `--cascade=foreground`, by `helm uninstall` (by kind), by `kubectl
/// delete namespace` (what is the cluster's stays) or `kubectl delete daemonset`; then waits until the agent's pods are gone.
#[when(
    regex = r"^the installation is deleted (as it was rendered|in reverse|in the foreground|as Helm does it|with its namespace|by its DaemonSet alone)$"
)]
async fn deleted(world: &mut LabWorld, order: String) -> Step {
    world.agent_is_tried().await?;
    if order == "with its namespace" {
        return with_namespace(world).await;
    }
    let mut objects = world.agent.applied.clone();
    let kind = |object: &Value| object["kind"].as_str().unwrap_or_default().to_owned();
    match order.as_str() {
        "in reverse" => objects.reverse(),
        "as Helm does it" => objects.sort_by_key(|object| {
            let place = HELMS.iter().position(|known| object["kind"] == *known);
            (place.unwrap_or(HELMS.len()), kind(object))
        }),
        "by its DaemonSet alone" => objects.retain(|object| object["kind"] == "DaemonSet"),
        _ => {}
    }
    let how = match order.as_str() {
        "in the foreground" => DeleteParams::foreground(),
        _ => DeleteParams::background(),
    };
    chart::remove(world, &objects, &how).await?;
    gone(world).await
}

async fn with_namespace(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    let namespaces: Api<Namespace> = Api::all(tier.client());
    namespaces.delete(SYSTEM_NAMESPACE, &DeleteParams::default()).await.map_err(Stop::harness)?;
    let path = format!("/api/v1/namespaces/{SYSTEM_NAMESPACE}");
    eventually(world, SOON, async |_| match tier.object(&path).await? {
        None => Ok(()),
        Some(left) => Err(Stop::wrong(format!("the namespace is still there: {}", left["status"]))),
    })
    .await?;
    gone(world).await
}

/// Files of ours that are left in a node's directories; `before` is what its configuration directory had before the deployment, where that is known.
async fn left(
    name: &str,
    node: &Files,
    before: Option<&BTreeMap<String, Vec<u8>>>,
) -> Result<Vec<String>, Stop> {
    let is_ours = |file: &String, text: &[u8]| {
        String::from_utf8_lossy(text).contains(PLUGIN)
            || before.is_some_and(|before| !before.contains_key(file))
    };
    let paths = &node.paths;
    let entries = node.all(&paths.conf_dir).await?.into_iter();
    let entries = entries.filter(|(file, text)| is_ours(file, text)).map(|(file, _)| file);
    let binaries = node.hand.list(&paths.bin_dir).await?.into_iter().map(|entry| entry.name);
    let binaries = binaries.filter(|file| file.contains(PLUGIN));
    let running = node.below(&paths.run_dir).await?.into_iter().map(|path| path.display().to_string());
    let mut found: Vec<_> = entries.chain(binaries).chain(running).collect();
    for directory in ["/run", "/var/lib"].map(Path::new) {
        let names = match node.hand.list(directory).await {
            Err(error) if error.is_absence() => Vec::new(),
            listed => listed?,
        };
        let ours = names.into_iter().map(|entry| directory.join(entry.name));
        let ours =
            ours.filter(|path| path.to_string_lossy().contains(PLUGIN) && !is_run_directory(path, node));
        found.extend(ours.map(|path| path.display().to_string()));
    }
    let rules = node.hand.inspect(Network::Node).await?.rules;
    found.extend(
        rules
            .iter()
            .filter(|rule| is_our_rule(rule))
            .map(|rule| format!("rule of {} {} {}: {}", rule.family, rule.table, rule.chain, rule.text)),
    );
    Ok(found.into_iter().map(|file| format!("{name}: {file}")).collect())
}

/// True for the run directory by any of its names: a kubelet made it, and it is empty.
fn is_run_directory(path: &Path, node: &Files) -> bool {
    let of_run =
        |path: &Path| path.strip_prefix("/var/run").or(path.strip_prefix("/run")).map(Path::to_owned);
    of_run(path).is_ok() && of_run(path) == of_run(&node.paths.run_dir)
}

/// True for a rule that names the mesh: the agent writes none into the node's own namespace.
fn is_our_rule(rule: &LiveRule) -> bool {
    [&rule.table, &rule.chain, &rule.text].iter().any(|text| text.to_ascii_lowercase().contains("istio"))
}

/// Fails if the first configuration of the node is none: an uninstall leaves the primary's. Whether its plugins are there is the primary's business.
async fn has_network(name: &str, node: &Files) -> Step {
    let all = node.all(&node.paths.conf_dir).await?;
    let first = all.iter().find(|(file, _)| is_configuration(Path::new(file)));
    let (file, text) = first.ok_or_else(|| Stop::wrong(format!("{name}: no configuration is left")))?;
    let parsed = List::of_file(Path::new(file), text);
    parsed.map(drop).map_err(|why| Stop::wrong(format!("{name}: {file} is no network: {why}")))
}

/// No conflist entry, no further file beside it, no binary, nothing in the run directory or called like it, no rule in the node's namespace; and a network that
/// a runtime can use, if there was one before.
#[then(regex = "^nothing of ours is left on (the|any) node$")]
async fn nothing_left(world: &mut LabWorld, which: String) -> Step {
    let tier = world.cluster().await?;
    let mut found = Vec::new();
    for (number, node) in
        tier.nodes().into_iter().enumerate().take(if which == "the" { 1 } else { usize::MAX })
    {
        let before = (number == 0).then_some(&world.agent.before);
        let files = Files::of(&tier, node).await?;
        found.extend(left(node.name(), &files, before).await?);
        if world.agent.before.keys().any(|file| is_configuration(Path::new(file))) {
            has_network(node.name(), &files).await?;
        }
    }
    expect(found.is_empty(), || format!("there still are {}", found.join(", ")))
}

/// They start without rules, as no agent is left.
#[then("a pod of the mesh and one outside of it start on every node")]
async fn pods_start(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    let names: Vec<String> = tier.nodes().iter().map(|node| node.name().to_owned()).collect();
    let starts = names.iter().flat_map(|node| {
        let meshed = Pod::meshed(&format!("meshed-{node}"), MESH_NAMESPACE);
        let plain = Pod::plain(&format!("plain-{node}"), "default");
        [meshed, plain].map(|pod| start(&tier, node, pod))
    });
    join_all(starts).await.into_iter().collect()
}

async fn start(tier: &Tier, on: &str, pod: Pod) -> Step {
    let mut object = pod.object();
    object["spec"]["nodeName"] = json!(on);
    tier.apply(object).await?;
    let nodes = tier.nodes();
    let node = nodes.iter().find(|node| node.name() == on);
    let node = node.ok_or_else(|| Stop::harness(format!("there is no node {on}")))?;
    match node.pod_started(&PodName::new(&pod.namespace, &pod.name), SOON * tier.patience()).await? {
        PodStart::Running { .. } => Ok(()),
        other => Err(Stop::wrong(format!("pod {} on {on} does not start: {other:?}", pod.name))),
    }
}
