// SPDX-License-Identifier: Apache-2.0
//! A running pod as a probe: traffic from inside of it, a look at its rules.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cluster::hand::Hand;
use cluster::{Answer, CniAnswer, LabError, Stray, StrayEnding, Traffic, Workload};

use crate::errand;
use crate::error::Error;
use crate::node::NetnsNode;
use crate::output::Output;
use crate::process::Program;
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

    async fn stray(&self, stray: &Stray) -> Result<StrayEnding, LabError> {
        let input = serde_json::to_vec(stray).map_err(Error::from)?;
        let exchange = self.exchange();
        let deadline = exchange.as_millis().to_string();
        let program = Program::new(self.client(), ["stray", "--deadline-ms", &deadline]);
        let output = program.finish(&self.place(), &input, exchange + HANGING).await?;
        serde_json::from_slice(&output.stdout).map_err(|_| self.complained(&output).into())
    }

    fn netns(&self) -> Result<String, LabError> {
        Ok(self.place().display().to_string())
    }

    async fn send_as_one(&self, traffic: &[Traffic]) -> Result<Vec<Answer>, LabError> {
        Ok(self.run_client(traffic).await?)
    }

    async fn inside(&self, word: &str, input: &[u8]) -> Result<String, LabError> {
        let program = Program::new(self.client(), [word]);
        let output = program.finish(&self.place(), input, self.node.options.deadlines.process).await?;
        if !output.status.success() {
            return Err(self.complained(&output).into());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
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
        let Some(pid) = self.pid(container) else { return Ok(None) };
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { return Ok(None) };
        // In each namespace from the lab's to its own, which is the node's.
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        Ok(numbers.split_whitespace().next_back().and_then(|number| number.parse().ok()))
    }

    async fn said(&self, container: &str, fragment: &str) -> Result<String, LabError> {
        let deadline = self.node.options.deadlines.process;
        Ok(self.output(container).await?.until(fragment, deadline).await?)
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

/// Grace beyond a client's own deadline, for one that does not keep it.
const HANGING: Duration = Duration::from_secs(5);

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

    fn client(&self) -> &Path {
        &self.node.options.binaries.workload
    }

    /// Deadline of an answer.
    fn exchange(&self) -> Duration {
        self.node.options.deadlines.exchange
    }

    /// Sends traffic of one user from one process inside the pod.
    async fn run_client(&self, traffic: &[Traffic]) -> Result<Vec<Answer>, Error> {
        let Some(first) = traffic.first() else { return Ok(Vec::new()) };
        let exchange = self.exchange();
        let deadline = exchange.as_millis().to_string();
        let program =
            Program::new(self.client(), ["client", "--deadline-ms", &deadline]).as_user(first.uid, first.gid);
        let program = self.slot.plan.users.of(program);
        let mut input = Vec::new();
        for one in traffic {
            serde_json::to_writer(&mut input, one)?;
            input.push(b'\n');
        }
        let count = u32::try_from(traffic.len()).unwrap_or(u32::MAX);
        let deadline = (exchange * 2).saturating_mul(count) + HANGING;
        let output = program.finish(&self.place(), &input, deadline).await?;
        let answers: Result<Vec<Answer>, _> =
            serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect();
        match answers {
            Ok(answers) if answers.len() == traffic.len() => Ok(answers),
            _ => Err(self.complained(&output)),
        }
    }

    fn complained(&self, output: &std::process::Output) -> Error {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Error::Process { program: self.client().to_owned(), why }
    }
}
