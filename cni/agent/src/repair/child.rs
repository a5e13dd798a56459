// SPDX-License-Identifier: Apache-2.0
//! Starts the process that enters namespaces, asks it, and ends it at a deadline.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::ask::{Answer, Request};
use super::inside::COMMAND;

/// Far more than an answer about a full node has.
const LIMIT: u64 = 4 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The process cannot be started.
    #[error("start {}: {reason}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// It cannot be talked to.
    #[error("talk to the process in the namespace: {0}")]
    Talk(std::io::Error),
    /// It did not answer in time, and was ended.
    #[error("get an answer from the process in the namespace within {0:?}")]
    Deadline(Duration),
    /// What it said is no answer.
    #[error("read the answer of the process in the namespace")]
    Malformed(#[from] serde_json::Error),
}

/// The program that enters namespaces.
#[derive(Debug, Clone)]
pub struct Program(pub PathBuf);

impl Default for Program {
    /// This one.
    fn default() -> Self {
        Self("/proc/self/exe".into())
    }
}

impl Program {
    /// Asks. Whoever drops this ends the process.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn ask(&self, request: &Request, deadline: Duration) -> Result<Answer, ChildError> {
        let text = serde_json::to_vec(request)?;
        let mut command = Command::new(&self.0);
        command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|reason| ChildError::Start { path: self.0.clone(), reason })?;
        match tokio::time::timeout(deadline, talk(&mut child, &text)).await {
            Ok(answer) => Ok(serde_json::from_slice(&answer.map_err(ChildError::Talk)?)?),
            Err(_) => {
                // It is gone then, and reaped; that it went by itself meanwhile is as good.
                let _ = child.kill().await;
                Err(ChildError::Deadline(deadline))
            }
        }
    }
}

async fn talk(child: &mut Child, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(std::io::ErrorKind::BrokenPipe.into());
    };
    to.write_all(request).await?;
    drop(to);
    let mut answer = Vec::new();
    from.take(LIMIT).read_to_end(&mut answer).await?;
    child.wait().await?;
    Ok(answer)
}
