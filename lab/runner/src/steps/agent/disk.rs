// SPDX-License-Identifier: Apache-2.0
//! A directory that the agent writes on a disk of its own, which can fill up or become read-only beneath it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::hand::{Kind, Writing};
use cluster::{Disk, NodePaths};
use cucumber::{given, then, when};

use super::bare;
use crate::steps::files::{Files, files};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect};

/// Deadline of reverting a failed write.
const SOON: Duration = Duration::from_secs(2);
/// Three pages: a list while it is written, and little more.
const FEW: u32 = 12 << 10;
/// The plugin while it is written, of whichever product.
const MUCH: u32 = 128 << 20;

/// A directory of the node with a disk of its own.
#[derive(Debug)]
pub struct OwnDisk {
    directory: PathBuf,
    /// Bytes that it takes, unless a step says otherwise.
    room: u32,
    held: BTreeSet<String>,
}

/// Small file system with the directory's present content.
#[given(regex = "^the (CNI|plugins'|node agent's run) directory is on a disk of its own$")]
async fn own(world: &mut LabWorld, which: String) -> Step {
    bare(world)?;
    let tier = world.cluster().await?;
    let node = tier.node()?;
    let NodePaths { conf_dir, bin_dir, run_dir, .. } = node.directories();
    let (directory, room) = match which.as_str() {
        "CNI" => (conf_dir, FEW),
        "plugins'" => (bin_dir, MUCH),
        _ => (run_dir, FEW),
    };
    tier.machines()?.lay_disk(node.name(), &directory, Disk::Room(room)).await?;
    let held = names(&files(world).await?, &directory).await?;
    world.agent.disk = Some(OwnDisk { directory, room, held });
    Ok(())
}

/// Read-only as after an error of it.
#[given(regex = "^that disk (is full|has room again|becomes read-only|becomes writable)$")]
#[when(regex = "^that disk (is full|has room again|becomes read-only|becomes writable)$")]
async fn turns(world: &mut LabWorld, how: String) -> Step {
    let disk = laid(world)?;
    let takes = match how.as_str() {
        "is full" => Disk::Room(0),
        "becomes read-only" => Disk::ReadOnly,
        _ => Disk::Room(disk.room),
    };
    let directory = disk.directory.clone();
    let tier = world.cluster().await?;
    Ok(tier.machines()?.turn_disk(tier.node()?.name(), &directory, takes).await?)
}

/// Exactly these names.
#[then(regex = r#"^the CNI directory holds "([^"]*)"$"#)]
async fn conf_dir_holds(world: &mut LabWorld, wanted: String) -> Step {
    let node = files(world).await?;
    let directory = &node.paths.conf_dir;
    node.until(SOON, &[directory], async || {
        let now = Vec::from_iter(names(&node, directory).await?).join(", ");
        expect(now == wanted, || format!("it holds {now}"))
    })
    .await
}

/// The same names: of no file that was begun and not ended.
#[then("that disk holds what it held at first")]
async fn holds(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let disk = laid(world)?;
    node.until(SOON, &[&disk.directory], async || {
        let now = names(&node, &disk.directory).await?;
        expect(now == disk.held, || format!("it holds {now:?}, not {:?}", disk.held))
    })
    .await
}

fn laid(world: &LabWorld) -> Result<&OwnDisk, Stop> {
    world.agent.disk.as_ref().ok_or_else(|| Stop::harness("no directory is on a disk of its own"))
}

async fn names(node: &Files, directory: &Path) -> Result<BTreeSet<String>, Stop> {
    Ok(node.hand.list(directory).await?.into_iter().map(|entry| entry.name).collect())
}

/// Link that no runtime reads; creates its target's directory.
#[given(regex = r#"^"([^"]+)" is a symbolic link to "([^"]+)"$"#)]
async fn linked(world: &mut LabWorld, file: String, behind: String) -> Step {
    bare(world)?;
    let node = files(world).await?;
    let directory = &node.paths.conf_dir;
    let target = directory.join(&behind);
    node.hand.make_directory(target.parent().unwrap_or(directory)).await?;
    let (path, link) = (directory.join(&file), directory.join(format!("{file}.link")));
    let content = node.hand.read(&path).await?;
    node.hand.write(&target, &content, Writing::Whole { mode: 0o644 }).await?;
    // At no time is there no configuration: a runtime that looked then would unload it, and containerd never sees a link that is only made.
    node.hand.link(&link, Path::new(&behind)).await?;
    Ok(node.hand.rename(&link, &path).await?)
}

/// Dangling link.
#[given(regex = r#"^"([^"]+)" is a symbolic link to "([^"]+)", which is not there$"#)]
async fn lost(world: &mut LabWorld, file: String, target: String) -> Step {
    bare(world)?;
    let node = files(world).await?;
    Ok(node.hand.link(&node.paths.conf_dir.join(file), Path::new(&target)).await?)
}

/// It was not replaced by a file.
#[then(regex = r#"^"([^"]+)" is a symbolic link$"#)]
async fn still_linked(world: &mut LabWorld, file: String) -> Step {
    let node = files(world).await?;
    let path = node.paths.conf_dir.join(file);
    match node.hand.look(&path).await?.map(|entry| entry.kind) {
        Some(Kind::Link) => Ok(()),
        other => Err(Stop::wrong(format!("{} is {other:?}", path.display()))),
    }
}
