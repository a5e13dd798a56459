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
use crate::rootfs::NodeRoot;

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
    /// Starts the first process, in the node's network namespace at `netns` and with the node's root: `/proc/1/root` is how pods may look at its
    /// files.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn start(workload: &Path, netns: &Path, root: NodeRoot) -> Result<Self, Error> {
        let mut command = Command::new(workload);
        command.arg("pause").env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let workload = workload.to_owned();
        netns::inside(netns, move || {
            root.lay_out()?;
            unshare(CloneFlags::CLONE_NEWPID).map_err(|e| Error::system("make a pid namespace")(e.into()))?;
            let first = command.spawn().map_err(Error::file("run", &workload))?;
            // It has a number until somebody waits for it.
            let path = format!("/proc/{}/ns/pid", first.id().unwrap_or_default());
            let namespace = File::open(&path).map_err(Error::file("open", path))?;
            let pids = Self { first, namespace, workload };
            pids.mount_proc(&root.0.join("proc"))?;
            // Its program is the lab's, which the node does not have: it is moved there once it runs.
            root.enter()?;
            Ok(pids)
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
