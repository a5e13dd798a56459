// SPDX-License-Identifier: Apache-2.0
//! Repair of pods that came up without redirection: writes, events and metrics of the node agent.

use std::path::Path;
use std::time::Duration;

use cluster::hand::Network;
use cluster::{Asked, PodName, PodStart, SYSTEM_NAMESPACE, Verb};
use cucumber::{given, then, when};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::agent::objects::changes_pods;
use super::files::files;
use crate::steps::events;
use crate::steps::marks::Mark;
use crate::steps::wait::{eventually, throughout, throughout_versions};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

/// Deadline of the agent for anything here.
const SOON: Duration = Duration::from_secs(30);
/// Verbs that change a pod.
const WRITES: [Verb; 5] = [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection];

/// HTTP status of a precondition that did not hold.
const CONFLICT: u16 = 409;

/// The pod that `it` means, as the API has it.
/// Pods of its namespace, with its name.
async fn pods(world: &mut LabWorld) -> Result<(Api<Pod>, String), Stop> {
    let PodName { namespace, name } = world.its_name()?;
    Ok((Api::namespaced(world.cluster().await?.client(), &namespace), name))
}

async fn object(world: &mut LabWorld) -> Result<Option<Value>, Stop> {
    let it = world.its_name()?;
    Ok(world.cluster().await?.pod(&it).await?)
}

/// Starts it, and waits until its validation has failed with 126 at least once.
#[given("it came up unredirected")]
#[when("it came up unredirected")]
async fn unredirected(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    let validation = world.it()?.validation().to_owned();
    match world.start(&name).await? {
        PodStart::ContainerFailed { container, exit: Some(126), .. } if container == validation => {}
        other => return Err(Stop::wrong(format!("its start ended with {other:?}"))),
    }
    let once = world.it()?.starts_once;
    eventually(world, SOON, async |world| {
        let pod = object(world).await?.unwrap_or_default();
        let states = pod["status"]["initContainerStatuses"].as_array().into_iter().flatten();
        let field = if once { "state" } else { "lastState" };
        let mut codes = states.map(|one| &one[field]["terminated"]["exitCode"]);
        expect(codes.any(|code| *code == 126), || pod["status"].to_string())
    })
    .await
}

/// By the lease of evictions. That node's clock is 9 s ahead, so the turn lasts for 19 s.
#[given("the agent of another node takes the turn of an eviction")]
async fn takes_turn(world: &mut LabWorld) -> Step {
    let renewed = Timestamp::now() + SignedDuration::from_secs(9);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": "istio-cni-evictions", "namespace": SYSTEM_NAMESPACE },
        "spec": { "holderIdentity": "there", "renewTime": format!("{renewed:.6}") },
    });
    world.apply(lease).await
}

/// Of containers that ended; a start that is under way is waited for.
#[when(regex = r"^the kubelet starts (its|the node agent's) containers (again|no more)$")]
async fn restarts(world: &mut LabWorld, whose: String, how: String) -> Step {
    let pod = match whose.as_str() {
        "its" => world.its_name()?,
        _ => super::agent::agent(world).await?,
    };
    let tier = world.cluster().await?;
    let kubelet = tier.kubelet()?;
    Ok(if how == "again" { kubelet.release(&pod).await } else { kubelet.hold(&pod).await }?)
}

/// Removes its entries from the cache.
#[given("the runtime's cache does not know it")]
async fn unknown(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let results = node.paths.cache_dir.join("results");
    let name = format!("\"{}\"", world.it);
    let mut its = node.all(&results).await?;
    its.retain(|_, text| String::from_utf8_lossy(text).contains(&name));
    if its.is_empty() {
        return Err(Stop::harness(format!("{} has no entry of it", results.display())));
    }
    for file in its.into_keys() {
        node.hand.remove(&results.join(file)).await?;
    }
    Ok(())
}

/// Keeps a namespace and a cache entry with another UID.
#[given("a sandbox of its name and address is left of a former pod")]
async fn former(world: &mut LabWorld) -> Step {
    let it = world.its_name()?;
    let pod = object(world).await?.ok_or_else(|| Stop::harness("it is not there"))?;
    let address = pod["status"]["podIP"].as_str().ok_or_else(|| Stop::harness("it has no address"))?;
    let entry = json!({
        "kind": "cniCacheV1", "containerId": "former", "ifName": "eth0", "networkName": "lab-net",
        "netns": "/var/run/netns/former", "cniArgs": [["K8S_POD_NAMESPACE", it.namespace], ["K8S_POD_NAME", it.name], ["K8S_POD_UID", "former"]],
        "result": { "cniVersion": "1.0.0", "ips": [{ "address": format!("{address}/24") }] },
    });
    let node = files(world).await?;
    let file = node.paths.cache_dir.join("results/lab-net-former-eth0");
    let address = address.parse().map_err(Stop::harness)?;
    world.cluster().await?.kubelet()?.leave_namespace("former", address).await?;
    node.write(&file, entry.to_string()).await
}

