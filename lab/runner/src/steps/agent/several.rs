// SPDX-License-Identifier: Apache-2.0
//! Two agents of two versions on a node, as a DaemonSet has them that surges, and one that runs where no mount leads to the node.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::SYSTEM_NAMESPACE;
use cucumber::{then, when};
use serde_json::{Value, json};

use super::leaving::run_to_its_end;
use super::objects::{self, Job};
use super::{chart, eventually, paths};
use crate::binaries::PLUGIN;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Pod of the other version.
const BESIDE: &str = "istio-cni-node-surge";
/// Directory of the node with the files of its image.
const OTHER: &str = "/srv/other-version";
/// Deadline of a take-over.
const SOON: Duration = Duration::from_secs(20);

async fn other_plugin(world: &mut LabWorld) -> Result<PathBuf, Stop> {
    Ok(world.cluster().await?.embedded()?.host_path(&Path::new(OTHER).join(PLUGIN))?)
}

fn own_plugin(world: &LabWorld) -> Result<PathBuf, Stop> {
    Ok(world.lab()?.plan.sut.dir.join(PLUGIN))
}

pub(super) fn template(world: &LabWorld) -> Result<Value, Stop> {
    let set = chart::objects(world)?.into_iter().find(|object| object["kind"] == "DaemonSet");
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
    let (own, other) = (own_plugin(world)?, other_plugin(world).await?);
    let mut text = fs::read(own).map_err(Stop::harness)?;
    // Bytes behind a program's last section are never loaded.
    text.extend_from_slice(b"of another version");
    fs::create_dir_all(other.parent().unwrap_or(&other)).map_err(Stop::harness)?;
    fs::write(&other, text).map_err(Stop::harness)?;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).map_err(Stop::harness)?;
    let mut pod = objects::once(BESIDE, &template(world)?, Job::Install);
    push(&mut pod["spec"]["volumes"], json!({ "name": "image", "hostPath": { "path": OTHER } }));
    let mounts = &mut pod["spec"]["containers"][0]["volumeMounts"];
    push(mounts, json!({ "name": "image", "mountPath": "/opt/cni/bin", "readOnly": true }));
    world.cluster().await?.start_pod(SYSTEM_NAMESPACE, BESIDE, pod).await?;
    Ok(())
}

/// Waits until it is gone.
#[when("the other version's pod is deleted")]
async fn other_deleted(world: &mut LabWorld) -> Step {
    Ok(world.cluster().await?.delete_pod(SYSTEM_NAMESPACE, BESIDE).await?)
}

/// Compares contents; waited for.
#[then(regex = "^the plugin's binary is (the node agent's|the other version's)$")]
async fn whose(world: &mut LabWorld, wanted: String) -> Step {
    let shipped = match wanted.as_str() {
        "the node agent's" => own_plugin(world)?,
        _ => other_plugin(world).await?,
    };
    let (shipped, path) =
        (fs::read(shipped).map_err(Stop::harness)?, paths(world).await?.bin_dir.join(PLUGIN));
    eventually(SOON, async || match fs::read(&path) {
        Ok(found) if found == shipped => Ok(()),
        Ok(_) => Err(Stop::wrong("it is another one")),
        Err(error) => Err(Stop::wrong(format!("{}: {error}", path.display()))),
    })
    .await
}

/// A container that sees the node as its own programs do: no image's files in its directories, and nothing below `/host`.
#[when("install-cni --purge is run on the node itself")]
async fn purge(world: &mut LabWorld) -> Step {
    const NAME: &str = "purge-on-node";
    let mut pod = objects::once(NAME, &template(world)?, Job::Purge);
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
