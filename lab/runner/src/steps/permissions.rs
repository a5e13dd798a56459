// SPDX-License-Identifier: Apache-2.0
//! Permissions of the node agent and the taint controllers: rights, capabilities and mounts, and the effect of a stolen token.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use cluster::PodName;
use cucumber::gherkin;
use cucumber::{given, then, when};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use super::agent::objects::CONTAINER;
use super::agent::{agent, bare};
use super::files::process;
use super::taint::{SOON, controller};
use crate::steps::wait::eventually;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect, expect_eq};
use crate::tier::MESH_NAMESPACE;

/// Subject where it is not the node agent.
const TAINT_CONTROLLER: &str = "taint controller";

/// Time in which a real API server takes notice of a policy: it looks for new ones each second.
const NOTICE: Duration = Duration::from_secs(2);

/// Rights of the agent in the default mode.
const USUAL: &str = include_str!("permissions/usual.txt");

/// The capabilities of Linux that a container's security context may name here, by their bits.
const CAPABILITIES: [(u32, &str); 7] = [
    (1, "DAC_OVERRIDE"),
    (6, "SETGID"),
    (7, "SETUID"),
    (12, "NET_ADMIN"),
    (13, "NET_RAW"),
    (19, "SYS_PTRACE"),
    (21, "SYS_ADMIN"),
];

/// Result of the last request with the agent's token.
pub type Attempt = Result<(), (u16, String)>;

/// Node object; nothing runs there.
#[given(regex = r#"^another node "([^"]+)"$"#)]
async fn node(world: &mut LabWorld, name: String) -> Step {
    bare(world)?;
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
    world.apply(node).await
}

/// Nothing runs where the node is an object alone.
#[given(regex = r#"^pod "([^"]+)" of the mesh on node "([^"]+)"$"#)]
async fn pod(world: &mut LabWorld, name: String, node: String) -> Step {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": MESH_NAMESPACE },
        "spec": { "nodeName": node, "containers": [{ "name": "app", "image": "workload", "command": ["workload", "pause"] }] },
    });
    world.cluster().await?.apply(object).await?;
    Ok(())
}

/// Sends a request; the resource as in RBAC's errors, the JSON is a merge patch or a new object.
#[when(
    regex = r#"^the (node agent|taint controller)'s token is used to (get|list|create|update|patch|delete) ([a-z0-9./]+) "([^"]*)"(?: with `(.*)`)?$"#
)]
async fn attempt(
    world: &mut LabWorld,
    whose: String,
    verb: String,
    resource: String,
    at: String,
    body: String,
) -> Step {
    let pod = match whose.as_str() {
        TAINT_CONTROLLER => PodName::in_system(controller::ALONE),
        _ => agent(world).await?,
    };
    let tier = world.cluster().await?;
    let pods: Api<Pod> = Api::namespaced(tier.client(), &pod.namespace);
    let spec = pods.get(&pod.name).await.map_err(Stop::harness)?.spec;
    let account = spec.and_then(|spec| spec.service_account_name).unwrap_or_default();
    let token = tier.account_token((&pod.namespace, &account), Some(&pod.name)).await?;
    let client = tier.client_as(&token)?;
    if tier.patience() > 1 && !matches!(verb.as_str(), "get" | "list") {
        // A real API server goes by a policy a moment after it was applied.
        let _ = eventually(world, NOTICE, async |_| {
            let tried = request(&verb, &resource, &at, &body, "?dryRun=All")?;
            match client.request::<Value>(tried).await {
                Ok(_) => Err(Stop::wrong("nothing denies it")),
                Err(_) => Ok(()),
            }
        })
        .await;
    }
    match whose.as_str() {
        TAINT_CONTROLLER => world.taints.controllers.account.tried(&tier),
        _ => world.agent.account.tried(&tier),
    }
    let answer = client.request::<Value>(request(&verb, &resource, &at, &body, "")?).await;
    world.attempt = Some(match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(other) => return Err(Stop::harness(other)),
    });
    Ok(())
}

