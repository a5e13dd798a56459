// SPDX-License-Identifier: Apache-2.0
//! Two agents of two versions on a node, as a DaemonSet has them that surges, and one that runs where no mount leads to the node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::PodName;
use cluster::hand::{Kind, Writing};
use cucumber::{then, when};
use serde_json::{Value, json};

use super::chart;
use super::leaving::run_to_its_end;
use super::objects::{self, Job};
use crate::binaries::PLUGIN;
use crate::steps::files::{files, wrong};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

/// Pod of the other version.
const BESIDE: &str = "istio-cni-node-surge";
/// Directory of the node with the files of its image.
const OTHER: &str = "/srv/other-version";
/// A program beside the plugin, and what it holds.
const ANOTHER: &str = "another";
const OTHER_PROGRAM: &[u8] = b"#!/bin/sh\nexit 1\n";
/// Deadline of a take-over.
const SOON: Duration = Duration::from_secs(20);

/// The other version's pod.
#[must_use]
pub fn other() -> PodName {
    PodName::in_system(BESIDE)
}

fn other_plugin() -> PathBuf {
    Path::new(OTHER).join(PLUGIN)
}

/// Content of the plugin under test.
pub(super) fn own_plugin(world: &LabWorld) -> Result<Vec<u8>, Stop> {
    std::fs::read(world.lab()?.plan.sut.dir.join(PLUGIN)).map_err(Stop::harness)
}

pub(super) async fn template(world: &LabWorld) -> Result<Value, Stop> {
    let set = chart::objects(world).await?.into_iter().find(|object| object["kind"] == "DaemonSet");
    set.ok_or_else(|| Stop::wrong("the chart renders no DaemonSet"))
}

fn push(list: &mut Value, one: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(one);
    }
}

/// Pod of the same template whose image ships another plugin.
#[when("a node agent of another version starts beside it")]
async fn beside(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let mut text = own_plugin(world)?;
    // Bytes behind a program's last section are never loaded.
    text.extend_from_slice(b"of another version");
    node.hand.make_directory(Path::new(OTHER)).await?;
    node.hand.write(&other_plugin(), &text, Writing::Whole { mode: 0o755 }).await?;
    let mut pod = objects::once(BESIDE, &template(world).await?, Job::Install);
    push(&mut pod["spec"]["volumes"], json!({ "name": "image", "hostPath": { "path": OTHER } }));
    let mounts = &mut pod["spec"]["containers"][0]["volumeMounts"];
    push(mounts, json!({ "name": "image", "mountPath": "/opt/cni/bin", "readOnly": true }));
    world.cluster().await?.start_pod(&other(), pod).await?;
    Ok(())
}

/// Waits until it is gone.
#[when("the other version's pod is deleted")]
async fn other_deleted(world: &mut LabWorld) -> Step {
    Ok(world.cluster().await?.delete_pod(&other()).await?)
}

/// Compares contents; waited for.
#[then(regex = "^the plugin's binary is (the node agent's|the other version's)$")]
async fn whose(world: &mut LabWorld, wanted: String) -> Step {
    let node = files(world).await?;
    let shipped = match wanted.as_str() {
        "the node agent's" => own_plugin(world)?,
        _ => node.hand.read(&other_plugin()).await?,
    };
    let path = node.paths.bin_dir.join(PLUGIN);
    node.until(SOON, &[&path], async || match node.hand.read(&path).await.map_err(wrong)? {
        found if found == shipped => Ok(()),
        _ => Err(Stop::wrong("it is another one")),
    })
    .await
}

/// A container that sees the node as its own programs do: no image's files in its directories, and nothing below `/host`.
#[when("install-cni --purge is run on the node itself")]
async fn purge(world: &mut LabWorld) -> Step {
    const NAME: &str = "purge-on-node";
    let mut pod = objects::once(NAME, &template(world).await?, Job::Purge);
    if let Some(mounts) = pod["spec"]["containers"][0]["volumeMounts"].as_array_mut() {
        mounts.retain(|mount| mount["mountPath"] != "/host/proc");
        for mount in mounts {
            let at = mount["mountPath"].as_str().unwrap_or_default().trim_start_matches("/host").to_owned();
            mount["mountPath"] = json!(at);
        }
    }
    run_to_its_end(world, NAME, pod).await?;
    Ok(())
}

/// Another installer's, which answers each of the agent's writes.
#[when(regex = r"^somebody replaces the plugin's binary (\d+) times, as soon as it is the node agent's$")]
async fn replaces(world: &mut LabWorld, times: u32) -> Step {
    let node = files(world).await?;
    let path = node.paths.bin_dir.join(PLUGIN);
    let binary = node.hand.read(&path).await.map_err(wrong)?;
    for _ in 0..times {
        let healed = async || Ok::<_, Stop>(node.hand.read(&path).await.map_err(wrong)? == binary);
        node.until(SOON, &[&path], async || expect(healed().await?, || "nobody healed it")).await?;
        node.hand.write(&path, OTHER_PROGRAM, Writing::Whole { mode: 0o755 }).await?;
    }
    Ok(())
}

/// A program of the same directory.
#[when("the plugin's binary becomes a link to another program")]
async fn becomes_link(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let directory = &node.paths.bin_dir;
    let (path, link) = (directory.join(PLUGIN), directory.join("another.link"));
    node.hand.write(&directory.join(ANOTHER), OTHER_PROGRAM, Writing::Whole { mode: 0o755 }).await?;
    node.hand.link(&link, Path::new(ANOTHER)).await?;
    Ok(node.hand.rename(&link, &path).await?)
}

/// Waits until it is no link any more.
#[then("the plugin's binary is a file again, and that program is as it was")]
async fn file_again(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let path = node.paths.bin_dir.join(PLUGIN);
    node.until(SOON, &[&path], async || {
        let kind = node.hand.look(&path).await?.map(|entry| entry.kind);
        expect(kind == Some(Kind::File), || format!("it is {kind:?}"))
    })
    .await?;
    let other = node.hand.read(&node.paths.bin_dir.join(ANOTHER)).await.map_err(wrong)?;
    expect(other == OTHER_PROGRAM, || format!("it has {} bytes", other.len()))
}
