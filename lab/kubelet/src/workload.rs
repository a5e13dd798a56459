// SPDX-License-Identifier: Apache-2.0
//! A running pod as a probe: traffic from inside of it, a look at its rules.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::{Answer, LabError, LiveRule, Traffic, Workload};
use tokio::io::AsyncWriteExt as _;

use crate::error::Error;
use crate::netns::inside;
use crate::process::Program;
use crate::slot::Slot;

/// A pod with a sandbox.
#[derive(Debug, Clone)]
pub struct NetnsWorkload {
    pub(crate) slot: Arc<Slot>,
    pub(crate) client: PathBuf,
    pub(crate) exchange: Duration,
}

#[async_trait]
impl Workload for NetnsWorkload {
    fn addresses(&self) -> Vec<IpAddr> {
        self.slot.shown().addresses
    }

    fn netns(&self) -> String {
        self.slot.shown().netns.display().to_string()
    }

    async fn send(&self, traffic: &Traffic) -> Result<Answer, LabError> {
        let mut answers = self.run_client(std::slice::from_ref(traffic)).await?;
        answers.pop().ok_or_else(|| Error::Missing("answer".to_owned()).into())
    }

    async fn send_all(&self, traffic: &[Traffic]) -> Result<Vec<Answer>, LabError> {
        let mut answers = Vec::with_capacity(traffic.len());
        for run in traffic.chunk_by(|one, next| (one.uid, one.gid) == (next.uid, next.gid)) {
            answers.extend(self.run_client(run).await?);
        }
        Ok(answers)
    }

    async fn rules(&self) -> Result<Vec<LiveRule>, LabError> {
        let snapshot = inside(&self.slot.shown().netns, netfilter::read).await?.map_err(Error::from)?;
        let rule = |rule: netfilter::snapshot::RuleCounter<'_>| LiveRule {
            family: rule.family.to_string(),
            table: rule.table.to_string(),
            chain: rule.chain.to_string(),
            position: rule.position,
            packets: rule.counter.packets,
        };
        Ok(snapshot.counters().map(rule).collect())
    }

    fn logs(&self) -> Vec<String> {
        let outputs = self.slot.shown().outputs.into_iter();
        let lines = |(name, output): (String, crate::process::Output)| {
            output.lines().into_iter().map(move |line| format!("{name}: {line}"))
        };
        outputs.flat_map(lines).collect()
    }
}

impl NetnsWorkload {
    /// Sends traffic of one user from one process inside the pod.
    async fn run_client(&self, traffic: &[Traffic]) -> Result<Vec<Answer>, Error> {
        let Some(first) = traffic.first() else { return Ok(Vec::new()) };
        let deadline = self.exchange.as_millis().to_string();
        let program =
            Program::new(&self.client, ["client", "--deadline-ms", &deadline]).as_user(first.uid, first.gid);
        let mut input = Vec::new();
        for one in traffic {
            serde_json::to_writer(&mut input, one)?;
            input.push(b'\n');
        }
        let mut child = program.spawn(&self.slot.shown().netns).await?;
        let stdin = child.stdin.take();
        let exchange = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // A client that gives up early says why on its standard error.
                    let _ = stdin.write_all(&input).await;
                }
            };
            tokio::join!(write, child.wait_with_output()).1
        };
        // The client keeps to its own deadlines; this one is for a client that does not.
        let count = u32::try_from(traffic.len()).unwrap_or(u32::MAX);
        let deadline = (self.exchange * 2).saturating_mul(count) + Duration::from_secs(5);
        let output = tokio::time::timeout(deadline, exchange)
            .await
            .map_err(|_| Error::Deadline { what: "a client's end".to_owned(), deadline })?
            .map_err(Error::system("wait for a client"))?;
        let answers: Result<Vec<Answer>, _> =
            serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect();
        match answers {
            Ok(answers) if answers.len() == traffic.len() => Ok(answers),
            _ => Err(Error::Process {
                program: self.client.clone(),
                why: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }
}
