// SPDX-License-Identifier: Apache-2.0
//! Pods that a controller makes from a template: a Deployment, a ReplicaSet, a StatefulSet or a Job.
//!
//! The pod that `it` means is the template; afterwards `it` is one of the pods that were made.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::{Memory, PodName};
use cucumber::{given, then, when};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{EvictParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// Deadline of what a controller does by itself.
const SOON: Duration = Duration::from_secs(60);

/// Label of the pods of a template.
const LABEL: &str = "app";

/// State between steps.
#[derive(Debug, Default)]
pub struct Made {
    /// Name of the owner, and of the template.
    name: String,
    /// UIDs of the pods before the last event.
    former: BTreeSet<String>,
}

fn template(world: &mut LabWorld) -> Result<Value, Stop> {
    let (name, mut pod) = (world.it.clone(), world.it()?.admitted().map_err(Stop::harness)?);
    pod["metadata"]["labels"][LABEL] = json!(name);
    let metadata =
        json!({ "labels": pod["metadata"]["labels"], "annotations": pod["metadata"]["annotations"] });
    Ok(json!({ "metadata": metadata, "spec": pod["spec"] }))
}

async fn create(world: &mut LabWorld, api_version: &str, kind: &str, spec: Value) -> Step {
    let it = world.its_name()?;
    let metadata = json!({ "name": it.name, "namespace": it.namespace });
    let owner = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec });
    world.made.name = it.name;
    world.objects.push(owner.clone());
    Ok(world.cluster().await?.apply(owner).await.map(drop)?)
}

/// Its template is the pod that `it` means.
#[given(regex = r"^a (ReplicaSet|Deployment|StatefulSet) keeps (\d+) pods? like it$")]
#[when(regex = r"^a (ReplicaSet|Deployment|StatefulSet) keeps (\d+) pods? like it$")]
async fn kept(world: &mut LabWorld, kind: String, replicas: u32) -> Step {
    let template = template(world)?;
    let selector = json!({ "matchLabels": { LABEL: world.it } });
    let mut spec = json!({ "replicas": replicas, "selector": selector, "template": template });
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(world.it);
    }
    create(world, "apps/v1", &kind, spec).await
}

/// Its template is the pod that `it` means, whose app does its work and ends; one pod after the other.
#[given(
    regex = r"^a Job runs it(?: (\d+) times)? with restartPolicy (Never|OnFailure) and backoffLimit (\d+)$"
)]
async fn job(world: &mut LabWorld, times: String, policy: String, limit: u32) -> Step {
    let mut template = template(world)?;
    template["spec"]["restartPolicy"] = json!(policy);
    let app = &mut template["spec"]["containers"][0];
    app["command"] = json!(["workload", "exit"]);
    let times: u32 = times.parse().unwrap_or(1);
    let spec = json!({ "completions": times, "backoffLimit": limit, "template": template });
    create(world, "batch/v1", "Job", spec).await
}

/// Pods of the template that are not being deleted.
async fn pods(world: &mut LabWorld) -> Result<Vec<Value>, Stop> {
    let name = world.made.name.clone();
    let namespace = world.pod(&name)?.namespace.clone();
    let all = world.cluster().await?.pods(&namespace, (LABEL, &name)).await?;
    Ok(all.into_iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()).collect())
}

fn text<'a>(pod: &'a Value, field: &str) -> &'a str {
    pod["metadata"][field].as_str().unwrap_or_default()
}

/// Has `it` mean one of the pods that were made.
fn mean(world: &mut LabWorld, pod: &Value) -> Step {
    let (name, template) = (text(pod, "name").to_owned(), world.made.name.clone());
    let mut like = world.pod(&template)?.clone();
    like.name.clone_from(&name);
    world.pods.insert(name.clone(), like);
    world.it = name;
    Ok(())
}

/// True if validation failed; of containers that are started again, before their present run: an agent sees it then.
fn failed_validation(pod: &Value) -> bool {
    let field = if pod["spec"]["restartPolicy"] == "Never" { "state" } else { "lastState" };
    let mut init = pod["status"]["initContainerStatuses"].as_array().into_iter().flatten();
    init.any(|one| one[field]["terminated"]["exitCode"] == 126)
}

/// Waits until validation failed with 126 in as many pods of the template.
#[given(regex = r"^(\d+) of them came up unredirected$")]
async fn unredirected(world: &mut LabWorld, count: usize) -> Step {
    let seen = eventually(world, SOON, async |world| {
        let pods = pods(world).await?;
        match pods.iter().filter(|pod| failed_validation(pod)).count() >= count {
            true => Ok(pods),
            false => Err(Stop::wrong(format!("its pods are {}", json!(pods)))),
        }
    })
    .await?;
    world.made.former = seen.iter().map(|pod| text(pod, "uid").to_owned()).collect();
    seen.iter().try_for_each(|pod| mean(world, pod))
}

