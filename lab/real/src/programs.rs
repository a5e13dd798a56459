// SPDX-License-Identifier: Apache-2.0
//! The programs that a cluster is made of.

use std::path::{Path, PathBuf};

use crate::components::Components;
use crate::error::Error;

/// Programs of a cluster, by their paths.
#[derive(Debug, Clone)]
pub struct Programs {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    pub controllers: PathBuf,
    pub scheduler: PathBuf,
    pub kubelet: PathBuf,
    pub containerd: PathBuf,
    pub runc: PathBuf,
    pub plugins: Vec<PathBuf>,
    /// The lab's own.
    pub workload: PathBuf,
}

impl Programs {
    /// Those of the cache.
    ///
    /// # Errors
    /// One is not built.
    pub fn find(components: &Components, workload: &Path) -> Result<Self, Error> {
        let of = |component: &str, name: &str| components.binary(component, name);
        let kubernetes = "kubernetes-1.34";
        let plugins = ["bridge", "host-local", "loopback", "portmap"];
        Ok(Self {
            etcd: of(kubernetes, "etcd")?,
            apiserver: of(kubernetes, "kube-apiserver")?,
            controllers: of(kubernetes, "kube-controller-manager")?,
            scheduler: of(kubernetes, "kube-scheduler")?,
            kubelet: of(kubernetes, "kubelet")?,
            containerd: of("containerd-2", "containerd")?,
            runc: of("runc", "runc")?,
            plugins: plugins.iter().map(|name| of("cni-plugins", name)).collect::<Result<_, _>>()?,
            workload: workload.to_owned(),
        })
    }
}