/// It is as the former pod left it.
#[then("the namespace that is left holds no rule")]
async fn untouched(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let left = Network::Kept(node.paths.netns_dir.join("former"));
    match node.hand.inspect(left).await?.rules.len() {
        0 => Ok(()),
        rules => Err(Stop::wrong(format!("it holds {rules} rules"))),
    }
}

/// Waits until no process is left in it.
#[given("no process is in its namespace")]
async fn no_process(world: &mut LabWorld) -> Step {
    let it = world.its_name()?;
    let path = world.cluster().await?.starting(&it).await?.netns()?;
    let node = files(world).await?;
    let file = node.namespace(&path);
    let found = node.hand.look(&file).await?;
    let found = found.ok_or_else(|| Stop::harness(format!("{} is not there", file.display())))?;
    let wanted = format!("net:[{}]", found.inode.1);
    eventually(world, SOON, async |_| {
        let all = node.hand.list(Path::new("/proc")).await?.into_iter();
        for process in all.filter(|entry| entry.name.parse::<u32>().is_ok()) {
            let namespace = Path::new("/proc").join(&process.name).join("ns/net");
            let namespace = node.hand.look(&namespace).await.ok().flatten().and_then(|entry| entry.target);
            if namespace.is_some_and(|namespace| namespace.as_os_str() == wanted.as_str()) {
                return Err(Stop::wrong(format!("process {} is in it", process.name)));
            }
        }
        Ok(())
    })
    .await
}

/// Changes the pod live.
#[when(regex = r#"^its annotation "([^"]+)" becomes "([^"]*)"$"#)]
async fn annotated(world: &mut LabWorld, key: String, value: String) -> Step {
    let live = object(world).await?.ok_or_else(|| Stop::harness("it has no object"))?;
    // In somebody's cluster scenarios have namespaces of other names.
    let namespace = live["metadata"]["namespace"].as_str().unwrap_or_default();
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(world.cluster().await?.client(), namespace);
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { key: value } } }));
    pods.patch(name, &PatchParams::default(), &patch).await.map_err(Stop::harness)?;
    Ok(())
}

/// Reason and message of the events on the pod that `it` means, from a mark on.
async fn told(world: &mut LabWorld, from: &Mark) -> Result<Vec<(String, String)>, Stop> {
    let it = world.its_name()?;
    let about = events::about(&*world.cluster().await?, &it).await?.into_iter();
    let about = about.filter(|event| events::is_behind(event, from));
    Ok(about.map(|one| (one.reason.unwrap_or_default(), one.message.unwrap_or_default())).collect())
}

/// Waits for an Event about the pod since the last action; `has ever told`: since the scenario's begin.
#[then(regex = r#"^the node agent (tells|has ever told) of it: ([A-Za-z]+)(?:, "(.*)")?$"#)]
async fn tells(world: &mut LabWorld, when: String, reason: String, text: String) -> Step {
    let from = if when == "tells" { world.marks.last() } else { Mark::default() };
    eventually(world, SOON, async |world| {
        let told = told(world, &from).await?;
        let is_it = |(why, what): &(String, String)| *why == reason && what.contains(&text);
        expect(told.iter().any(is_it), || format!("it told {told:?}"))
    })
    .await
}

/// The scenario has had no such Event until now, and gets none for N s.
#[then(regex = r#"^the node agent tells of it no ([A-Za-z]+)(?:, "(.*)")? for (\d+) s$"#)]
async fn tells_not(world: &mut LabWorld, reason: String, text: String, seconds: u64) -> Step {
    throughout(world, Duration::from_secs(seconds), async |world| {
        let told = told(world, &Mark::default()).await?;
        match told.iter().find(|(why, what)| *why == reason && what.contains(&text)) {
            None => Ok(()),
            Some((_, text)) => Err(Stop::wrong(format!("it told {reason}: {text}"))),
        }
    })
    .await
}

/// Exactly these writes succeeded or were tried, each of them once, and for so long no other; `nothing` for none. The agent's first retries are after 1 s and 2 s. A conflict wrote nothing: a kubelet
/// wrote meanwhile.
#[then(regex = r#"^the node agent has written pods' "([^"]+)", and nothing else for (\d+) s$"#)]
async fn written(world: &mut LabWorld, wanted: String, seconds: u64) -> Step {
    throughout(world, Duration::from_secs(seconds), async |world| has_written(world, &wanted).await).await
}

