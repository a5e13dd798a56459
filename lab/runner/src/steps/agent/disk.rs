// SPDX-License-Identifier: Apache-2.0
//! The CNI directory on a disk of its own, which can fill up or become read-only beneath the agent.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cucumber::{given, then, when};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::{bare, eventually, paths};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Deadline of reverting a failed write.
const SOON: Duration = Duration::from_secs(2);
/// Four pages: the primary's list, the next one while it is written, and little more.
const SIZE: &str = "size=16k";
/// A foreign file.
const FILLER: &str = "core.dump";

/// A file system on a directory; what it hides is seen again when it goes.
#[derive(Debug)]
pub struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        // The lab's own mount namespace takes what this leaves.
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

impl Disk {
    fn on(directory: &Path) -> Result<Self, Stop> {
        let mut held = Vec::new();
        for entry in fs::read_dir(directory).map_err(Stop::harness)?.flatten() {
            held.push((entry.file_name(), fs::read(entry.path()).map_err(Stop::harness)?));
        }
        let none = None::<&str>;
        mount(Some("disk"), directory, Some("tmpfs"), MsFlags::empty(), Some(SIZE)).map_err(Stop::harness)?;
        let disk = Self(directory.to_owned());
        mount(none, directory, none, MsFlags::MS_PRIVATE, none).map_err(Stop::harness)?;
        for (name, text) in held {
            fs::write(directory.join(name), text).map_err(Stop::harness)?;
        }
        Ok(disk)
    }

    /// The file system itself, and with it whoever sees it; not the mount, which others are made of that would keep its flags.
    fn turn(&self, flags: MsFlags) -> Step {
        let none = None::<&str>;
        let turn = |flags| mount(none, &self.0, none, MsFlags::MS_REMOUNT | flags, none);
        turn(flags).and_then(|()| turn(MsFlags::MS_BIND)).map_err(Stop::harness)
    }

    fn fill(&self) -> Step {
        let path = self.0.join(FILLER);
        let mut file = File::create(&path).map_err(Stop::harness)?;
        loop {
            match file.write_all(&[0; 512]) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(Errno::ENOSPC as i32) => return Ok(()),
                Err(error) => return Err(Stop::harness(error)),
            }
        }
    }
}

fn disk(world: &LabWorld) -> Result<&Disk, Stop> {
    world.agent.disk.as_ref().ok_or_else(|| Stop::harness("the CNI directory has no disk of its own"))
}

/// Small file system with the directory's present content.
#[given("the CNI directory is on a disk of its own")]
async fn own(world: &mut LabWorld) -> Step {
    bare(world)?;
    let directory = paths(world).await?.conf_dir;
    world.agent.disk = Some(Disk::on(&directory)?);
    Ok(())
}

/// Remounts it.
#[when(regex = "^that disk becomes (read-only|writable)$")]
fn becomes(world: &mut LabWorld, what: String) -> Step {
    disk(world)?.turn(if what == "writable" { MsFlags::empty() } else { MsFlags::MS_RDONLY })
}

/// A foreign file takes all free space.
#[given("that disk is full")]
#[when("that disk is full")]
fn full(world: &mut LabWorld) -> Step {
    disk(world)?.fill()
}

/// Deletes that file.
#[when("that disk has room again")]
fn room(world: &mut LabWorld) -> Step {
    fs::remove_file(disk(world)?.0.join(FILLER)).map_err(Stop::harness)
}

/// Exactly these names.
#[then(regex = r#"^the CNI directory holds "([^"]*)"$"#)]
async fn holds(world: &mut LabWorld, wanted: String) -> Step {
    let directory = paths(world).await?.conf_dir;
    eventually(SOON, async || {
        let entries = fs::read_dir(&directory).map_err(Stop::harness)?.flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        if names.join(", ") == wanted { Ok(()) } else { Err(Stop::wrong(format!("it holds {names:?}"))) }
    })
    .await
}

/// Link that no runtime reads; creates its target's directory.
#[given(regex = r#"^"([^"]+)" is a symbolic link to "([^"]+)"$"#)]
async fn linked(world: &mut LabWorld, file: String, behind: String) -> Step {
    bare(world)?;
    let directory = paths(world).await?.conf_dir;
    let target = directory.join(&behind);
    fs::create_dir_all(target.parent().unwrap_or(&directory)).map_err(Stop::harness)?;
    fs::rename(directory.join(&file), target).map_err(Stop::harness)?;
    symlink(behind, directory.join(file)).map_err(Stop::harness)
}

/// Dangling link.
#[given(regex = r#"^"([^"]+)" is a symbolic link to "([^"]+)", which is not there$"#)]
async fn lost(world: &mut LabWorld, file: String, target: String) -> Step {
    bare(world)?;
    symlink(target, paths(world).await?.conf_dir.join(file)).map_err(Stop::harness)
}

/// It was not replaced by a file.
#[then(regex = r#"^"([^"]+)" is a symbolic link$"#)]
async fn still_linked(world: &mut LabWorld, file: String) -> Step {
    let path = paths(world).await?.conf_dir.join(file);
    let found = fs::symlink_metadata(&path).map_err(|error| Stop::wrong(error.to_string()))?;
    if found.is_symlink() { Ok(()) } else { Err(Stop::wrong(format!("{} is none", path.display()))) }
}
