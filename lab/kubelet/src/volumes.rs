// SPDX-License-Identifier: Apache-2.0
//! A pod's volumes: where they are on the node, and where its containers see them. A container of a pod that mounts
//! directories of the node has a root file system of its own; the others share the lab's.

use std::fs;
use std::path::{Path, PathBuf};

use cluster::NodePaths;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::error::Error;
use crate::rootfs::{Mount, NodeRoot, Propagation};

/// Mount of the service account's token in every container.
pub const ACCOUNT_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

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
    let content = |volume: &k8s_openapi::api::core::v1::Volume| {
        let host = volume.host_path.as_ref().map(|host| Content::Host {
            path: host.path.clone().into(),
            create: host.type_.as_deref().is_none_or(|kind| kind.is_empty() || kind.ends_with("OrCreate")),
        });
        host.or_else(|| volume.empty_dir.as_ref().map(|_| Content::Empty))
    };
    let all = spec.volumes.iter().flatten();
    all.filter_map(|volume| Some(Volume { name: volume.name.clone(), content: content(volume)? })).collect()
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

/// File system of a node, as pods see it.
#[derive(Debug, Clone)]
pub struct Host {
    known: Vec<(&'static str, PathBuf)>,
    /// Directory of all other paths.
    rest: PathBuf,
    /// `/run` is a shared mount.
    run_is_shared: bool,
}

impl Host {
    /// The file system of the node with these paths; what is not among them is below `rest`.
    #[must_use]
    pub fn new(paths: &NodePaths, rest: PathBuf, run_is_shared: bool) -> Self {
        let known = vec![
            ("/etc/cni/net.d", paths.conf_dir.clone()),
            ("/opt/cni/bin", paths.bin_dir.clone()),
            ("/proc", PathBuf::from("/proc")),
            ("/run/istio-cni", paths.run_dir.clone()),
            ("/run/netns", paths.netns_dir.clone()),
            ("/run/xtables.lock", PathBuf::from("/run/xtables.lock")),
            ("/var/lib/cni", paths.cache_dir.clone()),
        ];
        Self { known, rest, run_is_shared }
    }

    /// Path in the lab of a path of the node.
    #[must_use]
    pub fn find(&self, path: &Path) -> PathBuf {
        let path = as_run(path);
        let known = self.known.iter().find_map(|(at, place)| Some((place, path.strip_prefix(at).ok()?)));
        match known {
            Some((place, below)) if below.as_os_str().is_empty() => place.clone(),
            Some((place, below)) => place.join(below),
            None => self.rest.join(path.strip_prefix("/").unwrap_or(&path)),
        }
    }

    /// A line `PATH=PLACE` for each directory, the rest at the end.
    #[must_use]
    pub fn described(&self) -> String {
        let known = self.known.iter().map(|(at, place)| format!("{at}={}", place.display()));
        known.chain([format!("/={}", self.rest.display())]).collect::<Vec<_>>().join("\n")
    }

    /// Directories below `/run` that the lab keeps elsewhere.
    fn below_run(&self) -> impl Iterator<Item = &(&'static str, PathBuf)> {
        self.known.iter().filter(|(at, place)| at.starts_with("/run/") && place != Path::new(at))
    }

    /// Places of what a node has in memory: all that is below its `/run`.
    #[must_use]
    pub fn in_memory(&self) -> Vec<PathBuf> {
        self.below_run().map(|(_, place)| place.clone()).chain([self.find(Path::new("/run"))]).collect()
    }

    /// Bind mounts for programs of the node. Both paths must exist.
    #[must_use]
    pub fn shown(&self) -> Vec<Mount> {
        self.below_run().map(|(at, place)| kept(place, Path::new(at))).collect()
    }

    /// Root file system of the node's first process: a pod with the node's processes finds the node's files at `/proc/1/root`.
    #[must_use]
    pub fn root(&self) -> NodeRoot {
        // The first process has a `/proc` of its own.
        let elsewhere = self.known.iter().filter(|(at, place)| *at != "/proc" && place.exists());
        NodeRoot {
            base: self.rest.clone(),
            mounts: elsewhere.map(|(at, place)| kept(place, Path::new(at))).collect(),
        }
    }

    /// Rejects a path without shared propagation: runtimes check the mount that the path is on.
    fn is_shared(&self, path: &Path) -> Result<(), Error> {
        let on_run = ["/run", "/var/run"].iter().any(|run| path.starts_with(run));
        if self.run_is_shared || !on_run {
            return Ok(());
        }
        Err(Error::NotShared { path: path.to_owned(), mount: "/run" })
    }

