// SPDX-License-Identifier: Apache-2.0
//! Multus on the node, the networks that are defined for it, and the pods that name them.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster::{MultusEnd, MultusFile};
use cucumber::{gherkin, given, then, when};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agent::{bare, chart};
use super::files::files;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Annotation of pods.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Account of Multus.
const ACCOUNT: (&str, &str) = ("kube-system", "multus");
/// API server, as pods and nodes reach it.
const SERVER: &str = "https://10.96.0.1:443";

/// What `scenarios/multus` says.
#[derive(Debug, Deserialize)]
struct Installation {
    objects: Vec<Value>,
    kubeconfig: PathBuf,
    file: PathBuf,
    thin: Map<String, Value>,
    thick: Map<String, Value>,
}

/// Further keys of Multus' configuration, until it is installed.
#[derive(Debug, Default)]
pub struct MultusPlan {
    keys: Map<String, Value>,
    /// File of the daemon that was installed.
    file: MultusFile,
}

/// Before it is installed.
#[given(regex = r#"^Multus' configuration has "([^"]+)" = (.+)$"#)]
fn configured(world: &mut LabWorld, key: String, value: String) -> Step {
    world.multus.keys.insert(key, serde_json::from_str(&value).map_err(Stop::harness)?);
    Ok(())
}

/// As its manifests do. Thick, its daemon sees of the node what the manifest mounts, and the named directory.
#[given(regex = r#"^Multus (thin|thick) is installed(?:, and sees "(/[^"]+)")?$"#)]
async fn installed(world: &mut LabWorld, kind: String, more: String) -> Step {
    bare(world)?;
    // Who cannot play it says so before anything of it is there: a cluster may have a Multus of its own, and real nodes have no binary of it.
    let tier = world.cluster().await?;
    tier.issuer()?;
    tier.kubelet()?;
    let file = world.lab()?.plan.root.join("scenarios/multus/multus.yaml");
    let text = std::fs::read_to_string(file).map_err(Stop::harness)?;
    let plan: Installation = serde_saphyr::from_str(&text).map_err(Stop::harness)?;
    chart::put(world, &plan.objects).await?;
    let kubeconfig = kubeconfig(world).await?;
    let mut configuration = if kind == "thin" { plan.thin } else { plan.thick };
    configuration.append(&mut world.multus.keys);
    let node = files(world).await?;
    if let Some(directory) = plan.kubeconfig.parent() {
        node.hand.make_directory(directory).await?;
    }
    node.write(&plan.kubeconfig, kubeconfig.to_string()).await?;
    let configuration = Value::Object(configuration).to_string();
    if kind == "thin" {
        return node.write(&node.paths.conf_dir.join(plan.file), configuration).await;
    }
    // The daemon writes it.
    world.multus.file = MultusFile { path: plan.file, text: configuration };
    let more: Vec<_> = (!more.is_empty()).then(|| PathBuf::from(more)).into_iter().collect();
    serve(world, &more).await
}

/// Kubeconfig with a token of Multus' account.
async fn kubeconfig(world: &mut LabWorld) -> Result<Value, Stop> {
    let tier = world.cluster().await?;
    let token = tier.account_token(ACCOUNT, None).await?;
    let authority = STANDARD.encode(tier.issuer()?.ca());
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "multus-context",
        "clusters": [{ "name": "local", "cluster": { "server": SERVER, "certificate-authority-data": authority } }],
        "users": [{ "name": "multus", "user": { "token": token } }],
        "contexts": [{ "name": "multus-context", "context": { "cluster": "local", "user": "multus" } }],
    }))
}

async fn serve(world: &mut LabWorld, more: &[PathBuf]) -> Step {
    let own = world.multus.file.clone();
    let tier = world.cluster().await?;
    let node = tier.node()?.name().to_owned();
    Ok(tier.kubelet()?.serve_multus(&node, more, &own).await?)
}

