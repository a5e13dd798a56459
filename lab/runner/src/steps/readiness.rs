// SPDX-License-Identifier: Apache-2.0
//! Readiness of a pod, as its kubelet tells it.

use cluster::condition::is_ready;
use cluster::{Fetched, PodName};
use serde_json::Value;

use crate::steps::events;
use crate::stop::{Step, Stop, expect_eq};
use crate::tier::Tier;

/// Begin of the message of the event `Unhealthy` (kubelet, `pkg/kubelet/prober/prober.go`).
const FAILED: &str = "Readiness probe failed: ";

/// Checks that a pod is not ready by its condition, that its kubelet has told of a failed probe, and that what it probes answers an error with
/// this text.
pub async fn lacks(tier: &Tier, pod: &PodName, fragment: &str) -> Step {
    let object = tier.pod(pod).await?;
    let object = object.ok_or_else(|| Stop::wrong(format!("there is no pod {}", pod.name)))?;
    if is_ready(&object) {
        return Err(Stop::wrong("it is ready"));
    }
    let told = told(tier, pod, &object).await?;
    if told.is_empty() {
        return Err(Stop::wrong(format!("no event says {FAILED:?}")));
    }
    let (port, path) = probe(&object).ok_or_else(|| Stop::wrong("it has no readiness probe over HTTP"))?;
    let Fetched { code, body, .. } = tier.fetch(pod, port, &path).await?;
    match code {
        Some(200..=399) => Err(Stop::wrong("its probe succeeds")),
        Some(_) if body.contains(fragment) => Ok(()),
        _ => Err(Stop::wrong(format!("its kubelet tells {told:?}, its probe answers {body:?}"))),
    }
}

/// Asks a pod's readiness probe itself: a kubelet takes its time to tell.
pub async fn answers(tier: &Tier, pod: &PodName, wanted: u16) -> Step {
    let object = tier.pod(pod).await?.unwrap_or_default();
    let (port, path) = probe(&object).ok_or_else(|| Stop::wrong("it has no readiness probe over HTTP"))?;
    let Fetched { code, body, .. } = tier.fetch(pod, port, &path).await?;
    expect_eq(&format!("the code beside {body:?}"), &code, &Some(wanted))
}

/// Messages about failed readiness probes of this very pod.
async fn told(tier: &Tier, pod: &PodName, object: &Value) -> Result<Vec<String>, Stop> {
    let all = events::about(tier, pod).await?.into_iter();
    let uid = object["metadata"]["uid"].as_str();
    let unhealthy = all.filter(|event| event.reason.as_deref() == Some("Unhealthy"));
    let its = unhealthy.filter(|event| event.involved_object.uid.as_deref() == uid);
    Ok(its.filter_map(|event| event.message).filter(|message| message.starts_with(FAILED)).collect())
}

/// What an agent answers on the node's network, too, where its kubelet asks by its program.
const OF_AGENT: (u16, &str) = (8000, "/readyz");

/// Port and path of a pod's readiness probe.
fn probe(pod: &Value) -> Option<(u16, String)> {
    let containers = pod["spec"]["containers"].as_array()?;
    if containers.iter().any(|container| container["readinessProbe"]["exec"].is_object()) {
        return Some((OF_AGENT.0, OF_AGENT.1.to_owned()));
    }
    let (container, get) = containers.iter().find_map(|container| {
        let get = &container["readinessProbe"]["httpGet"];
        get.is_object().then_some((container, get))
    })?;
    let named = || {
        let ports = container["ports"].as_array()?.iter();
        ports.clone().find(|port| port["name"] == get["port"])?["containerPort"].as_u64()
    };
    let port = get["port"].as_u64().or_else(named)?;
    Some((u16::try_from(port).ok()?, get["path"].as_str().unwrap_or("/").to_owned()))
}