    /// Mounts of a pod's volumes in a container's root; empty ones are below `own`. A directory of the node comes with what the lab keeps elsewhere.
    ///
    /// # Errors
    /// A volume cannot be mounted: the kubelet would not start the container.
    pub fn mounts(&self, volumes: &[Volume], places: &[MountPoint], own: &Path) -> Result<Vec<Mount>, Error> {
        let mut mounts = Vec::new();
        for place in places {
            let volume = volumes.iter().find(|volume| volume.name == place.volume);
            let volume = volume.ok_or_else(|| Error::Missing(format!("volume {}", place.volume)))?;
            let (source, create, below) = match &volume.content {
                Content::Host { path, create } => {
                    if place.propagation == Propagation::HostToContainer {
                        self.is_shared(path)?;
                    }
                    (self.find(path), *create, self.below(path))
                }
                Content::Empty => (own.join(&volume.name), true, Vec::new()),
            };
            if create {
                fs::create_dir_all(&source).map_err(Error::file("make", &source))?;
            }
            let MountPoint { read_only, propagation, .. } = *place;
            let mount = |source, at| Mount { source, at, read_only, propagation };
            mounts.push(mount(source, place.at.clone()));
            mounts.extend(below.into_iter().map(|(source, at)| mount(source, place.at.join(at))));
        }
        Ok(mounts)
    }

    /// What the lab keeps elsewhere below a directory of the node: where, and at which path from that directory.
    fn below(&self, directory: &Path) -> Vec<(PathBuf, PathBuf)> {
        let directory = as_run(directory);
        let below = |at: &str| {
            let path = Path::new(at).strip_prefix(&directory).ok()?.to_owned();
            (!path.as_os_str().is_empty()).then_some(path)
        };
        let there = self.known.iter().filter(|(_, place)| place.exists());
        there.filter_map(|(at, place)| Some((place.clone(), below(at)?))).collect()
    }
}

/// A path by the name that `/var/run` is a link to.
fn as_run(path: &Path) -> PathBuf {
    match path.strip_prefix("/var/run") {
        Ok(below) => Path::new("/run").join(below),
        Err(_) => path.to_owned(),
    }
}

/// Mount of a directory that the lab keeps elsewhere.
fn kept(source: &Path, at: &Path) -> Mount {
    let (source, at) = (source.to_owned(), at.to_owned());
    Mount { source, at, read_only: false, propagation: Propagation::HostToContainer }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        let below = |part: &str| Path::new("/lab").join(part);
        let paths = NodePaths {
            conf_dir: below("net.d"),
            bin_dir: below("bin"),
            cache_dir: below("cache"),
            run_dir: below("run"),
            netns_dir: below("netns"),
        };
        Host::new(&paths, below("rest"), false)
    }

    #[test]
    fn a_path_of_the_node_is_found_whichever_of_its_names_is_used() {
        let found = |path: &str| host().find(Path::new(path)).display().to_string();
        assert_eq!(found("/etc/cni/net.d"), "/lab/net.d");
        assert_eq!(found("/var/run/istio-cni/log.sock"), "/lab/run/log.sock");
        assert_eq!(found("/run/netns"), "/lab/netns");
        assert_eq!(found("/var/lib/cni/results"), "/lab/cache/results");
        assert_eq!(found("/proc"), "/proc");
        assert_eq!(found("/var/lib/rancher"), "/lab/rest/var/lib/rancher");
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
        let mounted = |path: &str, propagation| {
            host().mounts(&[volume(path)], &[place(propagation)], Path::new("/own"))
        };
        let error = mounted("/var/run/netns", Propagation::HostToContainer).unwrap_err();
        let told = r#"path "/var/run/netns" is mounted on "/run" but it is not a shared or slave mount"#;
        assert_eq!(error.to_string(), told);
        mounted("/var/run/netns", Propagation::None).unwrap();
    }

    #[test]
    fn a_mount_of_a_volume_that_is_not_there_names_it() {
        let place = MountPoint {
            volume: "x".to_owned(),
            at: "/x".into(),
            read_only: true,
            propagation: Propagation::None,
        };
        let error = host().mounts(&[], &[place], Path::new("/own")).unwrap_err();
        assert_eq!(error.to_string(), "there is no volume x");
    }
}
