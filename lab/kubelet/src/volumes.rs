// SPDX-License-Identifier: Apache-2.0
//! A pod's volumes: where they are on the node, and where its containers see them. A container of a pod that mounts
//! directories of the node has a root file system of its own; the others share the lab's.

use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Component, Path, PathBuf};

use cluster::{LabError, NodePaths};
use k8s_openapi::api::core::v1::{Container, PodSpec, ServiceAccountTokenProjection};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::error::Error;
use crate::rootfs::{Mount, NodeRoot, Propagation};

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    pub name: String,
    pub content: Content,
}

/// Source of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// `hostPath`
    Host {
        /// Path, as the node names it.
        path: PathBuf,
        /// Creates it if it does not exist.
        create: bool,
    },
    /// `emptyDir`
    Empty,
    /// `projected`, with a token for the API server: what admission gives each pod of its service account.
    Account,
    /// Of this kind, which is not played.
    Other(String),
}

/// Mount of a volume in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    pub volume: String,
    /// Mount point.
    pub at: PathBuf,
    /// Read-only.
    pub read_only: bool,
    /// Propagation of later mounts.
    pub propagation: Propagation,
}

#[must_use]
pub fn volumes(spec: &PodSpec) -> Vec<Volume> {
    let all = spec.volumes.iter().flatten();
    all.map(|volume| Volume { name: volume.name.clone(), content: content(volume) }).collect()
}

fn content(volume: &k8s_openapi::api::core::v1::Volume) -> Content {
    if let Some(host) = &volume.host_path {
        let create = host.type_.as_deref().is_none_or(|kind| kind.is_empty() || kind.ends_with("OrCreate"));
        return Content::Host { path: host.path.clone().into(), create };
    }
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    let is_token = |token: &ServiceAccountTokenProjection| token.audience.is_none();
    if sources.filter_map(|source| source.service_account_token.as_ref()).any(is_token) {
        return Content::Account;
    }
    let fields = serde_json::to_value(volume).unwrap_or_default();
    let kind = fields.as_object().and_then(|fields| fields.keys().find(|key| *key != "name"));
    match kind.map(String::as_str) {
        // Without a source it is empty by default.
        None | Some("emptyDir") => Content::Empty,
        Some(kind) => Content::Other(kind.to_owned()),
    }
}

/// True if containers of such a pod have roots of their own before admission gives it its account's token.
#[must_use]
pub fn sees_no_machine(spec: &PodSpec) -> bool {
    let has_account = spec.service_account_name.as_deref().is_some_and(|name| name != "default");
    has_account || volumes(spec).iter().any(|volume| matches!(volume.content, Content::Host { .. }))
}

/// Mounts of a container.
#[must_use]
pub fn places(container: &Container) -> Vec<MountPoint> {
    let place = |mount: &k8s_openapi::api::core::v1::VolumeMount| MountPoint {
        volume: mount.name.clone(),
        at: mount.mount_path.clone().into(),
        read_only: mount.read_only == Some(true),
        propagation: match mount.mount_propagation.as_deref() {
            Some("HostToContainer" | "Bidirectional") => Propagation::HostToContainer,
            _ => Propagation::None,
        },
    };
    container.volume_mounts.iter().flatten().map(place).collect()
}

/// Paths of the machine: procfs, and the lock of the iptables tools, which have its path compiled in.
const SHARED: [&str; 2] = ["/proc", "/run/xtables.lock"];

/// Directories on the node's tmpfs that the lab mounts for programs without the node's root.
const IN_MEMORY: [&str; 2] = ["/run/istio-cni", "/run/netns"];

/// File system of a node: all that is below one directory.
#[derive(Debug, Clone)]
pub struct Host {
    root: PathBuf,
    /// `/run` is a shared mount.
    run_is_shared: bool,
}

impl Host {
    /// The file system of the node whose root is this directory.
    #[must_use]
    pub fn new(root: PathBuf, run_is_shared: bool) -> Self {
        Self { root, run_is_shared }
    }

    /// Path in the lab of a path of the node.
    #[must_use]
    pub fn find(&self, path: &Path) -> PathBuf {
        let path = match path.strip_prefix("/var/run") {
            Ok(below) => Path::new("/run").join(below),
            Err(_) => path.to_owned(),
        };
        if SHARED.iter().any(|shared| path.starts_with(shared)) {
            return path;
        }
        self.root.join(path.strip_prefix("/").unwrap_or(&path))
    }

