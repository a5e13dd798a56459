// SPDX-License-Identifier: Apache-2.0
//! The programs that a cluster is made of.

use std::path::{Path, PathBuf};

use cluster::choice::{Choice, Version};

use crate::components::Components;
use crate::error::Error;
use crate::network::Network;
use crate::place;
use crate::runtime::Runtime;

/// Programs of a cluster, by their paths.
#[derive(Debug, Clone)]
pub struct Programs {
    pub etcd: PathBuf,
    pub apiserver: PathBuf,
    pub controllers: PathBuf,
    pub scheduler: PathBuf,
    pub kubelet: PathBuf,
    pub runtime: Runtime,
    pub network: Network,
    /// The lab's own.
    pub workload: PathBuf,
}

impl Programs {
    /// Those of the cache.
    ///
    /// # Errors
    /// One is not built.
    pub fn find(components: &Components, of: Choice, workload: &Path) -> Result<Self, Error> {
        let component = match of.version {
            Version::V1_34 => "kubernetes-1.34",
            Version::V1_36 => "kubernetes-1.36",
        };
        let kubernetes = |name: &str| components.binary(component, name);
        Ok(Self {
            etcd: kubernetes("etcd")?,
            apiserver: kubernetes("kube-apiserver")?,
            controllers: kubernetes("kube-controller-manager")?,
            scheduler: kubernetes("kube-scheduler")?,
            kubelet: kubernetes("kubelet")?,
            runtime: Runtime::find(of.runtime, components, workload)?,
            network: Network::find(of.network, components, workload)?,
            workload: workload.to_owned(),
        })
    }

    /// Checks that nodes see what they run.
    ///
    /// # Errors
    /// It lies where each node has a directory of its own.
    pub fn require_seen(&self) -> Result<(), Error> {
        place::require_seen(self.runtime.paths().chain([&*self.kubelet, &*self.workload]))
    }

    /// Paths of all but the lab's own.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let kubernetes = [&self.etcd, &self.apiserver, &self.controllers, &self.scheduler, &self.kubelet]
            .map(PathBuf::as_path);
        kubernetes.into_iter().chain(self.runtime.paths()).chain(self.network.paths())
    }
}
