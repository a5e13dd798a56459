// SPDX-License-Identifier: Apache-2.0
//! Injection as a user meets it: a label of a namespace, a plain pod, and what istiod's webhook makes of it.

use std::net::IpAddr;
use std::time::Duration;

use cluster::condition::is_ready;
use cluster::{PodName, PodStart, SYSTEM_NAMESPACE};
use cucumber::{given, then, when};

use crate::guard;
use crate::istiod::{self, FailurePolicy};
use crate::pod::Pod;
use crate::steps::pod_security::label_namespace;
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// Deadline of istiod's start.
const SOON: Duration = Duration::from_secs(60);

/// istiod runs, and is asked about pods.
#[given("istiod injects pods")]
#[when("istiod injects pods")]
async fn injects(world: &mut LabWorld) -> Step {
    install(world, FailurePolicy::Fail).await?;
    run(world, &[]).await
}

/// As without a plugin: injected pods have `istio-init`.
#[given("istiod injects pods that program their rules themselves")]
async fn injects_programmers(world: &mut LabWorld) -> Step {
    install(world, FailurePolicy::Fail).await?;
    run(world, &["--init"]).await
}

/// A pod is admitted as it is while it cannot be asked.
#[given("istiod injects pods where it answers")]
async fn injects_at_will(world: &mut LabWorld) -> Step {
    install(world, FailurePolicy::Ignore).await?;
    run(world, &[]).await
}

/// It is deleted, and not made again.
#[given("istiod is down")]
#[when("istiod is down")]
async fn down(world: &mut LabWorld) -> Step {
    world.cluster().await?.delete_pod(&PodName::in_system(istiod::NAME)).await?;
    reached(world, &[]).await
}

#[when("istiod is back")]
async fn back(world: &mut LabWorld) -> Step {
    run(world, &[]).await
}

/// A policy agent, which knows of no mesh.
#[given("no pod is admitted without a policy agent, whose own pods are on the pods' network")]
async fn guarded(world: &mut LabWorld) -> Step {
    let tier = world.cluster().await?;
    let (authority, identity) = (tier.issuer()?.ca(), tier.issuer()?.issue(&guard::names(), None)?);
    for object in guard::installed(&identity) {
        world.apply(object).await?;
    }
    guard_is_up(world, SOON).await?;
    world.apply(guard::webhook(&authority)).await
}

#[then(regex = r"^the policy agent comes up within (\d+) s$")]
async fn guard_comes_up(world: &mut LabWorld, seconds: u64) -> Step {
    guard_is_up(world, Duration::from_secs(seconds)).await
}

/// As their kubelets tell it.
#[then(regex = r"^the policy agent's pods do not start: (.+)$")]
async fn guard_waits(world: &mut LabWorld, wanted: String) -> Step {
    eventually(world, SOON, async |world| {
        let events = world.cluster().await?.items(guard::EVENTS).await?;
        let failed = events.iter().filter(|event| event["reason"] == "FailedCreatePodSandBox");
        let mut messages = failed.filter_map(|event| event["message"].as_str());
        match messages.find(|message| message.contains(&wanted)) {
            Some(_) => Ok(()),
            None => Err(Stop::wrong(format!("none of {} events says so", events.len()))),
        }
    })
    .await
}

async fn guard_is_up(world: &mut LabWorld, deadline: Duration) -> Step {
    eventually(world, deadline, async |world| {
        let pods = world.cluster().await?.items(guard::PODS).await?;
        match pods.iter().find(|pod| is_ready(pod)) {
            Some(_) => Ok(()),
            None => Err(Stop::wrong(format!("none of its {} pods is ready", pods.len()))),
        }
    })
    .await
}

async fn install(world: &mut LabWorld, policy: FailurePolicy) -> Step {
    let authority = world.cluster().await?.issuer()?.ca();
    for object in istiod::reached(&authority, policy) {
        world.apply(object).await?;
    }
    Ok(())
}

/// Runs istiod in the place of the one that is there.
async fn run(world: &mut LabWorld, arguments: &[&str]) -> Step {
    let tier = world.cluster().await?;
    if tier.pod(&PodName::in_system(istiod::NAME)).await?.is_some() {
        tier.delete_pod(&PodName::in_system(istiod::NAME)).await?;
    }
    let identity = tier.issuer()?.issue(&istiod::names(), None)?;
    let object = istiod::pod(&identity, arguments);
    tier.create_pod(object).await?;
    match tier.node()?.pod_started(&PodName::in_system(istiod::NAME), SOON * tier.patience()).await? {
        PodStart::Running { addresses } => {
            let first = addresses.first().map(IpAddr::to_string);
            reached(world, first.as_slice()).await
        }
        other => Err(Stop::harness(format!("istiod did not start: {other:?}"))),
    }
}

/// Waits until its service leads to exactly these addresses, where the API server asks. The lab's own looks for its pods each time.
async fn reached(world: &mut LabWorld, wanted: &[String]) -> Step {
    if world.cluster().await?.server().is_ok() {
        return Ok(());
    }
    eventually(world, SOON, async |world| {
        let tier = world.cluster().await?;
        let all = format!("/apis/discovery.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/endpointslices");
        let its = format!("labelSelector=kubernetes.io/service-name%3D{}", istiod::NAME);
        let slices = tier.items(&format!("{all}?{its}")).await?;
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array()).flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let found: Vec<_> = ready.filter_map(|endpoint| endpoint["addresses"][0].as_str()).collect();
        if found == wanted { Ok(()) } else { Err(Stop::harness(format!("its service leads to {found:?}"))) }
    })
    .await
}

#[given(regex = r#"^namespace "([^"]+)" has the label ([^=]+)=(\S+)$"#)]
async fn label(world: &mut LabWorld, name: String, key: String, value: String) -> Step {
    label_namespace(world, &name, &key, &value).await
}

/// Nobody has injected it.
#[given(regex = r#"^pod "([^"]+)" of namespace "([^"]+)", as its author wrote it$"#)]
fn authored(world: &mut LabWorld, name: String, namespace: String) {
    world.it.clone_from(&name);
    world.pods.insert(name.clone(), Pod::plain(&name, &namespace));
}

#[then(regex = r"^its containers are (.+)$")]
async fn containers(world: &mut LabWorld, wanted: String) -> Step {
    let it = world.its_name()?;
    let pod = world.cluster().await?.pod(&it).await?.unwrap_or_default();
    let lists = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array().cloned());
    let all = lists.into_iter().flatten().flatten();
    let names: Vec<_> = all.map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect();
    expect_eq("the containers", &names.join(", "), &wanted)
}
