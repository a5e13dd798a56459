// SPDX-License-Identifier: Apache-2.0
//! What the lab's own kubelet does on request. Nobody can ask a real one.

use std::net::IpAddr;
use std::path::PathBuf;

use async_trait::async_trait;

use crate::{LabError, PodName};

/// The file of Multus' daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MultusFile {
    /// Path on the node.
    pub path: PathBuf,
    /// Content.
    pub text: String,
}

/// End of Multus' daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultusEnd {
    /// SIGKILL: socket and file stay.
    Killed,
    /// SIGTERM: it removes its file.
    Stopped,
}

/// The lab's own kubelet. Each method fails where there is no such pod.
#[async_trait]
pub trait Kubelet: Send + Sync {
    /// Starts nothing of a pod again, until it is released. Afterwards none of its containers is being started.
    async fn hold(&self, pod: &PodName) -> Result<(), LabError>;

    /// Ends [`Kubelet::hold`].
    async fn release(&self, pod: &PodName) -> Result<(), LabError>;

    /// Leaves a network namespace of this name and address on the first node, which no pod has: until the cluster ends.
    async fn leave_namespace(&self, name: &str, address: IpAddr) -> Result<(), LabError>;

    /// The token that a pod's containers find.
    async fn token(&self, pod: &PodName) -> Result<String, LabError>;

    /// Lets a pod's token expire, without a new one.
    async fn expire_token(&self, pod: &PodName) -> Result<(), LabError>;

    /// Mounts a new token; the old one is dead.
    async fn renew_token(&self, pod: &PodName) -> Result<(), LabError>;

    /// Starts the daemon of Multus on a node; beside what its manifest shows it of the node it sees `more`. It writes and removes its file.
    async fn serve_multus(&self, node: &str, more: &[PathBuf], own: &MultusFile) -> Result<(), LabError>;

    /// Ends that daemon.
    async fn stop_multus(&self, node: &str, how: MultusEnd) -> Result<(), LabError>;
}
