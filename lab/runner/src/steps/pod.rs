// SPDX-License-Identifier: Apache-2.0
//! Pods: what they look like, and how their starts end.

use std::time::Duration;

use cluster::condition::is_ready;
use cluster::{CniAnswer, CniCall, PodStart};
use cucumber::{given, then, when};
use injector::{Config, Programming};
use protocol::pod::MIRROR_ANNOTATION;
use serde_json::{Value, json};

use crate::binaries::PLUGIN;
use crate::pod::{self, Pod, Proxy};
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};
use crate::stopwatch::Spent;
use crate::tier::Families;

/// Time after which an init container that found no rules gives up; 5 s if nobody says so.
const PROBE_TIMEOUT: (&str, &str) = ("PROBE_TIMEOUT", "1s");
/// Time for a kubelet to state what it has started.
const STATED: Duration = Duration::from_secs(5);
/// Deadline of a pod's deletion.
const GONE: Duration = Duration::from_secs(30);

fn introduce(world: &mut LabWorld, pod: Pod) {
    world.it.clone_from(&pod.name);
    world.pods.insert(pod.name.clone(), pod);
}

/// Proxy of the pod that `its` means.
fn proxy(world: &mut LabWorld) -> Result<&mut Proxy, Stop> {
    world.it()?.proxy.as_mut().ok_or_else(|| Stop::harness("the pod has no proxy"))
}

#[given(regex = r#"^pod "([^"]+)" of the mesh$"#)]
fn meshed(world: &mut LabWorld, name: String) {
    introduce(world, Pod::meshed(&name, "shop"));
}

#[given(regex = r#"^pod "([^"]+)" outside the mesh$"#)]
fn plain(world: &mut LabWorld, name: String) {
    introduce(world, Pod::plain(&name, "default"));
}

#[given(regex = r"^its addresses are (IPv4|IPv6|IPv4 and IPv6|IPv6 and IPv4)$")]
fn addresses(world: &mut LabWorld, families: Families) -> Step {
    world.it()?.families = families;
    Ok(())
}

#[given(regex = r#"^it is in namespace "([^"]+)"$"#)]
fn namespace(world: &mut LabWorld, name: String) -> Step {
    world.it()?.namespace = name;
    Ok(())
}

/// `{outside}` in the value is the address of pod "outside", which is started; `{outside+1}` the one after it, `{outside/16}` the network of that length
/// around it.
#[given(regex = r#"^its annotation "([^"]+)" is "([^"]*)"$"#)]
async fn annotation(world: &mut LabWorld, key: String, value: String) -> Step {
    let value = super::ranges::resolved(world, &value).await?;
    world.it()?.annotations.insert(key, value);
    Ok(())
}

/// A list of different elements, the first being port 1, 10.0.0.0/32 or e0.
#[given(regex = r#"^its annotation "([^"]+)" lists (\d+) (ports|ranges|interfaces)$"#)]
fn long_annotation(world: &mut LabWorld, key: String, count: u32, elements: String) -> Step {
    let first = std::net::Ipv4Addr::new(10, 0, 0, 0).to_bits();
    let element = |at: u32| match elements.as_str() {
        "ports" => (at + 1).to_string(),
        "ranges" => format!("{}/32", std::net::Ipv4Addr::from_bits(first + at)),
        _ => format!("e{at}"),
    };
    let list: Vec<String> = (0..count).map(element).collect();
    world.it()?.annotations.insert(key, list.join(","));
    Ok(())
}

#[given(regex = r#"^it has no annotation "([^"]+)"$"#)]
fn no_annotation(world: &mut LabWorld, key: String) -> Step {
    world.it()?.annotations.remove(&key);
    Ok(())
}

#[given(regex = r#"^its label "([^"]+)" is "([^"]*)"$"#)]
fn label(world: &mut LabWorld, key: String, value: String) -> Step {
    world.it()?.labels.insert(key, value);
    Ok(())
}

/// Its object in the API is a mirror: the kubelet, and with it the runtime, know it by another UID.
#[given("it is a static pod")]
fn static_pod(world: &mut LabWorld) -> Step {
    let annotations = &mut world.it()?.annotations;
    for key in [MIRROR_ANNOTATION, "kubernetes.io/config.hash"] {
        annotations.insert(key.to_owned(), "6f1e0c2b8d4a4f7e9b3c5d6a7e8f9012".to_owned());
    }
    annotations.insert("kubernetes.io/config.source".to_owned(), "file".to_owned());
    Ok(())
}

