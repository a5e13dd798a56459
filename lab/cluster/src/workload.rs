// SPDX-License-Identifier: Apache-2.0
//! A running pod, as a place to look from.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::hand::{self, Hand, Network, Run};
use crate::{
    Answer, CniAnswer, Disturbance, LabError, LiveNetwork, Position, Stray, StrayEnding, Traffic, Wanted,
};

/// A running pod.
#[async_trait]
pub trait Workload: Send + Sync {
    /// The pod's addresses.
    fn addresses(&self) -> Vec<IpAddr>;

    /// The hand on its node.
    async fn hand(&self) -> Result<Arc<dyn Hand>, LabError>;

    /// Deadline of an exchange of packets.
    fn exchange(&self) -> Duration;

    /// Its network, as the hand on its node finds it.
    fn network_namespace(&self) -> Result<Network, LabError> {
        let first = self.addresses().first().copied();
        first.map(Network::Pod).ok_or_else(|| LabError::harness("find a pod's network", "it has no address"))
    }

    /// The path of its network namespace, where it is in reach of this process.
    fn netns(&self) -> Result<String, LabError> {
        Err(LabError::unsupported("this tier", "enter a pod's network from here"))
    }

    /// One of the pod's users and groups, as its node numbers them.
    fn owner_on_node(&self, owner: (u32, u32)) -> (u32, u32) {
        owner
    }

    /// Sends traffic from inside the pod, one after the other; says who answered, in the same order.
    async fn send_all(&self, traffic: &[Traffic]) -> Result<Vec<Answer>, LabError> {
        let on_node = |one: &Traffic| {
            let (uid, gid) = self.owner_on_node((one.uid, one.gid));
            Traffic { uid, gid, ..one.clone() }
        };
        let traffic = traffic.iter().map(on_node).collect();
        Ok(self.hand().await?.send(self.network_namespace()?, traffic, self.exchange()).await?)
    }

    /// Sends traffic from inside the pod; says who answered.
    async fn send(&self, traffic: &Traffic) -> Result<Answer, LabError> {
        let answer = self.send_all(std::slice::from_ref(traffic)).await?.pop();
        answer.ok_or_else(|| LabError::harness("send traffic", "no answer came"))
    }

    /// The pod's addresses on another interface than its first.
    fn addresses_on(&self, interface: &str) -> Vec<IpAddr> {
        let _ = interface;
        Vec::new()
    }

    /// The guest behind a virtual interface of the pod, as a place to send from.
    fn guest(&self) -> Result<Box<dyn Workload>, LabError> {
        Err(LabError::unsupported("this tier", "reach a guest"))
    }

    /// Sends a segment that belongs to no connection, and says what came back.
    async fn stray(&self, stray: &Stray) -> Result<StrayEnding, LabError> {
        Ok(self.hand().await?.stray(self.network_namespace()?, *stray, self.exchange()).await?)
    }

    /// Runs the program of a container once more and to its end, with more arguments, beside the pod's containers.
    async fn run_again(&self, container: &str, more: &[String]) -> Result<CniAnswer, LabError> {
        Err(LabError::unsupported("this tier", format!("run container {container:?} again with {more:?}")))
    }

    /// The number of a container's first process, as its node numbers it; `None` if it does not run.
    async fn process(&self, container: &str) -> Result<Option<u32>, LabError>;

    /// Waits until a container has printed a line with this in it, and returns the line.
    async fn said(&self, container: &str, fragment: &str, from: Position) -> Result<String, LabError>;

    /// Output of the pod's containers, `container: line`, for evidence.
    async fn logs(&self) -> Result<Vec<String>, LabError>;

    /// Lines of a container that has ended, once all that it printed is there.
    async fn whole_output(&self, container: &str) -> Result<Vec<String>, LabError> {
        let begin = format!("{container}: ");
        let lines = self.logs().await?.into_iter();
        Ok(lines.filter_map(|line| line.strip_prefix(&begin).map(str::to_owned)).collect())
    }

    /// Runs a program on its node, in its network; as root unless `owner` is another.
    async fn run(&self, words: &[&str], stdin: &str, owner: (u32, u32)) -> Result<CniAnswer, LabError> {
        let run = Run::new(self.network_namespace()?, words.iter().copied(), hand::PROMPT);
        Ok(self.hand().await?.run(Run { stdin: stdin.to_owned(), owner, ..run }).await?)
    }

    /// Rules with counters, legacy tables included, and policy routes of the pod's network.
    async fn network(&self) -> Result<LiveNetwork, LabError> {
        Ok(self.hand().await?.inspect(self.network_namespace()?).await?)
    }

    /// Differences of the rules in the pod's network from those that are wanted, a line each.
    async fn differences(&self, wanted: &Wanted) -> Result<Vec<String>, LabError> {
        Ok(self.hand().await?.compare(self.network_namespace()?, wanted.clone()).await?)
    }

    /// Changes the pod's network, as somebody else than the plugin.
    async fn disturb(&self, disturbance: &Disturbance) -> Result<(), LabError> {
        let what = || format!("disturb a pod's network: {disturbance:?}");
        let failed = |why: String| LabError::harness(what(), why);
        let stdin = serde_json::to_string(disturbance).map_err(|error| failed(error.to_string()))?;
        let answer = self.run(&["workload", "disturb"], &stdin, (0, 0)).await?;
        if answer.exit == Some(0) { Ok(()) } else { Err(failed(answer.stderr)) }
    }
}
