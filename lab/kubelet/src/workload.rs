// SPDX-License-Identifier: Apache-2.0
//! A running pod as a probe: traffic from inside of it, a look at its rules.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::{Hand, Network};
use cluster::{CniAnswer, LabError, Node as _, Position, Workload};

use crate::errand;
use crate::error::Error;
use crate::node::NetnsNode;
use crate::output::Output;
use crate::process::number_on_node;
use crate::slot::{Shown, Slot};

/// Container that stands in for a virtual machine.
const GUEST: &str = "guest";

/// A network namespace of a pod other than its own.
#[derive(Debug, Clone)]
pub(crate) struct Inner {
    netns: PathBuf,
    addresses: Vec<IpAddr>,
}

/// A pod with a sandbox.
#[derive(Debug, Clone)]
pub struct NetnsWorkload {
    pub(crate) slot: Arc<Slot>,
    /// Namespace of the observer, if not the pod's own.
    pub(crate) inner: Option<Inner>,
    pub(crate) node: Arc<NetnsNode>,
}

#[async_trait]
impl Workload for NetnsWorkload {
    fn addresses(&self) -> Vec<IpAddr> {
        match &self.inner {
            Some(inner) => inner.addresses.clone(),
            None => self.slot.shown().addresses,
        }
    }

    fn addresses_on(&self, interface: &str) -> Vec<IpAddr> {
        let further = self.slot.shown().further.into_iter();
        further.filter(|(name, _)| name == interface).map(|(_, address)| address).collect()
    }

    fn guest(&self) -> Result<Box<dyn Workload>, LabError> {
        let shown = self.slot.shown();
        let pid = shown.pids.iter().find(|(name, _)| name == GUEST);
        let first = shown.outputs.iter().find(|(name, _)| name == GUEST).map(|(_, output)| output.lines());
        let (Some((_, pid)), Some(lines)) = (pid, first) else {
            return Err(Error::Missing(format!("guest in pod {}", self.slot.plan.pod.name)).into());
        };
        // Its first line says which addresses it has.
        let words = lines.first().map(String::as_str).unwrap_or_default().split(' ');
        let addresses = words.filter_map(|word| word.parse().ok()).collect();
        let netns = PathBuf::from(format!("/proc/{pid}/ns/net"));
        Ok(Box::new(Self { inner: Some(Inner { netns, addresses }), ..self.clone() }))
    }

    fn netns(&self) -> Result<String, LabError> {
        Ok(self.place().display().to_string())
    }

    fn network_namespace(&self) -> Result<Network, LabError> {
        match &self.inner {
            Some(inner) => inner.addresses.first().copied().map(Network::Pod).ok_or_else(|| {
                Error::Missing(format!("address of the guest in pod {}", self.slot.plan.pod.name)).into()
            }),
            None if self.slot.plan.host_network => Ok(Network::Node),
            // No file keeps it: it is that of a process with the pod's address.
            None if !self.slot.shown().netns.starts_with(&self.node.paths.netns_dir) => {
                self.slot.shown().addresses.first().copied().map(Network::Pod).ok_or_else(|| {
                    Error::Missing(format!("address of pod {}", self.slot.plan.pod.name)).into()
                })
            }
            None => {
                let name = self.slot.shown().netns.file_name().unwrap_or_default().to_owned();
                Ok(Network::Kept(self.node.directories().netns_dir.join(name)))
            }
        }
    }

    fn owner_on_node(&self, owner: (u32, u32)) -> (u32, u32) {
        self.slot.plan.users.on_node(owner)
    }

    fn exchange(&self) -> Duration {
        self.node.options.deadlines.exchange
    }

    async fn run_again(&self, container: &str, more: &[String]) -> Result<CniAnswer, LabError> {
        let plan = &self.slot.plan;
        let planned = plan.containers.iter().find(|planned| planned.name == container);
        let planned = planned.ok_or_else(|| Error::Missing(format!("container {container}")))?;
        let mut program = planned.program.clone();
        program.args.extend_from_slice(more);
        program.resolv_conf = Some(self.node.resolv_conf(plan));
        Ok(errand::finish(&program, &self.place(), &[], self.node.options.deadlines.process).await?)
    }

    async fn hand(&self) -> Result<Arc<dyn Hand>, LabError> {
        Ok(Arc::new(self.node.hand().await?))
    }

    async fn process(&self, container: &str) -> Result<Option<u32>, LabError> {
        Ok(self.pid(container).and_then(number_on_node))
    }

    async fn said(&self, container: &str, fragment: &str, from: Position) -> Result<String, LabError> {
        let deadline = self.node.options.deadlines.process;
        Ok(self.output(container).await?.until(fragment, from, deadline).await?)
    }

    async fn whole_output(&self, container: &str) -> Result<Vec<String>, LabError> {
        let output = self.output(container).await?;
        output.closed(self.node.options.deadlines.process).await?;
        Ok(output.lines())
    }

    async fn logs(&self) -> Result<Vec<String>, LabError> {
        let outputs = self.slot.shown().outputs.into_iter();
        let lines = |(name, output): (String, Output)| {
            output.lines().into_iter().map(move |line| format!("{name}: {line}"))
        };
        Ok(outputs.flat_map(lines).collect())
    }
}

impl NetnsWorkload {
    /// Output of a container, once it has been started.
    async fn output(&self, container: &str) -> Result<Output, Error> {
        let is_there = |shown: &Shown| shown.outputs.iter().any(|(name, _)| name == container);
        let what = format!("the start of container {container}");
        let shown = self.slot.until_shown(&what, self.node.options.deadlines.process, is_there).await?;
        let output = shown.outputs.into_iter().find(|(name, _)| name == container);
        Ok(output.ok_or_else(|| Error::Missing(format!("container {container}")))?.1)
    }

    /// Namespace of the observer.
    fn place(&self) -> PathBuf {
        self.inner.as_ref().map_or_else(|| self.slot.shown().netns, |inner| inner.netns.clone())
    }

    /// The number of a container's process, as the lab numbers it.
    pub(crate) fn pid(&self, container: &str) -> Option<u32> {
        let shown = self.slot.shown();
        shown.pids.into_iter().find(|(name, _)| name == container).map(|(_, pid)| pid)
    }
}
