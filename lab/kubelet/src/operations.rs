// SPDX-License-Identifier: Apache-2.0
//! Questions of steps to this tier's kubelet and API server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Gates, Read};
use async_trait::async_trait;
use cluster::{
    CniAnswer, Configuration, Disk, Effect, Fault, Fetched, Front as _, Kubelet, LabError, Machines, Memory,
    MultusEnd, MultusFile, PodName, Server, Verb,
};
use k8s_openapi::jiff::SignedDuration;

use crate::account::Credentials;
use crate::control_plane::ControlPlane;
use crate::disk::LaidDisk;
use crate::errand;
use crate::error::Error;
use crate::netns::{self, Namespace, NamespaceRole};
use crate::node::NetnsNode;
use crate::probe;
use crate::tier::NetnsCluster;

#[async_trait]
impl Machines for NetnsCluster {
    async fn reboot(&self, name: &str, configuration: Configuration) -> Result<(), LabError> {
        let node = self.node_of(name)?;
        let of_node = |namespace: &Namespace| namespace.path().starts_with(&node.paths.netns_dir);
        self.left.lock().retain(|namespace| !of_node(namespace));
        if let Some(wire) = &self.wire {
            wire.forget(node.netns.path()).await?;
        }
        Ok(node.reboot(configuration).await?)
    }

    async fn shut_down(&self, name: &str) -> Result<(), LabError> {
        Ok(self.node_of(name)?.shut_down().await?)
    }

    async fn restart_runtime(&self, name: &str) -> Result<(), LabError> {
        Ok(self.node_of(name)?.restart_runtime().await?)
    }

    /// A real runtime has long noticed what came before. This one looks at its watch when it is asked, and would read a directory that is gone.
    fn lose_sight(&self, name: &str) {
        if let Ok(node) = self.node_of(name) {
            let _ = node.chain.loaded();
        }
    }

    async fn restart_kubelet(&self, name: &str) -> Result<(), LabError> {
        Ok(self.node_of(name)?.restart_kubelet().await?)
    }

    async fn set_memory(&self, name: &str, memory: Memory) -> Result<(), LabError> {
        Ok(self.node_of(name)?.set_memory(memory).await?)
    }

    /// For whoever connects to it: the lab's own kubelets and controllers do not. What it does not answer is a fault of that length.
    async fn restart_api(&self, away: Duration) -> Result<(), LabError> {
        for effect in [Effect::Cut { after: 0 }, Effect::Drop] {
            self.front.add(Fault { lasts: Some(away), ..Fault::always(effect) });
        }
        Ok(())
    }

    async fn trust(&self, authorities: &str) -> Result<(), LabError> {
        let published = self.api()?.publish_authorities(authorities);
        published.map_err(|error| LabError::harness("publish authorities", error))?;
        for slot in self.nodes.iter().flat_map(|node| node.slots()) {
            let kept = slot.parts.lock().await.credentials.as_ref().map(|kept| Arc::clone(&kept.credentials));
            if let Some(credentials) = kept {
                credentials.follow_authorities().await?;
            }
        }
        Ok(())
    }

    async fn lay_disk(&self, name: &str, directory: &Path, disk: Disk) -> Result<(), LabError> {
        let laid = LaidDisk::on(&self.host_path(directory)?, disk)?;
        *self.disk.lock() = Some(laid);
        // It would go on seeing what is beneath.
        self.node_of(name)?.let_hand_go().await;
        Ok(())
    }

    async fn turn_disk(&self, _: &str, _: &Path, disk: Disk) -> Result<(), LabError> {
        let laid = self.disk.lock();
        let laid = laid.as_ref().ok_or_else(|| Error::Missing("disk beneath a directory".to_owned()))?;
        Ok(laid.turn(disk)?)
    }
}

#[async_trait]
impl Kubelet for NetnsCluster {
    async fn serve_multus(&self, node: &str, more: &[PathBuf], own: &MultusFile) -> Result<(), LabError> {
        let node = self.node_of(node)?;
        Ok(node.chain.multus.serve(more, own, node.options.deadlines.process).await?)
    }

    async fn stop_multus(&self, node: &str, how: MultusEnd) -> Result<(), LabError> {
        let node = self.node_of(node)?;
        let multus = &node.chain.multus;
        match how {
            MultusEnd::Killed => multus.stop().await,
            MultusEnd::Stopped => multus.terminate(node.options.deadlines.process).await,
        }
        Ok(())
    }

