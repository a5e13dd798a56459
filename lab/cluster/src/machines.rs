// SPDX-License-Identifier: Apache-2.0
//! Nodes as machines: reboots and restarts, where the lab has started the node.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;

use crate::LabError;

/// Directory of network configurations, over a reboot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Configuration {
    /// It is on a disk.
    #[default]
    Stays,
    /// It is in memory, as on Talos and Bottlerocket: a reboot empties it.
    IsLost,
}

/// State of a laid disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// Free bytes; 0 is full.
    Room(u32),
    /// As after an I/O error.
    ReadOnly,
}

/// A node's memory, as its kubelet takes it to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// There is enough of it.
    Enough,
    /// There is less than the kubelet wants: it evicts all pods that are not critical.
    Short,
}

/// Machines of a cluster, by the names of their nodes.
#[async_trait]
pub trait Machines: Send + Sync {
    /// Restarts a node: processes, namespaces and what is in `/run` are lost, and returns when its kubelet is up again.
    async fn reboot(&self, node: &str, configuration: Configuration) -> Result<(), LabError>;

    /// Ends all pods of a node as its kubelet does before a machine is turned off (`GracefulNodeShutdown`): their objects stay, as those of pods that
    /// failed. [`Machines::reboot`] turns it on again.
    async fn shut_down(&self, _node: &str) -> Result<(), LabError> {
        Err(LabError::unsupported("this tier", "a node that shuts down: nobody tells its kubelet"))
    }

    /// Restarts the container runtime of a node; pods run on.
    async fn restart_runtime(&self, node: &str) -> Result<(), LabError>;

    /// Notes that the directory of network configurations of a node is about to be made again, so that its runtime may lose sight of it: unless it
    /// is restarted before, it is at the end of the scenario, where the cluster outlives that.
    fn lose_sight(&self, _node: &str) {}

    /// Restarts the kubelet of a node; pods run on.
    async fn restart_kubelet(&self, node: &str) -> Result<(), LabError>;

    /// Changes what a node's kubelet takes its memory to be.
    async fn set_memory(&self, node: &str, memory: Memory) -> Result<(), LabError>;

    /// Kills the API server, and starts it again after a while.
    async fn restart_api(&self, away: Duration) -> Result<(), LabError>;

    /// Publishes these authorities (PEM) as `kube-root-ca.crt`, whom pods are told to trust. Kubelets bring them to pods that run: the lab's own
    /// at once, a real one within some minutes.
    async fn trust(&self, authorities: &str) -> Result<(), LabError>;

    /// Gives a directory of a node, which is made if need be, a disk of its own with what is in it and, as disks have, `lost+found`. What is
    /// started from now on sees it.
    async fn lay_disk(&self, node: &str, directory: &Path, disk: Disk) -> Result<(), LabError>;

    /// Changes what that disk takes.
    async fn turn_disk(&self, node: &str, directory: &Path, disk: Disk) -> Result<(), LabError>;

    /// Takes that disk away: what it hid is seen again. Where a cluster ends with its scenario, so does the disk.
    async fn lift_disk(&self, _node: &str, _directory: &Path) -> Result<(), LabError> {
        Ok(())
    }
}

/// This machine's architecture, as Kubernetes and images call it.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
