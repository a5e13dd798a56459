// SPDX-License-Identifier: Apache-2.0
//! The one thing of a cluster that its namespaces do not hold: a cgroup in each hierarchy, named after the process that started it. In one of
//! version 2 a cgroup has the controllers that those above it pass on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Where hierarchies are mounted.
pub const MOUNTS: &str = "/sys/fs/cgroup";
/// First part of a cgroup's name; the rest is the number of the outer process.
const PREFIX: &str = "cnilab-";
/// File of a hierarchy of version 2: the controllers that a cgroup has.
const CONTROLLERS: &str = "cgroup.controllers";
/// File of a hierarchy of version 2: the controllers that those below a cgroup have.
const PASSED_ON: &str = "cgroup.subtree_control";
/// Controllers that a kubelet wants in its cgroup where the root has them (`supportedControllers` in `pkg/kubelet/cm/helpers_linux.go`).
const WANTED: [&str; 5] = ["cpu", "cpuset", "hugetlb", "memory", "pids"];

/// Name of the cgroup of a cluster whose outer process has this number.
#[must_use]
pub fn name(pid: u32) -> String {
    format!("{PREFIX}{pid}")
}

/// True if the one hierarchy is of version 2.
#[must_use]
pub fn is_unified(mounts: &Path) -> bool {
    mounts.join(CONTROLLERS).exists()
}

/// Hierarchies with controllers: those of version 1, or the one of version 2.
fn controlled(mounts: &Path) -> Vec<PathBuf> {
    if is_unified(mounts) {
        return vec![mounts.to_owned()];
    }
    // One of version 2 beside those of version 1 has none.
    mounted(mounts).into_iter().filter(|path| !path.join(CONTROLLERS).exists()).collect()
}

/// Hierarchies; other names of them are links.
#[must_use]
pub fn mounted(mounts: &Path) -> Vec<PathBuf> {
    if is_unified(mounts) {
        return vec![mounts.to_owned()];
    }
    let entries = fs::read_dir(mounts).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir() && !path.is_symlink()).collect()
}

/// True if a hierarchy has this controller.
#[must_use]
pub fn controls(mounts: &Path, controller: &str) -> bool {
    match fs::read_to_string(mounts.join(CONTROLLERS)) {
        Ok(controllers) => has(&controllers, controller),
        Err(_) => mounts.join(controller).is_dir(),
    }
}

/// True if a list of controllers has this one.
fn has(controllers: &str, controller: &str) -> bool {
    controllers.split_whitespace().any(|one| one == controller)
}

/// Makes a cgroup in every hierarchy with controllers: a kubelet wants them.
///
/// # Errors
/// The kernel refuses it.
pub fn make(mounts: &Path, name: &str) -> Result<(), Error> {
    let is_unified = is_unified(mounts);
    for mut path in controlled(mounts) {
        for part in Path::new(name) {
            if is_unified {
                pass_on(&path)?;
            }
            path.push(part);
            fs::create_dir_all(&path).map_err(Error::file("make", &path))?;
        }
    }
    Ok(())
}

/// Gives the cgroups below one of version 2 what a kubelet wants of its controllers. A cgroup that has processes, and is not the machine's root,
/// refuses it.
fn pass_on(cgroup: &Path) -> Result<(), Error> {
    let read = |file: &str| {
        let path = cgroup.join(file);
        fs::read_to_string(&path).map_err(Error::file("read", &path))
    };
    let lacking = lacking(&read(CONTROLLERS)?, &read(PASSED_ON)?);
    if lacking.is_empty() {
        return Ok(());
    }
    let path = cgroup.join(PASSED_ON);
    fs::write(&path, lacking).map_err(Error::file("write", &path))
}

/// Words for [`PASSED_ON`] (`+cpu +pids`), which the kernel takes all or none (cgroup-v2.rst, "Enabling and Disabling"); empty if none is lacking.
fn lacking(controllers: &str, passed_on: &str) -> String {
    let lacking = WANTED.iter().filter(|one| has(controllers, one) && !has(passed_on, one));
    lacking.map(|one| format!("+{one}")).collect::<Vec<_>>().join(" ")
}

