// SPDX-License-Identifier: Apache-2.0
//! Steps of sweeps (`cnilab sweep`): how late the agent is, and what became of a pod then. Nothing is judged.

use std::collections::BTreeSet;
use std::time::Duration;

use cucumber::{then, when};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod as PodObject};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use tokio::time::Instant;

use super::{by, is_of, living, of, redirected, said};
use crate::exposure::Exposure;
use crate::steps::events;
use crate::steps::wait::{eventually, throughout};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};
use crate::sweep::Outcome;
use crate::tier::scaled;

/// Label of `cni.repair.labelPods`.
const LABEL: &str = "cni.istio.io/uninitialized";

/// Lets so many seconds of a real cluster pass: a fortieth of them here.
#[when(regex = r"^the node agent is (\d+) s late$")]
async fn late(world: &mut LabWorld, seconds: u64) -> Step {
    throughout(world, scaled(seconds), async |_| Ok(())).await
}

/// Waits until its pods are ready and redirected, at most so long, and keeps what is to be seen then.
#[then(regex = r#"^what became of pod "([^"]+)" within (\d+) s is told$"#)]
async fn told(world: &mut LabWorld, name: String, seconds: u64) -> Step {
    let since = of(world, &name)?.since;
    let settled = eventually(world, Duration::from_secs(seconds), async |world| {
        while of(world, &name)?.next(Instant::now()).await? {}
        let waits = living(world, &name).await?.iter().any(|pod| ready_at(pod, since).is_none());
        if waits { Err(Stop::wrong("a pod is not ready")) } else { redirected(world, &name).await }
    });
    let settled = match settled.await {
        Ok(()) => true,
        Err(Stop::Wrong(_)) => false,
        Err(fault) => return Err(fault),
    };
    of(world, &name)?.stop().await?;
    let exposure = by(world, &name, Exposure::outbound)?;
    let inbound = by(world, &name, Exposure::inbound)?;
    let pods = living(world, &name).await?;
    let ready: Option<Vec<Timestamp>> = pods.iter().map(|pod| ready_at(pod, since)).collect();
    let ready = ready.and_then(|times| times.into_iter().max());
    let all = reasons(world, &name).await?;
    let outcome = Outcome {
        exposure,
        inbound,
        open: exposure.packets > 0 && !settled,
        sent: said(world, &name).await?.iter().map(|(_, said)| said.sent).sum(),
        ready_ms: ready.and_then(|at| u64::try_from(at.duration_since(since).as_millis()).ok()),
        restarts: pods
            .iter()
            .flat_map(statuses)
            .map(|one| u64::try_from(one.restart_count).unwrap_or(0))
            .sum(),
        replaced: all.iter().filter(|reason| *reason == "DeleteBrokenPod").count(),
        sees: sees(&pods, all),
    };
    let lab = world.lab()?;
    lab.ledger.measure(&world.id, outcome);
    Ok(())
}

fn statuses(pod: &PodObject) -> Vec<ContainerStatus> {
    let status = pod.status.clone().unwrap_or_default();
    [status.init_container_statuses, status.container_statuses].into_iter().flatten().flatten().collect()
}

/// Time of the condition Ready, if it holds and is of after then.
fn ready_at(pod: &PodObject, since: Timestamp) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|one| one.type_ == "Ready" && one.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0).filter(|time| *time >= since)
}

/// Reasons of all events about its pods.
async fn reasons(world: &mut LabWorld, name: &str) -> Result<Vec<String>, Stop> {
    let namespace = world.pod(name)?.namespace.clone();
    let all = events::of_namespace(&*world.cluster().await?, &namespace).await?.into_iter();
    let about = all.filter(|one| {
        one.involved_object.kind.as_deref() == Some("Pod")
            && one.involved_object.name.as_deref().is_some_and(|pod| is_of(pod, name))
    });
    Ok(about.filter_map(|one| one.reason).collect())
}

/// As `kubectl get pods` and `kubectl describe pod` show it, each once.
fn sees(pods: &[PodObject], events: Vec<String>) -> Vec<String> {
    let states: BTreeSet<String> = pods.iter().map(state).collect();
    let labels = pods.iter().filter_map(|pod| pod.labels().get(LABEL));
    let labels: BTreeSet<String> = labels.map(|value| format!("label {LABEL}={value}")).collect();
    let events: BTreeSet<String> = events.into_iter().collect();
    states.into_iter().chain(events).chain(labels).collect()
}

/// The column STATUS.
fn state(pod: &PodObject) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let why = |one: &ContainerStatus| {
        let state = one.state.clone().unwrap_or_default();
        state.waiting.and_then(|waiting| waiting.reason).or(state.terminated.and_then(|end| end.reason))
    };
    let init = status.init_container_statuses.iter().flatten();
    let fails =
        init.filter_map(why).find(|reason| !["Completed", "PodInitializing"].contains(&reason.as_str()));
    let waits = status.container_statuses.iter().flatten().find_map(why);
    fails.map(|why| format!("Init:{why}")).or(waits).or(status.phase).unwrap_or_else(|| "Unknown".to_owned())
}