async fn has_written(world: &mut LabWorld, wanted: &str) -> Step {
    let user = cluster::plugin_user();
    let requests = world.cluster().await?.front()?.requests();
    let writes = requests.into_iter().filter(|one| one.user == user && WRITES.contains(&one.verb));
    let writes = writes.filter(|one| one.code != Some(CONFLICT));
    let mut writes: Vec<String> = writes
        .filter_map(|one| {
            let resource = one.resource.filter(|resource| resource.split('/').next() == Some("pods"))?;
            Some(format!("{} {resource}", one.verb))
        })
        .collect();
    let mut wanted: Vec<_> = wanted.split(", ").filter(|word| *word != "nothing").collect();
    writes.sort_unstable();
    wanted.sort_unstable();
    expect(writes == wanted, || format!("it wrote {writes:?}"))
}

/// Each that changes something; that it was denied none is judged at the end of every scenario.
#[then("the node agent has used its rights on pods")]
async fn rights(world: &mut LabWorld) -> Step {
    let all = world.cluster().await?.unused_rights(&cluster::plugin_user()).await?;
    let unused: Vec<_> = all.into_iter().filter(|right| changes_pods(right)).collect();
    expect(unused.is_empty(), || format!("it never used {unused:?}"))
}

/// Waits for the label.
#[then(regex = r#"^it gets the label "([^"]+)" = "([^"]*)"$"#)]
async fn labelled(world: &mut LabWorld, key: String, value: String) -> Step {
    eventually(world, SOON, async |world| {
        let pod = object(world).await?.unwrap_or_default();
        let labels = &pod["metadata"]["labels"];
        expect(labels[&key] == value.as_str(), || format!("its labels are {labels}"))
    })
    .await
}

/// With any value.
#[then(regex = r#"^it does not get the label "([^"]+)" for (\d+) s$"#)]
async fn unlabelled(world: &mut LabWorld, key: String, seconds: u64) -> Step {
    let (pods, name) = pods(world).await?;
    throughout_versions(world, &pods, &name, Duration::from_secs(seconds), |pod| {
        let labels = pod.and_then(|pod| pod.metadata.labels.as_ref());
        match labels.and_then(|labels| labels.get(&key)) {
            None => Ok(()),
            Some(value) => Err(Stop::wrong(format!("it has the label with the value {value:?}"))),
        }
    })
    .await
}

/// Waits until it is deleted or being deleted.
#[then("it goes")]
async fn goes(world: &mut LabWorld) -> Step {
    eventually(world, SOON, async |world| match object(world).await? {
        Some(pod) if pod["metadata"]["deletionTimestamp"].is_null() => Err(Stop::wrong("it stays")),
        _ => Ok(()),
    })
    .await
}

#[when(regex = r#"^"([^"]+)" is meant$"#)]
#[then(regex = r#"^"([^"]+)" is meant$"#)]
fn meant(world: &mut LabWorld, name: String) {
    world.it = name;
}

/// Neither deleted nor being deleted, for so long: whoever wanted to would have. Another pod of its name does not stand for it.
#[then(regex = r"^it stays for (\d+) s$")]
async fn stays(world: &mut LabWorld, seconds: u64) -> Step {
    let (pods, name) = pods(world).await?;
    let its = object(world).await?.and_then(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned));
    throughout_versions(world, &pods, &name, Duration::from_secs(seconds), |pod| {
        let stays = pod.is_some_and(|pod| {
            pod.metadata.uid == its && its.is_some() && pod.metadata.deletion_timestamp.is_none()
        });
        expect(stays, || "it was deleted")
    })
    .await
}

/// Waits for the request, and for its answer where the step speaks of one. Requests before the action, and those that the same step has found before, are none.
#[when(regex = r"^the node agent asks for an? ([a-z]+) of ([a-z./]+)(, and is answered(?: \d+)?)?$")]
async fn asks(world: &mut LabWorld, verb: String, resource: String, answer: String) -> Step {
    let code: Option<u16> = answer.rsplit(' ').next().and_then(|code| code.parse().ok());
    let user = cluster::plugin_user();
    let key = format!("{verb} {resource}{answer}");
    let (from, found_before) = (world.marks.awaited(), world.awaited.get(&key).copied());
    let found = eventually(world, SOON, async |world| {
        let meant = |one: &Asked| {
            one.user == user
                && from.precedes(one)
                && found_before.is_none_or(|found| one.order > found)
                && one.verb.to_string() == verb
                && one.resource.as_deref() == Some(&*resource)
                && (answer.is_empty() || one.code.is_some())
                && (code.is_none() || one.code == code)
        };
        let requests = world.cluster().await?.front()?.requests();
        let found = requests.iter().find(|one| meant(one)).map(|one| one.order);
        found.ok_or_else(|| Stop::wrong("it did not ask, or got no such answer"))
    });
    let found = found.await?;
    world.awaited.insert(key, found);
    Ok(())
}
