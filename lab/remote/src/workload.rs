// SPDX-License-Identifier: Apache-2.0
//! A running pod: the hand enters its network by the pod's address.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::Hand as OnNode;
use cluster::{LabError, PodName, Position, Workload};
use hand::Client as Hand;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use crate::error::Error;
use crate::logs;
use crate::watch::{first_line, until};

/// A pod with an address.
#[derive(Debug)]
pub(crate) struct RemotePod {
    pub(crate) pods: Api<Pod>,
    pub(crate) pod: PodName,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) hand: Hand,
    /// Deadline of an answer.
    pub(crate) exchange: Duration,
    pub(crate) deadline: Duration,
}

impl RemotePod {
    /// Its object.
    async fn now(&self) -> Result<Pod, Error> {
        self.pods.get(&self.pod.name).await.map_err(Error::api(format!("get pod {}", self.pod.name)))
    }
}

#[async_trait]
impl Workload for RemotePod {
    fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }

    fn exchange(&self) -> Duration {
        self.exchange
    }

    async fn hand(&self) -> Result<Arc<dyn OnNode>, LabError> {
        Ok(Arc::new(self.hand.clone()))
    }

    async fn said(&self, container: &str, fragment: &str, from: Position) -> Result<String, LabError> {
        let what = || format!("a line with {fragment:?} of container {container}");
        let line = async {
            loop {
                let before = container_id(&self.now().await?, container);
                let found = first_line(&self.pods, (&self.pod.name, container), fragment, from).await;
                let Err(Error::Missing(_)) = found else { return found };
                let now = self.now().await?;
                if is_over(&now) {
                    return found;
                }
                // Its log ended with it, and it may start again; or the server cut the stream.
                if before.is_none() || container_id(&now, container) != before {
                    let runs = |pod: &Pod| is_over(pod) || container_id(pod, container).is_some();
                    until(&self.pods, &self.pod.name, what, self.deadline, runs).await?;
                }
            }
        };
        let line = tokio::time::timeout(self.deadline, line).await;
        Ok(line.map_err(|_| Error::Deadline { what: what(), deadline: self.deadline })??)
    }

    async fn process(&self, container: &str) -> Result<Option<u32>, LabError> {
        process(&self.hand, &self.now().await?, container).await
    }

    async fn logs(&self) -> Result<Vec<String>, LabError> {
        Ok(logs::of_pod(&self.pods, &self.now().await?).await?)
    }
}

/// First process of a container, as its node numbers it; `None` where it does not run.
///
/// # Errors
/// The hand is out of reach.
pub(crate) async fn process(hand: &Hand, pod: &Pod, container: &str) -> Result<Option<u32>, LabError> {
    let Some(id) = container_id(pod, container) else { return Ok(None) };
    let proc = Path::new("/proc");
    let mut numbers: Vec<u32> =
        hand.list(proc).await?.iter().filter_map(|entry| entry.name.parse().ok()).collect();
    numbers.sort_unstable();
    for number in numbers {
        // One that has ended meanwhile has none.
        let of = hand.read(&proc.join(number.to_string()).join("cgroup")).await.unwrap_or_default();
        if String::from_utf8_lossy(&of).lines().any(|group| is_of(group, &id)) {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// True if a line of `/proc/PID/cgroup` is of a container: `…/ID`, `…/crio-ID.scope` or `…/cri-containerd-ID.scope`, and what is below them. The
/// scope `crio-conmon-ID.scope` is that of CRI-O's monitor.
fn is_of(group: &str, id: &str) -> bool {
    group.split('/').any(|part| part.contains(id) && !part.contains("conmon"))
}

/// True if no container of it runs any more, or ever will.
fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The runtime's name of a container that runs: also that of its control group, on both runtimes.
fn container_id(pod: &Pod, container: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = [&status.init_container_statuses, &status.container_statuses];
    let its = all.into_iter().flatten().flatten().find(|one| one.name == container)?;
    its.state.as_ref()?.running.as_ref()?;
    its.container_id.as_ref()?.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_not_its_container() {
        for (group, is_its) in [
            ("1:cpu:/kubepods/burstable/pod1/c0ffee", true),
            ("0::/kubepods.slice/kubepods-pod1.slice/crio-c0ffee.scope", true),
            ("0::/kubepods.slice/kubepods-pod1.slice/crio-c0ffee.scope/container", true),
            ("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-c0ffee.scope", true),
            ("0::/kubepods.slice/kubepods-pod1.slice/crio-conmon-c0ffee.scope", false),
            ("0::/kubepods.slice/kubepods-pod1.slice/crio-decaf.scope", false),
        ] {
            assert_eq!(is_of(group, "c0ffee"), is_its, "{group}");
        }
    }
}
