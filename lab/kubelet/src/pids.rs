// SPDX-License-Identifier: Apache-2.0
//! The processes of a node: a pid namespace, so that whoever looks through a node's `/proc` finds that node's pods and no
//! other's. The kernel ends all of them with the first one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::sched::{CloneFlags, setns, unshare};
use tokio::process::{Child, Command};

use crate::error::Error;
use crate::netns;
use crate::rootfs::{self, Mount};

/// Pid namespace of a node, as long as this value lives.
#[derive(Debug)]
pub struct Pids {
    /// It is killed when this is dropped, and all others with it. Nobody waits for its end: the kernel puts that off until whoever started
    /// the others has heard of theirs, and that may be the very thread that drops this.
    #[expect(dead_code, reason = "held for its drop")]
    first: Child,
    namespace: File,
    workload: PathBuf,
}

impl Pids {
    /// Starts the first process, in the node's network namespace at `netns`, which sees the node's files where a node has them: `/proc/1/root`
    /// is how its agent may look at them.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn start(workload: &Path, netns: &Path, shown: &[Mount]) -> Result<Self, Error> {
        let mut command = Command::new(workload);
        command.arg("pause").env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let (workload, shown) = (workload.to_owned(), shown.to_vec());
        netns::inside(netns, move || {
            rootfs::show(&shown)?;
            unshare(CloneFlags::CLONE_NEWPID).map_err(|e| Error::system("make a pid namespace")(e.into()))?;
            let first = command.spawn().map_err(Error::file("run", &workload))?;
            // It has a number until somebody waits for it.
            let path = format!("/proc/{}/ns/pid", first.id().unwrap_or_default());
            let namespace = File::open(&path).map_err(Error::file("open", path))?;
            Ok(Self { first, namespace, workload })
        })
        .await?
    }

    /// Children of this thread start in it from now on.
    pub(crate) fn join(&self) -> Result<(), Error> {
        setns(&self.namespace, CloneFlags::CLONE_NEWPID)
            .map_err(|errno| Error::system("enter a pid namespace")(errno.into()))
    }

    /// Mounts their `/proc`, where this thread sees it. This thread is none of them, what it has started since [`Self::join`] is.
    pub(crate) fn mount_proc(&self, at: &Path) -> Result<(), Error> {
        let mut command = std::process::Command::new(&self.workload);
        command.arg("mount-proc").arg(at).env_clear().stdin(Stdio::null());
        let output = command.output().map_err(Error::file("run", &self.workload))?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Err(Error::Process { program: self.workload.clone(), why })
    }
}