/// Removes what a kubelet made in a cgroup, whose processes have ended.
///
/// # Errors
/// The kernel refuses it.
pub fn clear(mounts: &Path, name: &str) -> Result<(), Error> {
    for path in mounted(mounts).into_iter().map(|hierarchy| hierarchy.join(name)).filter(|path| path.exists())
    {
        remove(&path).map_err(Error::file("remove", &path))?;
    }
    make(mounts, name)
}

/// Removes cgroups of clusters whose outer process `is_gone`, with those below them. Returns what could not be removed.
pub fn sweep(mounts: &Path, is_gone: impl Fn(u32) -> bool) -> Vec<(PathBuf, io::Error)> {
    let entries = mounted(mounts).into_iter().flat_map(|at| fs::read_dir(at).into_iter().flatten().flatten());
    let ended = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.strip_prefix(PREFIX).and_then(|pid| pid.parse().ok()).is_some_and(&is_gone)
    };
    entries
        .map(|entry| entry.path())
        .filter(ended)
        .filter_map(|path| Some((path.clone(), remove(&path).err()?)))
        .collect()
}

/// Removes a cgroup and those below it. Their files go with them.
fn remove(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)?.flatten() {
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_a_hierarchy_or_a_word_of_the_one_that_there_is() {
        let mounts = tempfile::tempdir().unwrap();
        fs::create_dir(mounts.path().join("cpu")).unwrap();
        let controls = |name| controls(mounts.path(), name);
        assert_eq!([controls("cpu"), controls("hugetlb")], [true, false]);
        fs::write(mounts.path().join(CONTROLLERS), "memory hugetlb\n").unwrap();
        assert_eq!([controls("cpu"), controls("hugetlb")], [false, true]);
    }

    #[test]
    fn a_cgroup_of_version_2_has_the_controllers_of_those_above_it() {
        let mounts = tempfile::tempdir().unwrap();
        let root = mounts.path();
        // The kernel makes files with the directory, and what is passed on is what a cgroup below has.
        let above = [(root.to_owned(), "cpuset cpu io memory hugetlb pids rdma", "memory io")];
        let cluster = (root.join("cnilab-1"), "cpu memory", "");
        for (cgroup, controllers, passed_on) in above.into_iter().chain([cluster]) {
            fs::create_dir_all(&cgroup).unwrap();
            fs::write(cgroup.join(CONTROLLERS), controllers).unwrap();
            fs::write(cgroup.join(PASSED_ON), passed_on).unwrap();
        }
        make(root, "cnilab-1/node-1").unwrap();
        let written = |cgroup: &str| fs::read_to_string(root.join(cgroup).join(PASSED_ON)).unwrap();
        assert_eq!([written(""), written("cnilab-1")], ["+cpu +cpuset +hugetlb +pids", "+cpu +memory"]);
        assert!(
            root.join("cnilab-1/node-1").is_dir() && !root.join("cnilab-1/node-1").join(PASSED_ON).exists()
        );
        assert_eq!(lacking("cpu pids", "pids cpu"), "");
    }

    #[test]
    fn only_what_ended_is_swept() {
        let mounts = tempfile::tempdir().unwrap();
        for hierarchy in ["cpu", "pids", "unified"] {
            fs::create_dir(mounts.path().join(hierarchy)).unwrap();
        }
        fs::write(mounts.path().join("unified/cgroup.controllers"), "").unwrap();
        for pid in [1, 2] {
            make(mounts.path(), &name(pid)).unwrap();
        }
        fs::create_dir_all(mounts.path().join("cpu/cnilab-2/kubepods/pod1")).unwrap();
        fs::create_dir(mounts.path().join("cpu/other")).unwrap();
        // A runtime makes one there as well.
        fs::create_dir(mounts.path().join("unified/cnilab-2")).unwrap();
        assert!(!mounts.path().join("unified/cnilab-1").exists());
        clear(mounts.path(), "cnilab-2/kubepods").unwrap();
        let kubepods = mounts.path().join("cpu/cnilab-2/kubepods");
        assert!(kubepods.exists() && !kubepods.join("pod1").exists());
        assert!(sweep(mounts.path(), |pid| pid == 2).is_empty());
        let there = |name: &str| mounts.path().join(name).exists();
        assert_eq!(
            ["cpu/cnilab-1", "cpu/cnilab-2", "pids/cnilab-2", "cpu/other"].map(there),
            [true, false, false, true]
        );
    }
}
