// SPDX-License-Identifier: Apache-2.0
//! What steps ask of this tier's kubelet.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::{CniAnswer, Kubelet, LabError, PodName};

use crate::account::Credentials;
use crate::errand;
use crate::error::Error;
use crate::netns;
use crate::probe::{self, Seen};
use crate::tier::NetnsCluster;

#[async_trait]
impl Kubelet for NetnsCluster {
    async fn reboot(&self, name: &str) -> Result<(), LabError> {
        let node = self.nodes.iter().find(|node| node.name == name);
        let node = node.ok_or_else(|| Error::Missing(format!("node {name}")))?;
        Ok(node.reboot().await?)
    }

    async fn hold(&self, pod: &PodName) -> Result<(), LabError> {
        self.seen(pod).await?.slot.hold().await;
        Ok(())
    }

    async fn release(&self, pod: &PodName) -> Result<(), LabError> {
        self.seen(pod).await?.slot.release();
        Ok(())
    }

    async fn comes_up(&self, pod: &PodName, deadline: Duration) -> Result<(), LabError> {
        Ok(self.seen(pod).await?.slot.running(deadline).await?)
    }

    async fn unready(&self, pod: &PodName) -> Result<Vec<String>, LabError> {
        let found = self.seen(pod).await?;
        let parts = found.slot.parts.lock().await;
        let seen = parts.containers.iter().filter_map(|container| match &container.seen {
            Some(Seen::NotReady(why)) => Some(why.clone()),
            _ => None,
        });
        Ok(seen.collect())
    }

    async fn token(&self, pod: &PodName) -> Result<String, LabError> {
        Ok(self.credentials(pod).await?.token()?)
    }

    async fn expire_token(&self, pod: &PodName) -> Result<(), LabError> {
        Ok(self.credentials(pod).await?.expire()?)
    }

    async fn renew_token(&self, pod: &PodName) -> Result<(), LabError> {
        let credentials = self.credentials(pod).await?;
        Ok(credentials.expire().and_then(|()| credentials.renew())?)
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
    pub(crate) async fn asked_for(
        &self,
        pod: &PodName,
        port: u16,
        path: &str,
    ) -> Result<(Option<u16>, String), Error> {
        let found = self.seen(pod).await?;
        let on_nodes_network = || found.slot.plan.host_network.then_some(IpAddr::from(Ipv4Addr::LOCALHOST));
        let address = found.slot.shown().addresses.first().copied().or_else(on_nodes_network);
        let address = address.ok_or_else(|| Error::Missing(format!("address of pod {}", pod.name)))?;
        let path = path.to_owned();
        let asked =
            netns::inside(found.node.netns.path(), move || probe::ask(SocketAddr::new(address, port), &path));
        asked.await?.map_err(Error::system("ask a pod over HTTP"))
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
