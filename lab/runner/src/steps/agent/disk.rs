// SPDX-License-Identifier: Apache-2.0
//! The CNI directory on a disk of its own, which can fill up or become read-only beneath the agent.

use std::path::Path;
use std::time::Duration;

use cluster::Files;
use cluster::hand::{HandError, Kind, Writing};
use cucumber::{given, then, when};

use super::bare;
use crate::steps::files::files;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Deadline of reverting a failed write.
const SOON: Duration = Duration::from_secs(2);
/// Four pages: the primary's list, the next one while it is written, and little more.
const SIZE: u32 = 16 << 10;
/// A foreign file.
const FILLER: &str = "core.dump";
/// Error number of a full disk (`ENOSPC`).
const FULL: i32 = 28;

/// Small file system with the directory's present content.
#[given("the CNI directory is on a disk of its own")]
async fn own(world: &mut LabWorld) -> Step {
    bare(world)?;
    let tier = world.cluster().await?;
    let node = tier.node()?;
    Ok(tier.machines()?.lay_disk(node.name(), &node.directories().conf_dir, SIZE).await?)
}

/// Remounts it.
#[when(regex = "^that disk becomes (read-only|writable)$")]
async fn becomes(world: &mut LabWorld, what: String) -> Step {
    let files = if what == "writable" { Files::Writable } else { Files::ReadOnly };
    let tier = world.cluster().await?;
    let node = tier.node()?;
    Ok(tier.machines()?.turn_disk(node.name(), &node.directories().conf_dir, files).await?)
}

/// A foreign file takes all free space.
#[given("that disk is full")]
#[when("that disk is full")]
async fn full(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    let more = vec![0; 2 * usize::try_from(SIZE).map_err(Stop::harness)?];
    match node.hand.write(&node.paths.conf_dir.join(FILLER), &more, Writing::InPlace).await {
        Err(HandError::Refused { errno: Some(FULL), .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Err(Stop::harness("twice its size fits on the disk")),
    }
}

/// Deletes that file.
#[when("that disk has room again")]
async fn room(world: &mut LabWorld) -> Step {
    let node = files(world).await?;
    Ok(node.hand.remove(&node.paths.conf_dir.join(FILLER)).await?)
}

/// Exactly these names.
#[then(regex = r#"^the CNI directory holds "([^"]*)"$"#)]
async fn holds(world: &mut LabWorld, wanted: String) -> Step {
    let node = files(world).await?;
    let directory = &node.paths.conf_dir;
    node.until(SOON, &[directory], async || {
        let names: Vec<_> = node.hand.list(directory).await?.into_iter().map(|entry| entry.name).collect();
        if names.join(", ") == wanted { Ok(()) } else { Err(Stop::wrong(format!("it holds {names:?}"))) }
    })
    .await
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
