// SPDX-License-Identifier: Apache-2.0
//! Starts the process that enters namespaces, asks it, and ends it at a deadline.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::ask::{ChildReply, ChildRequest};
use super::inside::COMMAND;

/// Size limit of an answer: far more than one about a full node has.
const LIMIT: u64 = 4 * 1024 * 1024;

/// The longest that a killed process is waited for: exits take milliseconds, also on a busy machine.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Failure of the child process.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    #[error("failed to start {}: {reason}", path.display())]
    Start { path: PathBuf, reason: std::io::Error },
    /// Its pipes broke.
    #[error("failed to talk to the process in the namespace: {0}")]
    Talk(std::io::Error),
    /// It was killed after its deadline.
    #[error("failed to get an answer from the process in the namespace within {0:?}")]
    Deadline(Duration),
    /// It was killed after its deadline and stays: the kernel holds it.
    #[error(
        "failed to get an answer from the process in the namespace within {0:?}, and to kill it: it is left behind"
    )]
    Unkillable(Duration),
    /// Malformed answer.
    #[error("failed to read the answer of the process in the namespace")]
    Malformed(#[from] serde_json::Error),
}

/// Executable of the child process.
#[derive(Debug, Clone)]
pub struct Program(pub PathBuf);

impl Default for Program {
    fn default() -> Self {
        Self("/proc/self/exe".into())
    }
}

impl Program {
    /// Asks. Whoever drops this ends the process.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn ask(&self, request: &ChildRequest, deadline: Duration) -> Result<ChildReply, ChildError> {
        let text = serde_json::to_vec(request)?;
        let mut command = Command::new(&self.0);
        command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().map_err(|reason| ChildError::Start { path: self.0.clone(), reason })?;
        match tokio::time::timeout(deadline, talk(&mut child, &text)).await {
            Ok(answer) => Ok(serde_json::from_slice(&answer.map_err(ChildError::Talk)?)?),
            Err(_) => {
                // It is gone then, and reaped; that it went by itself meanwhile is as good. One that stays, in a system call that does not
                // end, is reaped by the runtime when it goes.
                let ended = tokio::time::timeout(KILL_LIMIT, child.kill()).await;
                Err(ended.map_or(ChildError::Unkillable(deadline), |_| ChildError::Deadline(deadline)))
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::super::ask::{BackendWanted, PodOutcome, Task};
    use super::super::gather::Grounds;
    use super::*;

    fn request() -> ChildRequest {
        let [netns_dir, node_netns_dir, cache_dir, proc_dir] = ["/n", "/o", "/c", "/p"].map(PathBuf::from);
        let grounds = Grounds { netns_dir, node_netns_dir, cache_dir, proc_dir };
        ChildRequest { task: Task::Look, grounds, backend: BackendWanted::default(), pods: Vec::new() }
    }

    fn program(dir: &Path, script: &str) -> Program {
        let path = dir.join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Program(path)
    }

    #[tokio::test]
    async fn it_is_told_the_command_and_the_request_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let said = dir.path().join("said");
        let script =
            format!("echo \"$@\" >{0}; cat >>{0}; echo '{{\"outcomes\":[\"right\"]}}'", said.display());
        let answer = program(dir.path(), &script).ask(&request(), Duration::from_secs(60)).await.unwrap();
        assert_eq!(answer.outcomes, [PodOutcome::Right]);
        let said = fs::read_to_string(said).unwrap();
        let text = said.strip_prefix("in-pod\n").unwrap();
        assert_eq!(serde_json::from_str::<ChildRequest>(text).unwrap(), request());
    }

    #[tokio::test]
    async fn it_is_ended_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000", pid.display());
        let hangs = program(dir.path(), &script);
        let error = hangs.ask(&request(), Duration::from_secs(3)).await.unwrap_err();
        assert!(matches!(error, ChildError::Deadline(_)), "{error}");
        let pid = fs::read_to_string(pid).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "it is gone, and reaped");
    }

    #[tokio::test]
    async fn what_is_no_answer_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let error =
            program(dir.path(), "cat >/dev/null; echo x").ask(&request(), Duration::from_secs(60)).await;
        assert!(matches!(error, Err(ChildError::Malformed(_))), "{error:?}");
        let error = Program(dir.path().join("none")).ask(&request(), Duration::from_secs(60)).await;
        assert!(matches!(error, Err(ChildError::Start { .. })), "{error:?}");
    }
}