/// As many pods of the template, and others than before, all run: each has proven that it is redirected, if it has an init container for it.
#[given(regex = r"^(\d+) of them run$")]
#[then(regex = r"^(\d+) others? (?:run|runs) in (?:its|their) place$")]
async fn replaced(world: &mut LabWorld, count: usize) -> Step {
    let seen = eventually(world, SOON, async |world| {
        let pods = pods(world).await?;
        let other = |pod: &&Value| !world.made.former.contains(text(pod, "uid"));
        let ready = pods
            .iter()
            .filter(other)
            .filter(|pod| pod["status"]["phase"] == "Running" && !failed_validation(pod));
        match ready.count() == count && pods.iter().filter(|pod| !is_evicted(pod)).count() == count {
            true => Ok(pods),
            false => Err(Stop::wrong(format!("its pods are {}", json!(pods)))),
        }
    })
    .await?;
    seen.iter().try_for_each(|pod| mean(world, pod))
}

fn is_evicted(pod: &Value) -> bool {
    pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "Evicted"
}

/// Its kubelet takes its memory to be less than it wants, or enough again.
#[when(regex = "^the node (runs short of memory|has enough memory again)$")]
async fn memory(world: &mut LabWorld, how: String) -> Step {
    let tier = world.cluster().await?;
    let memory = if how == "runs short of memory" { Memory::Short } else { Memory::Enough };
    Ok(tier.machines()?.set_memory(tier.node()?.name(), memory).await?)
}

/// Waits until the kubelet has evicted as many pods of the template.
#[then(regex = r"^(\d+) of them are evicted within (\d+) s$")]
async fn evicted(world: &mut LabWorld, count: usize, seconds: u64) -> Step {
    let seen = eventually(world, Duration::from_secs(seconds), async |world| {
        let all = pods(world).await?;
        let evicted: Vec<_> = all.iter().filter(|pod| is_evicted(pod)).cloned().collect();
        if evicted.len() == count {
            Ok(evicted)
        } else {
            Err(Stop::wrong(format!("its pods are {}", json!(all))))
        }
    })
    .await?;
    world.made.former = seen.iter().map(|pod| text(pod, "uid").to_owned()).collect();
    seen.iter().try_for_each(|pod| mean(world, pod))
}

/// Names of the pods, in order.
#[then(regex = r#"^they are called "([^"]+)"$"#)]
async fn called(world: &mut LabWorld, wanted: String) -> Step {
    let pods = pods(world).await?;
    let mut names: Vec<_> = pods.iter().map(|pod| text(pod, "name")).collect();
    names.sort_unstable();
    expect_eq("their names", &names.join(", "), &wanted)
}

/// Status of the Job, once its condition says so.
#[then(regex = r"^the Job is (Complete|Failed), with (\d+) succeeded and (\d+) failed$")]
async fn counted(world: &mut LabWorld, wanted: String, succeeded: i32, failed: i32) -> Step {
    let name = world.made.name.clone();
    let namespace = world.pod(&name)?.namespace.clone();
    let jobs: Api<Job> = Api::namespaced(world.cluster().await?.client(), &namespace);
    let status = eventually(world, SOON, async |_| {
        let status = jobs.get(&name).await.map_err(Stop::harness)?.status.unwrap_or_default();
        let conditions = status.conditions.iter().flatten();
        let over = conditions.clone().any(|one| one.type_ == wanted && one.status == "True");
        if over { Ok(status) } else { Err(Stop::wrong(format!("its status is {status:?}"))) }
    })
    .await?;
    let counts = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
    expect_eq("what succeeded and failed", &counts, &(succeeded, failed))
}

/// As `kubectl drain` does: the API server decides about each eviction. The embedded one knows no disruption budgets.
#[when(regex = r#"^node "([^"]+)" is drained$"#)]
async fn drained(world: &mut LabWorld, node: String) -> Step {
    let tier = world.cluster().await?;
    let (client, node) = (tier.client(), tier.node_named(&node)?.name().to_owned());
    let nodes: Api<Node> = Api::all(client.clone());
    let cordon = Patch::Merge(tier.labelled(&json!({ "spec": { "unschedulable": true } })));
    nodes.patch(&node, &PatchParams::default(), &cordon).await.map_err(Stop::harness)?;
    let here = pods(world).await?.into_iter().filter(|pod| pod["spec"]["nodeName"] == *node);
    for pod in here {
        world.made.former.insert(text(&pod, "uid").to_owned());
        let name = PodName::new(text(&pod, "namespace"), text(&pod, "name"));
        let pods: Api<Pod> = Api::namespaced(client.clone(), &name.namespace);
        pods.evict(&name.name, &EvictParams::default()).await.map_err(Stop::harness)?;
    }
    Ok(())
}

/// Waits until as many pods run, all of them on this node.
#[then(regex = r#"^(\d+) of them run on node "([^"]+)"$"#)]
async fn on(world: &mut LabWorld, count: usize, node: String) -> Step {
    let tier = world.cluster().await?;
    let node = tier.node_named(&node)?.name();
    let seen = eventually(world, SOON, async |world| {
        let pods = pods(world).await?;
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && pod["spec"]["nodeName"] == *node;
        match pods.iter().filter(runs).count() == count && pods.len() == count {
            true => Ok(pods),
            false => Err(Stop::wrong(format!("its pods are {}", json!(pods)))),
        }
    })
    .await?;
    seen.iter().try_for_each(|pod| mean(world, pod))
}
