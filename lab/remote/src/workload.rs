// SPDX-License-Identifier: Apache-2.0
//! A running pod: the hand enters its network by the pod's address.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::{Hand as OnNode, Run};
use cluster::{Answer, CniAnswer, LabError, PodName, Stray, StrayEnding, Traffic, Workload};
use hand::Client as Hand;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use crate::error::Error;
use crate::logs;
use crate::watch::first_line;

/// Grace beyond a client's own deadline.
const HANGING: Duration = Duration::from_secs(5);

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
    async fn run(
        &self,
        words: &[&str],
        stdin: String,
        owner: (u32, u32),
        deadline: Duration,
    ) -> Result<CniAnswer, LabError> {
        let run = Run {
            network: self.network_namespace()?,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            stdin,
            owner,
            capabilities: None,
            deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
        };
        let answer = self.hand.run(run).await?;
        if answer.exit == Some(0) {
            return Ok(answer);
        }
        let why = format!("{} in pod {}: {}", words.join(" "), self.pod.name, answer.stderr.trim());
        Err(Error::Hand { node: "of the pod".to_owned(), why }.into())
    }

    /// Its object.
    async fn now(&self) -> Result<Pod, Error> {
        self.pods.get(&self.pod.name).await.map_err(Error::api(format!("get pod {}", self.pod.name)))
    }

    async fn run_client(&self, traffic: &[Traffic]) -> Result<Vec<Answer>, LabError> {
        let Some(first) = traffic.first() else { return Ok(Vec::new()) };
        let mut input = String::new();
        for one in traffic {
            input += &serde_json::to_string(one).map_err(Error::from)?;
            input.push('\n');
        }
        let milliseconds = self.exchange.as_millis().to_string();
        let words = ["workload", "client", "--deadline-ms", &milliseconds];
        let count = u32::try_from(traffic.len()).unwrap_or(u32::MAX);
        let deadline = (self.exchange * 2).saturating_mul(count) + HANGING;
        let answer = self.run(&words, input, (first.uid, first.gid), deadline).await?;
        let answers: Result<Vec<Answer>, _> =
            serde_json::Deserializer::from_str(&answer.stdout).into_iter().collect();
        Ok(answers.map_err(Error::from)?)
    }
}

#[async_trait]
impl Workload for RemotePod {
    fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }

    async fn send_as_one(&self, traffic: &[Traffic]) -> Result<Vec<Answer>, LabError> {
        self.run_client(traffic).await
    }

    async fn hand(&self) -> Result<Arc<dyn OnNode>, LabError> {
        Ok(Arc::new(self.hand.clone()))
    }

    async fn stray(&self, stray: &Stray) -> Result<StrayEnding, LabError> {
        let input = serde_json::to_string(stray).map_err(Error::from)?;
        let milliseconds = self.exchange.as_millis().to_string();
        let words = ["workload", "stray", "--deadline-ms", &milliseconds];
        let answer = self.run(&words, input, (0, 0), self.exchange + HANGING).await?;
        Ok(serde_json::from_str(&answer.stdout).map_err(Error::from)?)
    }

    async fn said(&self, container: &str, fragment: &str) -> Result<String, LabError> {
        let line = first_line(&self.pods, &self.pod.name, container, fragment);
        let what = || format!("a line with {fragment:?} of container {container}");
        let line = tokio::time::timeout(self.deadline, line).await;
        Ok(line.map_err(|_| Error::Deadline { what: what(), deadline: self.deadline })??)
    }

    async fn process(&self, container: &str) -> Result<Option<u32>, LabError> {
        let pod = self.now().await?;
        let Some(id) = container_id(&pod, container) else { return Ok(None) };
        let proc = Path::new("/proc");
        let mut numbers: Vec<u32> =
            self.hand.list(proc).await?.iter().filter_map(|entry| entry.name.parse().ok()).collect();
        numbers.sort_unstable();
        for number in numbers {
            // One that has ended meanwhile has none.
            let of = self.hand.read(&proc.join(number.to_string()).join("cgroup")).await.unwrap_or_default();
            if String::from_utf8_lossy(&of).contains(&id) {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    async fn logs(&self) -> Result<Vec<String>, LabError> {
        Ok(logs::of_pod(&self.pods, &self.now().await?).await?)
    }

    async fn inside(&self, word: &str, input: &[u8]) -> Result<String, LabError> {
        let input = String::from_utf8_lossy(input).into_owned();
        Ok(self.run(&["workload", word], input, (0, 0), HANGING).await?.stdout)
    }
}

/// The runtime's name of a container that runs: also that of its control group, on both runtimes.
fn container_id(pod: &Pod, container: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = [&status.init_container_statuses, &status.container_statuses];
    let its = all.into_iter().flatten().flatten().find(|one| one.name == container)?;
    its.state.as_ref()?.running.as_ref()?;
    its.container_id.as_ref()?.rsplit('/').next().map(str::to_owned)
}
