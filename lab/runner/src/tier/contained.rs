// SPDX-License-Identifier: Apache-2.0
//! Real components in a container: files that its image has beside the lab's, and what its first process makes before nodes can be started.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context as _, bail};
use nix::mount::{MsFlags, mount};
use real::{cgroups, tools};

use crate::cli::RealArgs;
use crate::locate::Workspace;
use crate::plan::{Parts, Sut, WantedCluster};
use crate::tier::started;

/// Programs of the machine that nodes call: kubelets mount, CRI-O looks into the namespaces of pods, scenarios lay disks.
const CALLED: [&str; 10] =
    ["mount", "umount", "mountpoint", "nsenter", "mkdir", "mktemp", "rmdir", "cp", "df", "tail"];
/// Of scripts.
const SHELL: &str = "/bin/sh";
/// Lists the libraries of a program, as its loader finds them.
const LIBRARIES: &str = "ldd";

/// A kubelet and a runtime look users up.
const USERS: [(&str, &str); 2] =
    [("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"), ("/etc/group", "root:x:0:\n")];

/// The kernel's log, which a kubelet does not start without: it looks for processes that were killed for lack of memory. In a container it finds none.
const MESSAGES: &str = "/dev/kmsg";

/// Directories that a machine has.
const DIRECTORIES: [&str; 5] = ["/etc", "/opt", "/var/lib", "/var/log", "/var/tmp"];

/// Gathers parts of a cluster, if the run has one, and the paths of all files that they need.
pub(crate) fn gather(
    on: &RealArgs,
    workspace: &Workspace,
    sut: &Sut,
    report_dir: &Path,
) -> anyhow::Result<Option<(Parts, BTreeSet<PathBuf>)>> {
    let Some(asked) = WantedCluster::of(on) else { return Ok(None) };
    // The lab's own is in there what the container's first process unpacks.
    let parts = started::gather(workspace, &asked, sut, Path::new(""), &report_dir.join(started::CLUSTER))?;
    let programs = started::programs(&parts, &asked, Path::new(""))?;
    let mut files: BTreeSet<_> = programs.paths().map(Path::to_owned).collect();
    // A program may call those beside it: containerd its shim.
    let cached = files.iter().filter(|path| path.starts_with(&parts.cache));
    let components: BTreeSet<_> = cached.filter_map(|path| path.parent()).map(Path::to_owned).collect();
    for component in components {
        collect(&component, &mut files)?;
    }
    if on.real {
        files.insert(SHELL.into());
        for program in CALLED {
            files.insert(tools::find(program)?);
        }
    }
    let libraries = files.iter().map(|program| libraries(program)).collect::<Result<Vec<_>, _>>()?;
    files.extend(libraries.into_iter().flatten());
    collect(&parts.modules, &mut files)?;
    files.extend(on.real.then(|| parts.agent.clone()));
    Ok(Some((parts, files)))
}

/// Files below a directory.
fn collect(directory: &Path, files: &mut BTreeSet<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.insert(path);
        }
    }
    Ok(())
}

/// Shared libraries of a program, and its loader.
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = Command::new(LIBRARIES).arg(program).output();
    let listed = listed.with_context(|| format!("cannot run {LIBRARIES}, which lists shared libraries"))?;
    // It refuses a static program.
    if !listed.status.success() {
        return Ok(Vec::new());
    }
    parsed(&String::from_utf8_lossy(&listed.stdout))
        .with_context(|| format!("cannot take {} into an image", program.display()))
}

/// Paths of a listing with lines `NAME => PATH (ADDRESS)`, or of a loader `PATH (ADDRESS)`.
fn parsed(listing: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in listing.lines().map(str::trim) {
        let (name, path) = line.split_once(" => ").unwrap_or((line, line));
        let path = path.split(" (").next().unwrap_or_default();
        match path {
            "not found" => bail!("its library {name} is not installed"),
            path if path.starts_with('/') => paths.push(path.into()),
            // That of the kernel, which is no file.
            _ => {}
        }
    }
    Ok(paths)
}

/// Makes a container's first process one that can start nodes: directories, and cgroups that can be written.
pub(crate) fn furnish() -> anyhow::Result<()> {
    for directory in DIRECTORIES {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {directory}"))?;
    }
    for (at, text) in USERS {
        fs::write(at, text).with_context(|| format!("cannot write {at}"))?;
    }
    if !Path::new(MESSAGES).exists() {
        symlink("/dev/null", MESSAGES).with_context(|| format!("cannot make {MESSAGES}"))?;
    }
    let hierarchies = cgroups::mounted(Path::new(cgroups::MOUNTS));
    if hierarchies.is_empty() {
        bail!("the engine has mounted no cgroups at {}, which kubelets need", cgroups::MOUNTS);
    }
    let writable = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
    let hidden = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    for at in &hierarchies {
        mount(None::<&str>, at, None::<&str>, writable | hidden, None::<&str>).with_context(|| {
            format!(
                "cannot make cgroups at {} writable, which kubelets need: an engine without root has no rights there",
                at.display()
            )
        })?;
    }
    let at = Path::new(cgroups::MOUNTS);
    if cgroups::is_unified(at) {
        vacate(at, std::process::id()).context("cannot move to a cgroup of its own")?;
    }
    Ok(())
}

/// Moves the container's only process to a cgroup below: one of version 2 that has processes gives no controllers to those below it (cgroups(7), "no
/// internal processes").
fn vacate(mounts: &Path, process: u32) -> io::Result<()> {
    let own = mounts.join("init");
    fs::create_dir_all(&own)?;
    fs::write(own.join("cgroup.procs"), process.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_that_the_loader_finds() {
        let listing =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";
        assert_eq!(parsed(listing).unwrap(), ["/lib/libc.so.6", "/lib64/ld.so.2"].map(PathBuf::from));
    }

    #[test]
    fn a_first_process_leaves_the_cgroup_of_its_container() {
        let mounts = tempfile::tempdir().unwrap();
        vacate(mounts.path(), 1).unwrap();
        assert_eq!(fs::read_to_string(mounts.path().join("init/cgroup.procs")).unwrap(), "1");
    }

    #[test]
    fn a_library_that_is_not_installed_is_named() {
        let error = parsed("\tlibglib-2.0.so.0 => not found\n").unwrap_err().to_string();
        assert_eq!(error, "its library libglib-2.0.so.0 is not installed");
    }
}
