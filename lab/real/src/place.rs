// SPDX-License-Identifier: Apache-2.0
//! Namespaces of a node: mounts, network, processes, host name. Its first process (`workload node`) mounts what a node has and reaps; with it
//! everything in there ends.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::Error;

const NAMESPACES: CloneFlags = CloneFlags::CLONE_NEWNS
    .union(CloneFlags::CLONE_NEWNET)
    .union(CloneFlags::CLONE_NEWPID)
    .union(CloneFlags::CLONE_NEWUTS)
    .union(CloneFlags::CLONE_NEWIPC);

/// Directories that are each node's own and outlive its reboot: it sees nothing that the machine has there.
pub const KEPT: [&str; 3] = ["/opt", "/var/lib", "/var/log"];
/// The same, but new with each boot.
const RUN: &str = "/run";

/// Checks that nodes see these paths of the machine.
///
/// # Errors
/// One of them, or what it is a link to, lies below a directory that is each node's own.
pub fn require_seen<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    for path in paths {
        let target = path.canonicalize().unwrap_or_default();
        if let Some(own) = hidden_by(path).or_else(|| hidden_by(&target)) {
            return Err(Error::Hidden { path: path.to_owned(), own });
        }
    }
    Ok(())
}

/// The directory of nodes that hides a path of the machine.
fn hidden_by(path: &Path) -> Option<&'static str> {
    KEPT.into_iter().chain([RUN]).find(|own| path.starts_with(own))
}

/// Deadline of a first process, and of a program that runs to its end, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// First line of the first process.
const READY: &str = "ready node";

/// The namespaces, as long as this lives.
#[derive(Debug)]
pub struct Place {
    name: String,
    pid: u32,
    pidfd: OwnedFd,
    /// It is killed when this is dropped, and all others with it.
    first: Child,
}

impl Place {
    /// Makes them. Files that outlive a reboot are below `files`.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn start(name: &str, workload: &Path, files: &Path) -> Result<Self, Error> {
        fs::create_dir_all(files).map_err(Error::file("make", files))?;
        let mut command = Command::new(workload);
        command.args(["node", "--name", name, "--files"]).arg(files);
        command.args(KEPT.iter().flat_map(|directory| ["--keep", directory]));
        command.env_clear().kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut first = on_a_thread(move || {
            unshare(NAMESPACES | CloneFlags::CLONE_FS)
                .map_err(|errno| Error::System("make namespaces", errno.into()))?;
            command.spawn().map_err(|source| Error::System("start a node's first process", source))
        })
        .await?;
        if let Some(out) = first.stdout.take() {
            let mut lines = BufReader::new(out).lines();
            let line = timeout(DEADLINE, lines.next_line()).await;
            if !matches!(line, Ok(Ok(Some(line))) if line == READY) {
                // It may hang: whatever it has said is enough.
                first.start_kill().map_err(|e| Error::System("end a node's first process", e))?;
                let output =
                    first.wait_with_output().await.map_err(|e| Error::System("wait for a node", e))?;
                return Err(Error::Other(
                    "start a node",
                    String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                ));
            }
        }
        let pid = first.id().unwrap_or_default();
        let open = || Pid::from_raw(i32::try_from(pid).ok()?).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        let pidfd =
            open().transpose().map_err(|errno| Error::System("open a node's process", errno.into()))?;
        let pidfd = pidfd.ok_or_else(|| Error::Other("start a node", "it has ended".to_owned()))?;
        Ok(Self { name: name.to_owned(), pid, pidfd, first })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of its network namespace, for whoever sees this process' `/proc`.
    #[must_use]
    pub fn network(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.pid))
    }

    /// A path of the node, from outside. Links in it are not followed in the node.
    #[must_use]
    pub fn find(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }

    /// Writes a file of the node, and makes its directory.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> Result<(), Error> {
        let at = self.find(path);
        let directory = at.parent().unwrap_or(&at);
        fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
        fs::write(&at, text).map_err(Error::file("write", &at))
    }

    /// Writes a program of the node, which anybody may run.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_program(&self, path: &str, text: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(path, text)?;
        let at = self.find(path);
        fs::set_permissions(&at, Permissions::from_mode(0o755)).map_err(Error::file("set the mode of", &at))
    }

    /// Empties a directory of the node.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn empty(&self, path: &str) -> Result<(), Error> {
        let at = self.find(path);
        let emptied = fs::remove_dir_all(&at).and_then(|()| fs::create_dir(&at));
        emptied.map_err(Error::file("empty", &at))
    }

    /// Ends every process inside, and so the namespaces.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn end(&mut self) -> Result<(), Error> {
        // The first of a pid namespace has ended when all others have.
        self.first.kill().await.map_err(|source| Error::System("end a node's first process", source))
    }

    /// Starts a program inside.
    ///
    /// # Errors
    /// It cannot be run, or entered.
    pub async fn spawn(&self, mut command: Command) -> Result<Child, Error> {
        let pidfd = self.pidfd.try_clone().map_err(|source| Error::System("copy a descriptor", source))?;
        on_a_thread(move || {
            let cannot = |errno: nix::Error| Error::System("enter a node", errno.into());
            unshare(CloneFlags::CLONE_FS).map_err(cannot)?;
            setns(pidfd, NAMESPACES).map_err(cannot)?;
            let path = PathBuf::from(command.as_std().get_program());
            command.spawn().map_err(Error::file("run", &path))
        })
        .await
    }

    /// Runs a program inside to its end, with this on its standard input, if that is piped.
    ///
    /// # Errors
    /// It fails.
    pub async fn run(&self, mut command: Command, input: &str) -> Result<(), Error> {
        command.stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = self.spawn(command).await?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that gives up early says why on its standard error.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let Ok(output) = timeout(DEADLINE, child.wait_with_output()).await else {
            return Err(Error::Other(
                "run a program on a node",
                format!("it does not end within {DEADLINE:?}"),
            ));
        };
        let output = output.map_err(|e| Error::System("wait for a program", e))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Other(
            "run a program on a node",
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ))
    }
}

/// Runs `work` on a thread of its own, within the current runtime's context: the thread ends with what it entered.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (done, result) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::spawn(move || {
        let _context = runtime.enter();
        // Whoever asked may have given up.
        let _ = done.send(work());
    });
    result.await.unwrap_or_else(|_| Err(Error::Other("enter a node", "the thread panicked".to_owned())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_nodes_have_of_their_own_hides_what_the_machine_has_there() {
        let hidden = |path: &str| hidden_by(Path::new(path));
        assert_eq!(hidden("/opt/actions-runner/_work/target/debug/workload"), Some("/opt"));
        assert_eq!(hidden("/var/lib/jenkins/.cache/cnilab/components/runc-1/runc"), Some("/var/lib"));
        assert_eq!(hidden("/run/user/1000/runc"), Some("/run"));
        assert_eq!(["/options/runc", "/var/libs/runc", "/usr/bin/conmon", ""].map(hidden), [None; 4]);
    }

    #[test]
    fn a_link_is_hidden_where_its_target_is_and_the_error_says_by_what() {
        let dir = tempfile::tempdir().unwrap();
        let [link, file] = ["link", "file"].map(|name| dir.path().join(name));
        symlink("/run", &link).unwrap();
        fs::write(&file, "").unwrap();
        require_seen([&*file]).unwrap();
        let error = require_seen([&*file, &*link]).unwrap_err().to_string();
        let path = link.display();
        assert!(
            error.starts_with(&format!("nodes do not see {path}: each has a /run of its own")),
            "{error}"
        );
    }
}
