// SPDX-License-Identifier: Apache-2.0
//! Leader election of the taint controllers, and failures of the leader.

use std::time::Duration;

use cluster::hand::Signal;
use cluster::{Asked, Effect, Fault, PodName, SYSTEM_NAMESPACE, Verb};
use cucumber::{given, then, when};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::controller::{CONTAINER, start, user};
use super::{SOON, asked};
use crate::steps::files::process;
use crate::steps::wait::{eventually, within};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

const LEASES: &str = "leases.coordination.k8s.io";
/// Attempts of each candidate at the lease before anything else happens: the leader is settled then.
const TRIES: usize = 4;

/// Both compete for one lease, and one of them leads.
#[given(regex = r#"^the taint controllers "([^"]+)" and "([^"]+)" run with "(.+)"$"#)]
async fn both_run(world: &mut LabWorld, one: String, other: String, words: String) -> Step {
    start(world, &one, &words).await?;
    start(world, &other, &words).await?;
    let tier = world.cluster().await?;
    for name in [one, other] {
        let asked = |request: &Asked| {
            let of_lease = request.verb == Verb::Get && request.resource.as_deref() == Some(LEASES);
            of_lease && request.pod.as_ref() == Some(&name)
        };
        let tried = tier.front()?.until_requests(TRIES, &asked);
        within(&**tier, SOON, tried, || Stop::wrong(format!("{name} does not try to lead"))).await?;
    }
    Ok(())
}

/// Whom the lease names: a pod, `_`, and what makes it this process of it.
async fn leader(world: &mut LabWorld) -> Result<String, Stop> {
    let leases: Api<Lease> = Api::namespaced(world.cluster().await?.client(), SYSTEM_NAMESPACE);
    eventually(world, SOON, async |_| {
        let lease = leases.get("istio-node-untaint").await.map_err(|error| Stop::wrong(error.to_string()))?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
        holder.ok_or_else(|| Stop::wrong("nobody leads"))
    })
    .await
}

/// The pod that leads; another one than this process of it is waited for later.
async fn disturbed(world: &mut LabWorld) -> Result<String, Stop> {
    let holder = leader(world).await?;
    world.taints.controllers.leader = Some(holder.clone());
    let pod = holder.split_once('_').map(|(pod, _)| pod.to_owned());
    pod.ok_or_else(|| Stop::wrong(format!("the lease is held by {holder:?}, which names no pod")))
}

/// Whoever holds the lease; its pod restarts it.
#[when(regex = "^the leader is (killed|told to stop)$")]
async fn killed(world: &mut LabWorld, how: String) -> Step {
    let name = disturbed(world).await?;
    let signal = if how == "killed" { Signal::Kill } else { Signal::Terminate };
    process(world, &PodName::in_system(&name), CONTAINER).await?.signal(signal).await
}

/// Answers its requests with 503 from now on.
#[when("the leader cannot renew its lease")]
async fn cannot_renew(world: &mut LabWorld) -> Step {
    let name = disturbed(world).await?;
    for verb in [Verb::Get, Verb::Update] {
        let effect = Effect::answer(503);
        let of_leader =
            Fault { user: Some(user()), pod: Some(name.clone()), ..Fault::about(verb, LEASES, effect) };
        world.cluster().await?.front()?.add(of_leader);
    }
    Ok(())
}

/// Another than at the last of these steps; a restarted one counts as another.
#[then(regex = r"^another one leads within (\d+) s$")]
async fn another(world: &mut LabWorld, seconds: u64) -> Step {
    let former = world.taints.controllers.leader.clone();
    eventually(world, Duration::from_secs(seconds), async |world| match leader(world).await? {
        name if Some(&name) != former.as_ref() => Ok(()),
        name => Err(Stop::wrong(format!("{name} still leads"))),
    })
    .await
}

/// Each patch came from the holder of the lease at that time.
#[then("nobody acted who did not hold the lease")]
async fn one_at_a_time(world: &mut LabWorld) -> Step {
    let (mut holder, mut acted) = (None, 0);
    for one in asked::requests(world).await? {
        match (one.verb, one.resource.as_deref()) {
            (Verb::Create | Verb::Update, Some(LEASES)) if one.succeeded() => holder = one.pod,
            (Verb::Patch, Some("nodes")) if holder.is_some() && holder == one.pod => acted += 1,
            (Verb::Patch, Some("nodes")) => {
                return Err(Stop::wrong(format!(
                    "{:?} patched {:?} while {holder:?} held the lease",
                    one.pod, one.name
                )));
            }
            _ => {}
        }
    }
    if acted > 0 { Ok(()) } else { Err(Stop::harness("nobody acted at all")) }
}