#[given(regex = r"^its proxy runs as user (\d+) and group (\d+)$")]
fn identity(world: &mut LabWorld, uid: i64, gid: i64) -> Step {
    let proxy = proxy(world)?;
    (proxy.uid, proxy.gid) = (Some(uid), Some(gid));
    Ok(())
}

/// By the pod's `securityContext`; its container has none of its own.
#[given(regex = r"^its proxy runs as the pod does, as user (\d+) and group (\d+)$")]
fn identity_of_pod(world: &mut LabWorld, uid: i64, gid: i64) -> Step {
    let proxy = proxy(world)?;
    (proxy.uid, proxy.gid) = (None, None);
    world.it()?.run_as = Some((uid, gid));
    Ok(())
}

/// The node's runtime runs it as any other pod: what is in a guest is told by the class alone.
#[given(regex = r#"^its runtime class is "([^"]+)"$"#)]
fn runtime_class(world: &mut LabWorld, class: String) -> Step {
    world.it()?.runtime_class = Some(class);
    Ok(())
}

#[given("it has users of its own")]
fn own_users(world: &mut LabWorld) -> Step {
    world.it()?.own_users = true;
    Ok(())
}

/// Its app listens on no port: they are the node's.
#[given("it is on the host's network")]
fn host_network(world: &mut LabWorld) -> Step {
    let pod = world.it()?;
    pod.host_network = true;
    pod.ports.clear();
    Ok(())
}

#[given("its containers are started once only")]
fn starts_once(world: &mut LabWorld) -> Step {
    world.it()?.starts_once = true;
    Ok(())
}

#[given("its inbound traffic is caught by TPROXY")]
fn tproxy(world: &mut LabWorld) -> Step {
    world.it()?.intercept_by_tproxy();
    Ok(())
}

#[given("its own init container programs its rules")]
fn by_init(world: &mut LabWorld) -> Step {
    world.it()?.programming = Some(Programming::Init);
    Ok(())
}

#[given("an init container checks its rules")]
fn checked(world: &mut LabWorld) -> Step {
    let pod = world.it()?;
    pod.programming = Some(Programming::Cni);
    pod.mesh.metadata.entry(PROBE_TIMEOUT.0.to_owned()).or_insert_with(|| PROBE_TIMEOUT.1.to_owned());
    Ok(())
}

/// As by a template of a mesh's own.
#[given(regex = r#"^the init container that checks its rules is called "([^"]+)"$"#)]
fn validation(world: &mut LabWorld, name: String) -> Step {
    checked(world)?;
    world.it()?.validation = Some(name);
    Ok(())
}

/// The injector is installed from the same documents as the node agent.
#[given("it is injected as that document says")]
fn by_document(world: &mut LabWorld) -> Step {
    let config = Config::of(&world.handed_in.read()?);
    let pod = world.it()?;
    pod.programming = Some(config.programming);
    pod.mesh = config;
    Ok(())
}

#[then(regex = r#"^its init container is "([^"]+)"$"#)]
async fn init_container(world: &mut LabWorld, wanted: String) -> Step {
    let it = world.its_name()?;
    world.run_pod(&it.name).await?;
    let object = world.cluster().await?.pod(&it).await?.unwrap_or_default();
    let all = object["spec"]["initContainers"].as_array().cloned().unwrap_or_default();
    let names: Vec<_> = all.iter().map(|one| one["name"].as_str().unwrap_or_default()).collect();
    expect_eq("the init containers", &names, &vec![wanted.as_str()])
}

/// Its app breaks its network, for example.
#[given("its validation fails whatever its rules are")]
fn fails(world: &mut LabWorld) -> Step {
    world.it()?.fails_validation = true;
    Ok(())
}

/// One that makes another pod for each that is deleted; that is done by a step.
#[given(regex = r#"^it is of the ReplicaSet "([^"]+)"$"#)]
async fn owned(world: &mut LabWorld, name: String) -> Step {
    let namespace = world.it()?.namespace.clone();
    // Steps do its controller's work: where there is one, it ends pods that it did not make.
    world.cluster().await?.server()?;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": {} },
    });
    let set = world.cluster().await?.apply(set).await?;
    world.it()?.owner = Some(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": set["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }));
    Ok(())
}

