// SPDX-License-Identifier: Apache-2.0
//! What the lab's own kubelet does on request. Nobody can ask a real one.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;

use crate::{Files, LabError, PodName};

/// The lab's own kubelet. Each method fails where there is no such pod.
#[async_trait]
pub trait Kubelet: Send + Sync {
    /// Starts nothing of a pod again, until it is released. Afterwards none of its containers is being started.
    async fn hold(&self, pod: &PodName) -> Result<(), LabError>;

    /// Ends [`Kubelet::hold`].
    async fn release(&self, pod: &PodName) -> Result<(), LabError>;

    /// Gives a directory of the first node a disk of so many bytes, with what is in the directory. What is started from now on sees it.
    async fn lay_disk(&self, directory: &Path, size: u32) -> Result<(), LabError>;

    /// Lets that disk become read-only, as after an error of it, or writable.
    fn turn_disk(&self, files: Files) -> Result<(), LabError>;

    /// Leaves a network namespace of this name and address on the first node, which no pod has: until the cluster ends.
    async fn leave_namespace(&self, name: &str, address: IpAddr) -> Result<(), LabError>;

    /// The token that a pod's containers find.
    async fn token(&self, pod: &PodName) -> Result<String, LabError>;

    /// Lets a pod's token expire, without a new one.
    async fn expire_token(&self, pod: &PodName) -> Result<(), LabError>;

    /// Mounts a new token; the old one is dead.
    async fn renew_token(&self, pod: &PodName) -> Result<(), LabError>;

    /// Starts the daemon of Multus on a node; beside what its manifest shows it of the node it sees `more`.
    async fn serve_multus(&self, node: &str, more: &[PathBuf]) -> Result<(), LabError>;

    /// Kills that daemon.
    async fn stop_multus(&self, node: &str) -> Result<(), LabError>;
}