/// Its socket and its file stay, as after a crash.
#[given("Multus' daemon is killed")]
#[when("Multus' daemon is killed")]
async fn killed(world: &mut LabWorld) -> Step {
    end(world, MultusEnd::Killed).await
}

/// By SIGTERM, as with each rollout of its DaemonSet: it removes its file.
#[when("Multus' daemon is stopped")]
async fn stopped(world: &mut LabWorld) -> Step {
    end(world, MultusEnd::Stopped).await
}

async fn end(world: &mut LabWorld, how: MultusEnd) -> Step {
    let tier = world.cluster().await?;
    let node = tier.node()?.name().to_owned();
    Ok(tier.kubelet()?.stop_multus(&node, how).await?)
}

/// With what its manifest mounts, and the named directory.
#[when(regex = r#"^Multus' daemon is there again, and sees "(/[^"]+)"$"#)]
async fn again(world: &mut LabWorld, more: String) -> Step {
    serve(world, &[more.into()]).await
}

/// The text below the step is its `spec.config`; `NODE` in it stands for a directory of the node.
#[given(regex = r#"^network "([^"/]+)/([^"]+)" is defined:$"#)]
#[when(regex = r#"^network "([^"/]+)/([^"]+)" is defined:$"#)]
async fn defined(world: &mut LabWorld, namespace: String, name: String, step: &gherkin::Step) -> Step {
    let text = step.docstring.as_deref().ok_or_else(|| Stop::harness("no text is below the step"))?;
    bare(world)?;
    let own = world.cluster().await?.node()?.paths()?.cache_dir;
    let text = text.trim().replace("NODE", &own.display().to_string());
    define(world, &namespace, &name, json!({ "config": text })).await
}

/// It names a file of the directory that Multus has for them.
#[given(regex = r#"^network "([^"/]+)/([^"]+)" is defined without a configuration$"#)]
#[when(regex = r#"^network "([^"/]+)/([^"]+)" is defined without a configuration$"#)]
async fn named(world: &mut LabWorld, namespace: String, name: String) -> Step {
    define(world, &namespace, &name, json!({})).await
}

async fn define(world: &mut LabWorld, namespace: &str, name: &str, spec: Value) -> Step {
    bare(world)?;
    let tier = world.cluster().await?;
    let of = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
    tier.apply(of).await?;
    let metadata = json!({ "name": name, "namespace": namespace });
    let kind = "NetworkAttachmentDefinition";
    let object =
        json!({ "apiVersion": "k8s.cni.cncf.io/v1", "kind": kind, "metadata": metadata, "spec": spec });
    chart::put(world, &[object]).await
}

/// Its annotation for Multus: a list, or JSON.
#[given(regex = r"^its networks are (.+)$")]
fn networks(world: &mut LabWorld, text: String) -> Step {
    world.it()?.annotations.insert(NETWORKS.to_owned(), text);
    Ok(())
}

/// An empty file of the node, as an agent of the default network writes it when it is ready.
#[when(regex = r#"^the default network says that it is ready in "(/[^"]+)"$"#)]
async fn ready(world: &mut LabWorld, path: String) -> Step {
    let (node, path) = (files(world).await?, Path::new(&path));
    if let Some(directory) = path.parent() {
        node.hand.make_directory(directory).await?;
    }
    node.write(path, "").await
}

/// Interfaces in its namespace beside `lo`, by name.
#[then(regex = r#"^it has the interfaces "([^"]+)"$"#)]
async fn interfaces(world: &mut LabWorld, wanted: String) -> Step {
    let it = world.its_name()?;
    let tier = world.cluster().await?;
    let workload = tier.starting(&it).await?;
    let number = workload.process("app").await?.ok_or_else(|| Stop::wrong("it does not run"))?;
    let hand = workload.hand().await?;
    let text = hand.read(&Path::new("/proc").join(number.to_string()).join("net/dev")).await?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut names: Vec<_> = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    names.retain(|name| *name != "lo");
    names.sort_unstable();
    crate::stop::expect_eq("its interfaces", &names.join(", "), &wanted)
}