/// `patch pods/status shop/a`.
fn request(
    verb: &str,
    resource: &str,
    at: &str,
    body: &str,
    query: &str,
) -> Result<http::Request<Vec<u8>>, Stop> {
    let (qualified, sub) = resource.split_once('/').map_or((resource, ""), |(one, two)| (one, two));
    let (plural, group) = qualified.split_once('.').unwrap_or((qualified, ""));
    let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
    let (namespace, name) = at.split_once('/').unwrap_or(("", at));
    let mut path = format!("{root}/v1");
    if !namespace.is_empty() {
        path.push_str(&format!("/namespaces/{namespace}"));
    }
    for part in [plural, name, sub].into_iter().filter(|part| !part.is_empty()) {
        path.push('/');
        path.push_str(part);
    }
    let (method, content_type) = match verb {
        "get" | "list" => ("GET", ""),
        "create" => ("POST", "application/json"),
        "update" => ("PUT", "application/json"),
        "patch" if body.starts_with('[') => ("PATCH", "application/json-patch+json"),
        "patch" => ("PATCH", "application/merge-patch+json"),
        _ => ("DELETE", "application/json"),
    };
    let request = http::Request::builder().method(method).uri(path + query);
    request.header("content-type", content_type).body(body.as_bytes().to_vec()).map_err(Stop::harness)
}

/// The API server answered with success.
#[then("that is allowed")]
fn allowed(world: &mut LabWorld) -> Step {
    match &world.attempt {
        Some(Ok(())) => Ok(()),
        other => Err(Stop::wrong(format!("it ended with {other:?}"))),
    }
}

/// The API server answered 403 or 422 with this text.
#[then(regex = r#"^that is denied: "(.+)"$"#)]
fn denied(world: &mut LabWorld, why: String) -> Step {
    match &world.attempt {
        Some(Err((403 | 422, said))) if said.contains(&why) => Ok(()),
        other => Err(Stop::wrong(format!("it ended with {other:?}"))),
    }
}

