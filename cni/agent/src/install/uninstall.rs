// SPDX-License-Identifier: Apache-2.0
//! Takes back what [`super::pass`] did, in the reverse order: no configuration may name a plugin that is gone. What fails does not keep the rest
//! from being done, but nothing goes that something still there needs.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::agent::SOCKET;
use protocol::netconf::BACKEND_RECORD;

use super::sandboxes::Uses;
use super::{BINARY, KUBECONFIG, cache, claim, directory};
use crate::conflist::leave;
use crate::conflist::plan::Step;
use crate::conflist::scan::DirectorySnapshot;
use crate::files::{self, Doing, FileError, Replaced};
use crate::serve::LOG_SOCKET;
use crate::settings::{Places, Settings};

/// Other files of ours in the run directory.
const RUN_FILES: [&str; 10] = [
    claim::CLAIM,
    claim::NEW,
    SOCKET,
    ".agent.sock.new",
    LOG_SOCKET,
    ".log.sock.new",
    "pluginevent.sock",
    BACKEND_RECORD,
    "istio-cni.log",
    "istio-cni.log.1",
];

/// Rounds for files that others write meanwhile.
const ROUNDS: usize = 4;

/// Removal of the binary where a cached result still names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryRemoval {
    /// Keep it as long as a DEL needs it.
    WhileUnused,
    /// Remove it in any case: by hand, after the node was drained.
    Always,
}

/// Result of the uninstall.
#[derive(Debug, Default)]
pub struct Summary {
    /// Removed or changed.
    pub done: Vec<String>,
    /// Kept, and why.
    pub kept: Vec<String>,
    pub errors: Vec<FileError>,
    /// A configuration may still name our plugin: without the binary no pod would start.
    pub named: bool,
}

/// Removes everything of ours from the node.
pub fn uninstall(settings: &Settings, binary: BinaryRemoval) -> Summary {
    uninstall_from(settings, std::slice::from_ref(&settings.places.net_dir), binary)
}

/// The same over several configuration directories.
pub fn uninstall_from(settings: &Settings, net_dirs: &[PathBuf], binary: BinaryRemoval) -> Summary {
    let mut summary = Summary::default();
    let mut named = false;
    for net_dir in net_dirs {
        named |= configuration(settings, net_dir, &mut summary);
    }
    let run_dir = &settings.places.run_dir;
    for name in [KUBECONFIG].iter().chain(&RUN_FILES) {
        remove(&run_dir.join(name), &mut summary);
    }
    if let Err(error) =
        files::remove_stale_temporaries(run_dir, &|name| [KUBECONFIG, BACKEND_RECORD].contains(&name))
    {
        absent_is_fine(error, &mut summary);
    }
    summary.named = named;
    if named {
        summary.kept.push(format!("{BINARY}: a configuration that could not be changed may still name it"));
    } else {
        binaries(settings, binary, &mut summary);
    }
    summary
}

/// Takes our entries out of every configuration. Whether one may still name our plugin.
fn configuration(settings: &Settings, net_dir: &Path, summary: &mut Summary) -> bool {
    if let Err(error) = directory::tidy(net_dir) {
        absent_is_fine(error, summary);
    }
    let (now, mut named) = match taken_out(settings, net_dir, &directory::read, summary) {
        Ok(taken) => taken,
        Err(error) => return absent_is_fine(error, summary),
    };
    if let Err(error) = taken_out(settings, net_dir, &directory::set_aside, summary) {
        summary.errors.push(error);
    }
    for (_, why) in now.denied() {
        named = true;
        summary.kept.push(format!("whatever of ours is in a configuration: {why}"));
    }
    for name in leave::inline(&now) {
        named = true;
        summary.kept.push(format!(
            "{}: Multus has our plugin in it as a network (delegates): take it out",
            net_dir.join(name).display()
        ));
    }
    for name in leave::unreadable(&now) {
        summary.kept.push(format!(
            "{}: it is no JSON, so our entry in it cannot be removed",
            net_dir.join(name).display()
        ));
    }
    named
}

/// Removes our entry from all files that `read` finds; the last snapshot, and whether a file still names our plugin. What others write meanwhile is read again.
fn taken_out(
    settings: &Settings,
    net_dir: &Path,
    read: &dyn Fn(&Path) -> Result<DirectorySnapshot, FileError>,
    summary: &mut Summary,
) -> Result<(DirectorySnapshot, bool), FileError> {
    for _ in 0..ROUNDS {
        let now = read(net_dir)?;
        if let Some(named) = take_out(settings, net_dir, &now, summary) {
            return Ok((now, named));
        }
    }
    summary.kept.push(format!("our entry in {}: somebody else writes there all the time", net_dir.display()));
    Ok((read(net_dir)?, true))
}

/// Removes our entry; returns true if a file still names our plugin, and nothing if somebody else wrote one meanwhile.
fn take_out(
    settings: &Settings,
    net_dir: &Path,
    now: &DirectorySnapshot,
    summary: &mut Summary,
) -> Option<bool> {
    let (mut named, mut changed) = (false, false);
    for step in leave::steps(&settings.chain, now) {
        let (Step::Write { name, .. } | Step::Remove { name }) = &step;
        match directory::apply(net_dir, &step, now, 0o600) {
            Ok(Replaced::Done) => summary.done.push(format!("our entry in {}", net_dir.join(name).display())),
            Ok(Replaced::Changed) => changed = true,
            Err(error) => {
                named = true;
                summary.errors.push(error);
            }
        }
    }
    (!changed).then_some(named)
}

/// Ignores ENOENT; returns true for another error.
fn absent_is_fine(error: FileError, summary: &mut Summary) -> bool {
    let absent = files::is_absent(&error.cause);
    if !absent {
        summary.errors.push(error);
    }
    !absent
}

fn binaries(settings: &Settings, binary: BinaryRemoval, summary: &mut Summary) {
    let places = &settings.places;
    if binary == BinaryRemoval::WhileUnused {
        let why = match cache::uses(places) {
            Ok(Uses { live: 0, .. }) => None,
            Ok(Uses { live, .. }) => Some(format!(
                "the runtime will call it once more for {live} pods (install-cni --purge removes it)"
            )),
            Err(error) => Some(format!("the runtime may still need it: {error}")),
        };
        if let Some(why) = why {
            summary.kept.push(format!("{BINARY}: {why}"));
            return;
        }
    }
    for directory in &places.target_dirs {
        for name in ours(places, directory) {
            remove(&directory.join(&name), summary);
        }
        if let Err(error) = files::remove_stale_temporaries(directory, &|name| name == BINARY) {
            absent_is_fine(error, summary);
        }
    }
}

/// The files of a target directory that we put there: the plugin, and whatever else has exactly the content that we ship.
fn ours(places: &Places, directory: &Path) -> Vec<PathBuf> {
    let shipped = fs::read_dir(&places.source_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let same = shipped.filter_map(|source| {
        let name = PathBuf::from(source.file_name()?);
        (name.as_os_str() != BINARY && files::same_content(&source, &directory.join(&name)).ok()?)
            .then_some(name)
    });
    same.chain([PathBuf::from(BINARY)]).collect()
}

fn remove(path: &Path, summary: &mut Summary) {
    match fs::symlink_metadata(path) {
        Ok(_) => match files::remove(path) {
            Ok(()) => summary.done.push(path.display().to_string()),
            Err(error) => summary.errors.push(error),
        },
        Err(cause) if files::is_absent(&cause) => {}
        Err(cause) => summary.errors.push(Doing::Remove.failed(path, cause)),
    }
}