    /// Path in the lab of what a path of the node leads to: links are the node's, and none leads out of it. What is not there yet is found by the
    /// nearest directory above it.
    ///
    /// # Errors
    /// `..` is in the path, or nothing above it is there.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, Error> {
        if path.components().any(|part| part == Component::ParentDir) {
            // As the API server's validation of `hostPath`.
            return Err(Error::file("find", path)(io::Error::other("must not contain '..'")));
        }
        let wanted = self.find(path);
        let Ok(below) = wanted.strip_prefix(&self.root) else { return Ok(wanted) };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(root) = openat(CWD, &self.root, flags, Mode::empty()) else { return Ok(wanted) };
        let open =
            |path: &Path, more| openat2(&root, path, flags | more, Mode::empty(), ResolveFlags::IN_ROOT);
        for above in below.ancestors() {
            let there = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            match open(there, OFlags::empty()) {
                Ok(found) => {
                    let named = Path::new("/proc/self/fd").join(found.as_raw_fd().to_string());
                    let named = fs::read_link(&named).map_err(Error::file("read", &named))?;
                    return Ok(named.join(below.strip_prefix(above).unwrap_or(Path::new(""))));
                }
                // A link that leads nowhere on the node may lead somewhere on the machine.
                Err(Errno::NOENT) if open(there, OFlags::NOFOLLOW).is_err() => {}
                Err(errno) => return Err(Error::file("open", &wanted)(errno.into())),
            }
        }
        Ok(wanted)
    }

    /// The node's directories, in the lab.
    #[must_use]
    pub fn paths(&self) -> NodePaths {
        let at = |path: &str| self.find(Path::new(path));
        NodePaths {
            conf_dir: at("/etc/cni/net.d"),
            bin_dir: at("/opt/cni/bin"),
            cache_dir: at("/var/lib/cni"),
            run_dir: at("/run/istio-cni"),
            netns_dir: at("/run/netns"),
        }
    }

    /// A line `PATH=PLACE` for each path that is not below the root, the root at the end.
    #[must_use]
    pub fn described(&self) -> String {
        let shared = SHARED.iter().map(|path| format!("{path}={path}"));
        shared.chain([format!("/={}", self.root.display())]).collect::<Vec<_>>().join("\n")
    }

    /// Bind mounts for programs of the node. Both paths must exist.
    #[must_use]
    pub fn shown(&self) -> Vec<Mount> {
        let mount = |at: &&str| Mount {
            source: self.find(Path::new(at)),
            at: (*at).into(),
            read_only: false,
            propagation: Propagation::HostToContainer,
        };
        IN_MEMORY.iter().map(mount).collect()
    }

    /// Root file system of the node's first process: a pod with the node's processes finds the node's files at `/proc/1/root`.
    #[must_use]
    pub fn root(&self) -> NodeRoot {
        NodeRoot(self.root.clone())
    }

    /// Loses what is in memory. The directories that programs of the lab look into stay.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn forget(&self) -> Result<(), Error> {
        let stay = IN_MEMORY.map(|path| self.find(Path::new(path)));
        stay.iter().try_for_each(|directory| empty(directory, &[]))?;
        empty(&self.find(Path::new("/run")), &stay)
    }

    /// Rejects a path without shared propagation: runtimes check the mount that the path is on.
    fn is_shared(&self, path: &Path) -> Result<(), Error> {
        let on_run = ["/run", "/var/run"].iter().any(|run| path.starts_with(run));
        if self.run_is_shared || !on_run {
            return Ok(());
        }
        Err(Error::NotShared { path: path.to_owned(), mount: "/run" })
    }

    /// Mounts of a pod's volumes in a container's root; empty ones are below `own`, its account's files in `account`.
    ///
    /// # Errors
    /// A volume cannot be mounted: the kubelet would not start the container.
    pub fn mounts(
        &self,
        volumes: &[Volume],
        places: &[MountPoint],
        (own, account): (&Path, &Path),
    ) -> Result<Vec<Mount>, Error> {
        let mount = |place: &MountPoint| {
            let volume = volumes.iter().find(|volume| volume.name == place.volume);
            let volume = volume.ok_or_else(|| Error::Missing(format!("volume {}", place.volume)))?;
            let (source, create) = match &volume.content {
                Content::Host { path, create } => {
                    if place.propagation == Propagation::HostToContainer {
                        self.is_shared(path)?;
                    }
                    (self.resolve(path)?, *create)
                }
                Content::Empty => (own.join(&volume.name), true),
                Content::Account => (account.to_owned(), false),
                Content::Other(kind) => {
                    let what = format!("mount volume {:?}, a {kind}", volume.name);
                    return Err(LabError::unsupported(crate::TIER, what).into());
                }
            };
            if create {
                fs::create_dir_all(&source).map_err(Error::file("make", &source))?;
            }
            Ok(Mount {
                source,
                at: place.at.clone(),
                read_only: place.read_only,
                propagation: place.propagation,
            })
        };
        places.iter().map(mount).collect()
    }
}