    async fn hold(&self, pod: &PodName) -> Result<(), LabError> {
        self.seen(pod).await?.slot.hold().await;
        Ok(())
    }

    async fn release(&self, pod: &PodName) -> Result<(), LabError> {
        self.seen(pod).await?.slot.release();
        Ok(())
    }

    async fn leave_namespace(&self, name: &str, address: IpAddr) -> Result<(), LabError> {
        let node = self.nodes.first().ok_or_else(|| Error::Missing("node".to_owned()))?;
        let file = node.paths.netns_dir.join(name);
        let left = Namespace::create(&file, NamespaceRole::Pod).await?;
        netns::set_loopback_up(left.path()).await?;
        netns::add_addresses(&file, &[address]).await?;
        self.left.lock().push(left);
        Ok(())
    }

    async fn token(&self, pod: &PodName) -> Result<String, LabError> {
        Ok(self.credentials(pod).await?.token()?)
    }

    async fn expire_token(&self, pod: &PodName) -> Result<(), LabError> {
        Ok(self.credentials(pod).await?.expire()?)
    }

    async fn renew_token(&self, pod: &PodName) -> Result<(), LabError> {
        let credentials = self.credentials(pod).await?;
        credentials.expire()?;
        Ok(credentials.renew().await?)
    }
}

impl Server for ControlPlane {
    fn forget_tokens(&self) {
        self.api().forget_tokens();
    }

    fn rotate_keys(&self) {
        self.api().rotate_keys();
    }

    fn set_clock(&self, ahead: i64) {
        self.api().set_clock(SignedDuration::from_secs(ahead));
    }

    fn stream_lists(&self, streamed: bool, etcd_tells_progress: bool) {
        let (watch_list, request_watch_progress) = (streamed, etcd_tells_progress);
        self.api().set_gates(Gates { watch_list, request_watch_progress, ..Gates::default() });
    }

    fn etcd_reads(&self, user: &str, resource: &str) -> usize {
        let requests = self.api().requests().into_iter();
        let its = requests.filter(|one| one.user == user && one.resource.as_deref() == Some(resource));
        its.filter(|one| matches!(one.verb, Verb::List | Verb::Watch))
            .filter(|one| one.read.is_some_and(|read| read != Read::Cache))
            .count()
    }
}

impl NetnsCluster {
    async fn credentials(&self, pod: &PodName) -> Result<Arc<Credentials>, Error> {
        let found = self.seen(pod).await?;
        let parts = found.slot.parts.lock().await;
        let kept = parts.credentials.as_ref().map(|kept| Arc::clone(&kept.credentials));
        kept.ok_or_else(|| Error::Missing(format!("token of pod {}", pod.name)))
    }

    /// As [`cluster::Cluster::fetch`].
    pub(crate) async fn asked_for(&self, pod: &PodName, port: u16, path: &str) -> Result<Fetched, Error> {
        let silent = |body: String| Fetched { body, ..Fetched::default() };
        let found = self.seen(pod).await?;
        let on_nodes_network = || found.slot.plan.host_network.then_some(IpAddr::from(Ipv4Addr::LOCALHOST));
        let address = found.slot.shown().addresses.first().copied().or_else(on_nodes_network);
        let Some(address) = address else {
            return Ok(silent(format!("pod {} has no address", pod.name)));
        };
        let path = path.to_owned();
        let asked = netns::inside(found.node.netns.path(), move || {
            probe::ask(SocketAddr::new(address, port), &path, probe::TIMEOUT)
        });
        // A pod that does not answer is told as by an API server, in the body: it is no fault of the lab.
        Ok(asked.await?.unwrap_or_else(|error| silent(error.to_string())))
    }

    /// As [`cluster::Cluster::exec`].
    pub(crate) async fn run_in(
        &self,
        pod: &PodName,
        container: &str,
        words: &[&str],
    ) -> Result<CniAnswer, Error> {
        let found = self.seen(pod).await?;
        let pid = found.pid(container);
        let pid = pid.ok_or_else(|| Error::Missing(format!("process of container {container}")))?;
        errand::beside(pid, words, self.options.deadlines.process).await
    }
}

impl NetnsCluster {
    fn node_of(&self, name: &str) -> Result<&NetnsNode, Error> {
        let found = self.nodes.iter().find(|node| node.name == name);
        found.map(|node| &**node).ok_or_else(|| Error::Missing(format!("node {name}")))
    }
}