/// User of a step's subject.
fn user(whose: &str) -> String {
    if whose == TAINT_CONTROLLER { controller::user() } else { cluster::plugin_user() }
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

async fn rights(world: &mut LabWorld, whose: &str) -> Result<BTreeSet<String>, Stop> {
    Ok(world.cluster().await?.rights(&user(whose)).await?.into_iter().collect())
}

/// Exactly the lines of the text, in any order: `VERBS RESOURCE[ named N][ in namespace N]`.
#[then(regex = "^the (node agent|taint controller)'s rights are:$")]
async fn rights_are(world: &mut LabWorld, whose: String, step: &gherkin::Step) -> Step {
    expect_eq(
        "its rights",
        &rights(world, &whose).await?,
        &lines(step.docstring.as_deref().unwrap_or_default()),
    )
}

/// Rights of the default mode, and these.
#[then(regex = r#"^its rights are the usual ones(?: and "([^"]+)")?$"#)]
async fn usual(world: &mut LabWorld, more: String) -> Step {
    let mut wanted = lines(USUAL);
    wanted.extend(more.split("; ").filter(|one| !one.is_empty()).map(str::to_owned));
    expect_eq("its rights", &rights(world, "node agent").await?, &wanted)
}

/// Waits until each right was needed at least once.
#[then(regex = "^(?:it|the (taint controller)) has used each of its rights$")]
async fn all_used(world: &mut LabWorld, whose: String) -> Step {
    eventually(world, SOON, async |world| {
        match world.cluster().await?.unused_rights(&user(&whose)).await?.as_slice() {
            [] => Ok(()),
            unused => Err(Stop::wrong(format!("it never used: {}", unused.join("; ")))),
        }
    })
    .await
}

/// Exactly these, in alphabetical order.
#[then(regex = r#"^its process has the capabilities "([^"]*)"$"#)]
async fn capabilities(world: &mut LabWorld, wanted: String) -> Step {
    let pod = agent(world).await?;
    let process = process(world, &pod, CONTAINER).await?;
    let status = process.hand.read(&process.file("status")).await?;
    let status = String::from_utf8_lossy(&status);
    let field = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = u64::from_str_radix(field.unwrap_or_default().trim(), 16).map_err(Stop::harness)?;
    let name = |bit: u32| {
        let known = CAPABILITIES.iter().find(|(one, _)| *one == bit);
        known.map_or_else(|| format!("bit {bit}"), |(_, name)| (*name).to_owned())
    };
    let found: BTreeSet<String> = (0..64).filter(|bit| bits >> bit & 1 == 1).map(name).collect();
    let wanted: BTreeSet<String> = wanted.split(", ").map(str::to_owned).collect();
    expect_eq("its capabilities", &found, &wanted)
}

/// Exactly the lines of the text, in any order: `PATH from HOST PATH[, read-only][, PROPAGATION]`. The API's pod has these volumes of the node in all of its
/// containers, and the process has these mounts: the same directory, as its node's path leads to, with these options.
#[then("its mounts are:")]
async fn mounts(world: &mut LabWorld, step: &gherkin::Step) -> Step {
    let wanted = lines(step.docstring.as_deref().unwrap_or_default());
    let pod = agent(world).await?;
    let object = world.cluster().await?.pod(&pod).await?.unwrap_or_default();
    expect_eq("its pod's volumes of the node", &declared(&object["spec"])?, &wanted)?;
    let process = process(world, &pod, CONTAINER).await?;
    let info = process.hand.read(&process.file("mountinfo")).await?;
    let info = String::from_utf8_lossy(&info).into_owned();
    for line in &wanted {
        let mount = Mounted::of_line(line).ok_or_else(|| Stop::harness(format!("no mount: {line}")))?;
        mount.is_in(&info)?;
        if mount.host == "/proc" {
            // Its number tells the node's processes from its own.
            continue;
        }
        let inside = process.file("root").join(mount.at.trim_start_matches('/'));
        let found = process.hand.look(&inside).await?.map(|entry| entry.inode);
        let on_node = process.hand.look(Path::new(mount.host)).await?.map(|entry| entry.inode);
        expect(found.is_some() && found == on_node, || {
            format!("{} is {found:?}, and {} of the node {on_node:?}", mount.at, mount.host)
        })?;
    }
    Ok(())
}

/// The volumes of the node in a pod's containers, a line each.
fn declared(spec: &Value) -> Result<BTreeSet<String>, Stop> {
    let text = |value: &Value| value.as_str().unwrap_or("(none)").to_owned();
    let volumes = spec["volumes"].as_array().into_iter().flatten();
    let of_node: BTreeMap<String, String> = volumes
        .filter(|volume| volume["projected"].is_null())
        .map(|volume| {
            (text(&volume["name"]), volume["hostPath"]["path"].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    let containers = ["containers", "initContainers"].map(|kind| spec[kind].as_array().into_iter().flatten());
    let mounts = containers.into_iter().flatten().flat_map(|one| one["volumeMounts"].as_array());
    let (mut found, mut unmounted) = (Vec::new(), of_node.clone());
    for mount in mounts.flatten() {
        let name = text(&mount["name"]);
        let Some(from) = of_node.get(&name) else { continue };
        unmounted.remove(&name);
        let read_only = if mount["readOnly"] == true { ", read-only" } else { "" };
        let propagation = mount["mountPropagation"].as_str().map(|how| format!(", {how}"));
        let at = text(&mount["mountPath"]);
        found.push(format!("{at} from {from}{read_only}{}", propagation.unwrap_or_default()));
    }
    expect(unmounted.is_empty(), || format!("volumes that are mounted nowhere: {unmounted:?}"))?;
    let (count, all) = (found.len(), found.into_iter().collect::<BTreeSet<_>>());
    expect(all.len() == count, || "a volume is mounted twice alike")?;
    Ok(all)
}

/// A line of `its mounts are:`.
struct Mounted<'a> {
    at: &'a str,
    host: &'a str,
    read_only: bool,
    follows: bool,
}

impl<'a> Mounted<'a> {
    fn of_line(line: &'a str) -> Option<Self> {
        let (at, rest) = line.split_once(" from ")?;
        let mut parts = rest.split(", ");
        let host = parts.next()?;
        let options: Vec<_> = parts.collect();
        Some(Self {
            at,
            host,
            read_only: options.contains(&"read-only"),
            follows: options.contains(&"HostToContainer"),
        })
    }

    /// Looks for it in the text of `/proc/PID/mountinfo` (proc(5)).
    fn is_in(&self, info: &str) -> Step {
        let at = self.at.strip_prefix("/var/run").map_or(self.at.to_owned(), |rest| format!("/run{rest}"));
        let of_it = |line: &&str| line.split(' ').nth(4).is_some_and(|point| point == at || point == self.at);
        // The last one is on top of the others.
        let line =
            info.lines().rfind(of_it).ok_or_else(|| Stop::wrong(format!("nothing is mounted at {at}")))?;
        let fields: Vec<_> = line.split(' ').collect();
        let options = fields.get(5).copied().unwrap_or_default();
        let is_read_only = options.split(',').any(|option| option == "ro");
        expect(is_read_only == self.read_only, || format!("{at} is mounted with {options}"))?;
        let mut optional = fields.iter().skip(6).take_while(|field| **field != "-");
        let follows = optional.any(|field| field.starts_with("master:") || field.starts_with("shared:"));
        expect(follows || !self.follows, || format!("{at} does not follow mounts of the node"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "\
36 35 0:40 /node/etc/cni/net.d /host/etc/cni/net.d rw,relatime - tmpfs tmpfs rw
37 35 0:40 /node/var/lib/cni /host/var/lib/cni ro,relatime master:7 - tmpfs tmpfs rw
38 35 0:40 /node/run/istio-cni /run/istio-cni rw,relatime - tmpfs tmpfs rw";

    fn is_there(line: &str) -> bool {
        Mounted::of_line(line).unwrap().is_in(INFO).is_ok()
    }

    #[test]
    fn a_mount_is_what_the_kernel_says_and_not_what_was_applied() {
        assert!(is_there("/host/etc/cni/net.d from /etc/cni/net.d"));
        assert!(is_there("/var/run/istio-cni from /var/run/istio-cni"));
        assert!(is_there("/host/var/lib/cni from /var/lib/cni, read-only, HostToContainer"));
        for wrong in [
            "/host/etc/cni/net.d from /etc/cni/net.d, read-only",
            "/host/var/lib/cni from /var/lib/cni",
            "/host/etc/cni/net.d from /etc/cni/net.d, HostToContainer",
            "/host/proc from /proc",
        ] {
            assert!(!is_there(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_volume_without_a_mount_is_wrong_whatever_else_is_mounted_twice() {
        let volume = |name: &str| json!({ "name": name, "hostPath": { "path": format!("/{name}") } });
        let mount = |name: &str, at: &str| json!({ "name": name, "mountPath": at });
        let spec = |mounts: Vec<Value>| json!({ "volumes": [volume("a"), volume("b")], "containers": [{ "volumeMounts": mounts }] });
        let good = declared(&spec(vec![mount("a", "/x"), mount("b", "/y")])).unwrap();
        assert_eq!(good.into_iter().collect::<Vec<_>>(), ["/x from /a", "/y from /b"]);
        assert!(declared(&spec(vec![mount("a", "/x"), mount("a", "/y")])).is_err());
    }
}