/// Removes all that is in a directory, whatever is left of it, but for some paths. A link is not followed.
pub(crate) fn empty(directory: &Path, stay: &[PathBuf]) -> Result<(), Error> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::file("read", directory))?,
    };
    for entry in entries.flatten().filter(|entry| !stay.contains(&entry.path())) {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(Error::file("remove", path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories of a pod: its own, its account's.
    fn own() -> (&'static Path, &'static Path) {
        (Path::new("/own"), Path::new("/own/account"))
    }

    fn host() -> Host {
        Host::new("/lab".into(), false)
    }

    #[test]
    fn a_path_of_the_node_is_found_whichever_of_its_names_is_used() {
        let found = |path: &str| host().find(Path::new(path)).display().to_string();
        assert_eq!(found("/etc/cni/net.d"), "/lab/etc/cni/net.d");
        assert_eq!(found("/var/run/istio-cni/log.sock"), "/lab/run/istio-cni/log.sock");
        assert_eq!(found("/proc/1"), "/proc/1");
        assert_eq!(found("/process"), "/lab/process");
        assert_eq!(found("/"), "/lab/");
    }

    #[test]
    fn a_volume_is_beneath_the_nodes_root_whatever_its_links_say() {
        let lab = tempfile::tempdir().unwrap();
        let (machine, root) = (lab.path().join("etc"), lab.path().join("node"));
        fs::create_dir_all(&machine).unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
        std::os::unix::fs::symlink(&machine, root.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../etc", root.join("relative")).unwrap();
        let host = Host::new(root.clone(), true);
        let found = |path: &str| host.resolve(Path::new(path)).unwrap();
        assert_eq!(found("/etc"), root.join("etc"));
        assert_eq!(found("/relative/new/file"), root.join("etc/new/file"));
        assert!(host.resolve(Path::new("/absolute/new")).is_err());
        let error = host.resolve(Path::new("/../etc")).unwrap_err().to_string();
        assert!(error.contains("must not contain '..'"), "{error}");
    }

    #[test]
    fn a_node_forgets_what_it_has_in_memory_at_any_depth() {
        let lab = tempfile::tempdir().unwrap();
        let host = Host::new(lab.path().to_owned(), true);
        host.forget().unwrap();
        let run = lab.path().join("run");
        for (directory, file) in [("multus/d", "f"), ("istio-cni", "log.sock"), ("netns", "cni-1")] {
            fs::create_dir_all(run.join(directory)).unwrap();
            fs::write(run.join(directory).join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(lab.path(), run.join("l")).unwrap();
        host.forget().unwrap();
        let names = |directory: &Path| {
            let mut names: Vec<_> =
                fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&run), ["istio-cni", "netns"]);
        assert_eq!((names(&run.join("istio-cni")).len(), names(&run.join("netns")).len()), (0, 0));
    }

    #[test]
    fn a_mount_that_cannot_follow_the_nodes_is_refused_in_the_runtimes_words() {
        let volume = |path: &str| Volume {
            name: "v".to_owned(),
            content: Content::Host { path: path.into(), create: false },
        };
        let place = |propagation| MountPoint {
            volume: "v".to_owned(),
            at: "/x".into(),
            read_only: true,
            propagation,
        };
        let mounted = |path: &str, propagation| host().mounts(&[volume(path)], &[place(propagation)], own());
        let error = mounted("/var/run/netns", Propagation::HostToContainer).unwrap_err();
        let told = r#"path "/var/run/netns" is mounted on "/run" but it is not a shared or slave mount"#;
        assert_eq!(error.to_string(), told);
        mounted("/var/run/netns", Propagation::None).unwrap();
    }

    #[test]
    fn a_volume_of_a_kind_that_is_not_played_keeps_its_kind() {
        let volumes = volumes(
            &serde_json::from_value(serde_json::json!({ "containers": [], "volumes": [
                { "name": "a", "configMap": { "name": "a" } }, { "name": "b", "emptyDir": {} }, { "name": "c" },
                { "name": "d", "projected": { "sources": [{ "configMap": { "name": "d" } }] } },
                { "name": "e", "projected": { "sources": [{ "serviceAccountToken": { "path": "token" } }] } },
            ]}))
            .unwrap(),
        );
        let contents: Vec<_> = volumes.into_iter().map(|volume| volume.content).collect();
        let other = |kind: &str| Content::Other(kind.to_owned());
        let (empty, account) = (Content::Empty, Content::Account);
        assert_eq!(contents, [other("configMap"), empty.clone(), empty, other("projected"), account]);
    }

    #[test]
    fn a_mount_of_a_volume_that_is_not_there_names_it() {
        let place = MountPoint {
            volume: "x".to_owned(),
            at: "/x".into(),
            read_only: true,
            propagation: Propagation::None,
        };
        let error = host().mounts(&[], &[place], own()).unwrap_err();
        assert_eq!(error.to_string(), "there is no volume x");
    }
}
