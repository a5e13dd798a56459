// SPDX-License-Identifier: Apache-2.0
//! The stand-in for the agent on a node: a process that serves the pods whose facts the node writes down for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::{AgentStandIn, PodName};
use protocol::agent::SOCKET;
use protocol::pod::PodFacts;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

use crate::error::Error;
use crate::process::{Process, Program};
use crate::view::Viewed;

#[derive(Debug)]
pub struct Agent {
    workload: PathBuf,
    netns: PathBuf,
    view: Viewed,
    socket: PathBuf,
    pods: PathBuf,
    /// Log of the requests to all stand-ins so far, one on each line.
    record: PathBuf,
    process: AsyncMutex<Option<Process>>,
}

impl Agent {
    /// A node without an agent. What it needs to know is kept below `directory`.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn new(
        workload: &Path,
        (netns, view): (&Path, &Viewed),
        run_dir: &Path,
        directory: &Path,
    ) -> Result<Self, Error> {
        let pods = directory.join("pods");
        fs::create_dir_all(&pods).map_err(Error::file("make", &pods))?;
        Ok(Self {
            workload: workload.to_owned(),
            netns: netns.to_owned(),
            view: view.clone(),
            socket: run_dir.join(SOCKET),
            pods,
            record: directory.join("requests"),
            process: AsyncMutex::default(),
        })
    }

    /// Replaces the agent; the former one is gone before the next one listens.
    ///
    /// # Errors
    /// It did not come up before the deadline.
    pub async fn become_(&self, agent: AgentStandIn, deadline: Duration) -> Result<(), Error> {
        let mut process = self.process.lock().await;
        if let Some(former) = process.take() {
            former.kill().await;
        }
        remove(&self.socket)?;
        if agent == AgentStandIn::Absent {
            return Ok(());
        }
        let how = serde_json::to_value(agent)?;
        let [socket, pods, record] =
            [&self.socket, &self.pods, &self.record].map(|path| path.display().to_string());
        let how = how.as_str().unwrap_or_default();
        let args = ["agent", "--socket", &socket, "--pods", &pods, "--record", &record, "--how", how];
        // The plugin asks the kernel for the process at the other end, which it sees if that is the node's.
        let program = Program { view: Some(self.view.now()), ..Program::new(&self.workload, args) };
        let started = Process::start(&program, &self.netns).await?;
        if let Some(exit) = started.ready(deadline).await? {
            let why = format!("ended with {exit:?}: {:?}", started.output().lines());
            return Err(Error::Process { program: self.workload.clone(), why });
        }
        *process = Some(started);
        Ok(())
    }

    /// Requests so far, in order; every answered one is included.
    #[must_use]
    pub fn requests(&self) -> Vec<Value> {
        let text = fs::read(&self.record).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let text = |line: &[u8]| Value::from(String::from_utf8_lossy(line));
        lines.map(|line| serde_json::from_slice(line).unwrap_or_else(|_| text(line))).collect()
    }

    /// Lets the agent know a pod.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn learn(&self, facts: &PodFacts) -> Result<(), Error> {
        let file = self.file(&PodName::new(&facts.metadata.namespace, &facts.metadata.name));
        let next = file.with_extension("next");
        let text = serde_json::to_vec(facts)?;
        let written = fs::write(&next, text).and_then(|()| fs::rename(&next, &file));
        written.map_err(Error::file("write", file))
    }

    /// Lets the agent forget a pod.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget(&self, pod: &PodName) -> Result<(), Error> {
        remove(&self.file(pod))
    }

    fn file(&self, pod: &PodName) -> PathBuf {
        self.pods.join(format!("{}_{}.json", pod.namespace, pod.name))
    }
}

fn remove(file: &Path) -> Result<(), Error> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::file("remove", file)),
    }
}