/// As its controller does once the former one is gone. Nobody waits for its start: it may be deleted meanwhile.
#[when(regex = "^its ReplicaSet makes it(?: again)?$")]
async fn made(world: &mut LabWorld) -> Step {
    let it = world.its_name()?;
    eventually(world, GONE, async |world| match world.cluster().await?.pod(&it).await? {
        Some(_) => Err(Stop::wrong("the former one is still there")),
        None => Ok(()),
    })
    .await?;
    let object = world.it()?.admitted().map_err(Stop::harness)?;
    world.objects.push(object.clone());
    Ok(world.cluster().await?.create_pod(object).await?)
}

#[given(regex = r#"^its mesh's metadata has ([A-Z0-9_]+) = "([^"]*)"$"#)]
fn metadata(world: &mut LabWorld, name: String, value: String) -> Step {
    world.it()?.mesh.metadata.insert(name, value);
    Ok(())
}

#[given("its mesh asks for native nftables")]
fn native_rules(world: &mut LabWorld) -> Step {
    world.it()?.mesh.rules = injector::config::Rules::Nftables;
    Ok(())
}

#[given(regex = r"^its mesh's proxies listen on (\d+) and (\d+)$")]
fn ports(world: &mut LabWorld, outbound: u16, inbound: u16) -> Step {
    let mesh = &mut world.it()?.mesh;
    (mesh.proxy_port, mesh.inbound_port) = (outbound, inbound);
    Ok(())
}

#[given(regex = r#"^it has the interface "([^"]+)" in a second network$"#)]
fn second_network(world: &mut LabWorld, interface: String) -> Step {
    world.it()?.networks.push(interface);
    Ok(())
}

#[given(regex = r#"^it has a guest behind the interface "([^"]+)"$"#)]
fn guest(world: &mut LabWorld, interface: String) -> Step {
    world.it()?.guest = Some(interface);
    Ok(())
}

#[given(regex = r#"^its resolver is pod "([^"]+)"$"#)]
async fn resolver(world: &mut LabWorld, name: String) -> Step {
    world.run_pod(&name).await?;
    let addresses = world.workload(&name).await?.addresses();
    world.it()?.resolvers.extend(addresses);
    Ok(())
}

#[given("its proxy is a native sidecar")]
fn native(world: &mut LabWorld) -> Step {
    proxy(world)?.native = true;
    Ok(())
}

#[given(regex = r#"^its proxy's environment has ([A-Z_]+) = "([^"]*)"$"#)]
fn environment(world: &mut LabWorld, name: String, value: String) -> Step {
    proxy(world)?.env.insert(name, value);
    Ok(())
}

#[given(regex = r#"^its proxy's arguments are "([^"]+)"$"#)]
fn arguments(world: &mut LabWorld, words: String) -> Step {
    proxy(world)?.args = words.split(' ').map(str::to_owned).collect();
    Ok(())
}

#[given(regex = r#"^its proxy's container is called "([^"]+)"$"#)]
fn proxy_name(world: &mut LabWorld, name: String) -> Step {
    proxy(world)?.name = name;
    Ok(())
}

#[given(regex = r#"^it has an init container "([^"]+)"$"#)]
fn init(world: &mut LabWorld, name: String) -> Step {
    world.it()?.init.push(pod::ending(&name));
    Ok(())
}

/// `{outside}` is the address of pod "outside", which is started.
#[given(regex = r#"^it has an init container "([^"]+)" that connects to "([^"]+)"(?: as user (\d+))?$"#)]
async fn init_connects(world: &mut LabWorld, name: String, to: String, user: String) -> Step {
    let to = super::ranges::resolved(world, &to).await?.parse().map_err(Stop::harness)?;
    world.it()?.init.push(pod::connecting(&name, to, user.parse().ok()));
    Ok(())
}

#[when(regex = r#"^"([^"]+)" starts$"#)]
async fn start(world: &mut LabWorld, name: String) -> Step {
    world.it.clone_from(&name);
    world.start(&name).await.map(drop)
}

/// Starts it if no step has done so, and asks the API server now: it is the pod that started, runs and is Ready.
#[given("it runs")]
#[then("it runs")]
async fn runs(world: &mut LabWorld) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    let started = world.uids.get(&name).cloned();
    let pod = world.its_name()?;
    eventually(world, STATED, async |world| {
        let found = world.cluster().await?.pod(&pod).await?;
        still_runs(found.as_ref(), started.as_deref())
    })
    .await
}

