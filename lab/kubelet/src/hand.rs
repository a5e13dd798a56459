// SPDX-License-Identifier: Apache-2.0
//! The hand on an embedded node: a child process among the node's own, in the node's network, with the node's `/proc`. It is started at
//! first use and ends with the node's processes.

use std::process::Stdio;

use hand::Client;
use tokio::process::Command;

use crate::error::Error;
use crate::netns;
use crate::node::NetnsNode;

impl NetnsNode {
    /// The hand, started if there is none: a reboot takes it with it.
    pub(crate) async fn hand(&self) -> Result<Client, Error> {
        let mut there = self.hand.lock().await;
        if let Some(hand) = there.as_ref().filter(|hand| !hand.is_gone()) {
            return Ok(hand.clone());
        }
        Ok(there.insert(self.start_hand().await?).clone())
    }

    async fn start_hand(&self) -> Result<Client, Error> {
        let workload = &self.options.binaries.workload;
        let mut command = Command::new(workload);
        let path = format!("{}:{}", self.options.binaries.sut.display(), crate::errand::PATH);
        command
            .arg("hand")
            .arg("--root")
            .arg(self.host.root().0)
            .env_clear()
            .envs(&self.options.binaries.sut_env)
            .env("PATH", path);
        command.kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let view = self.view.now();
        let started = netns::inside(self.netns.path(), move || {
            view.pids().join()?;
            view.enter()?;
            Ok::<_, Error>(command.spawn())
        });
        let failed = |why: String| Error::Process { program: workload.clone(), why };
        let mut child = started.await??.map_err(|error| failed(error.to_string()))?;
        let (Some(from), Some(to)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(failed("its streams are not there".to_owned()));
        };
        Client::over(&self.name, from, to, child).await.map_err(|error| failed(error.to_string()))
    }

    /// Ends the hand, and with it what it keeps busy.
    pub(crate) async fn let_hand_go(&self) {
        self.hand.lock().await.take();
    }
}