/// True if the API has a pod that runs and is Ready, and it is the one with this UID.
fn still_runs(pod: Option<&Value>, started: Option<&str>) -> Step {
    let pod = pod.ok_or_else(|| Stop::wrong("the API has no such pod any more"))?;
    let uid = pod["metadata"]["uid"].as_str();
    expect(started.is_none() || uid == started, || {
        format!("it is another pod, {uid:?} and not {started:?}")
    })?;
    expect(pod["metadata"]["deletionTimestamp"].is_null(), || "it is being deleted")?;
    let is_running = pod["status"]["phase"] == "Running" && is_ready(pod);
    expect(is_running, || format!("its status is {}", pod["status"]))
}

#[then(regex = r#"^it does not start: code (\d+), "(.+)"$"#)]
async fn refused(world: &mut LabWorld, wanted: u32, fragment: String) -> Step {
    let name = world.it.clone();
    let start = world.start(&name).await?;
    let told = world.cluster().await?.knows_codes();
    match start {
        PodStart::SandboxFailed { code, message }
            if has_code(code, wanted, told) && message.contains(&fragment) =>
        {
            Ok(())
        }
        other => Err(Stop::wrong(format!("its start ended with {other:?}"))),
    }
}

/// True if a sandbox failed with this code; with any where the tier is told of none.
pub(super) fn has_code(code: Option<u32>, wanted: u32, told: bool) -> bool {
    code == Some(wanted) || !told
}

#[then(regex = r#"^its init container "([^"]+)" fails with exit code (\d+)$"#)]
async fn init_fails(world: &mut LabWorld, wanted: String, code: i32) -> Step {
    let name = world.it.clone();
    match world.start(&name).await? {
        PodStart::ContainerFailed { container, exit, .. } if container == wanted && exit == Some(code) => {
            Ok(())
        }
        other => Err(Stop::wrong(format!("its start ended with {other:?}"))),
    }
}

#[then(regex = r"^it starts within (\d+) s$")]
async fn starts_within(world: &mut LabWorld, seconds: u64) -> Step {
    let name = world.it.clone();
    world.run_pod(&name).await?;
    in_time(world, seconds).await
}

#[then(regex = r#"^it fails to start within (\d+) s: code (\d+), "(.*)"$"#)]
async fn fails_within(world: &mut LabWorld, seconds: u64, code: u32, fragment: String) -> Step {
    refused(world, code, fragment).await?;
    in_time(world, seconds).await
}

/// Checks what the plugin's calls for its first sandbox took, whatever the lab did beside them. Where nobody sees the calls it is the whole start, for
/// which the tier has its patience.
async fn in_time(world: &mut LabWorld, seconds: u64) -> Step {
    let limit = Duration::from_secs(seconds);
    let tier = world.cluster().await?;
    if let Ok(calls) = tier.node()?.cni_calls()
        && let Some(spent) = of_first_sandbox(&calls, &world.it)
    {
        return spent.within(limit);
    }
    let took = world.took.get(&world.it).copied();
    let took = took.ok_or_else(|| Stop::harness("nobody waited for its start"))?;
    Spent { took, waited: Duration::ZERO }.within(limit * tier.patience())
}

fn of_first_sandbox(calls: &[(CniCall, CniAnswer)], pod: &str) -> Option<Spent> {
    let mut its = calls.iter().filter(|(call, _)| call.plugin == PLUGIN && call.is_for(pod)).peekable();
    let sandbox = its.peek()?.0.env.get("CNI_CONTAINERID")?;
    let of_first = its.filter(|(call, _)| call.env.get("CNI_CONTAINERID") == Some(sandbox));
    Some(Spent::of(of_first.map(|(_, answer)| answer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_was_evicted_replaced_or_is_unready_does_not_run() {
        let pod = |uid: &str, phase: &str, ready: &str| {
            json!({
                "metadata": { "uid": uid },
                "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": ready }] },
            })
        };
        let runs = |pod: &Value| still_runs(Some(pod), Some("a")).is_ok();
        assert!(runs(&pod("a", "Running", "True")));
        for other in [pod("a", "Failed", "True"), pod("a", "Running", "False"), pod("b", "Running", "True")] {
            assert!(!runs(&other), "{other}");
        }
        let mut leaving = pod("a", "Running", "True");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!runs(&leaving));
        assert!(still_runs(None, None).is_err());
    }

    #[test]
    fn a_code_counts_where_the_tier_is_told_of_codes() {
        assert!(has_code(Some(11), 11, true));
        assert!(!has_code(Some(999), 11, true));
        assert!(!has_code(None, 11, true));
        assert!(has_code(None, 11, false));
    }
}
