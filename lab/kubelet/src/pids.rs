// SPDX-License-Identifier: Apache-2.0
//! The processes of a node: a pid namespace, so that whoever looks through a node's `/proc` finds that node's pods and no
//! other's. The kernel ends all of them with the first one.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sched::{CloneFlags, setns, unshare};

use crate::error::Error;
use crate::netns;

/// The processes of a node, as long as this value lives.
#[derive(Debug)]
pub struct Pids {
    first: Child,
    namespace: File,
}

impl Pids {
    /// Starts the first process, in the node's network namespace at `netns`.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn start(workload: &Path, netns: &Path) -> Result<Self, Error> {
        let mut command = Command::new(workload);
        command.arg("pause").env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        netns::inside(netns, move || {
            unshare(CloneFlags::CLONE_NEWPID).map_err(|e| Error::system("make a pid namespace")(e.into()))?;
            let mut first = command.spawn().map_err(Error::system("start a node's first process"))?;
            let path = format!("/proc/{}/ns/pid", first.id());
            match File::open(&path) {
                Ok(namespace) => Ok(Self { first, namespace }),
                Err(error) => {
                    // Both do nothing to one that has ended.
                    let _ = first.kill();
                    let _ = first.wait();
                    Err(Error::file("open", path)(error))
                }
            }
        })
        .await?
    }

    /// What this thread starts from now on is one of them.
    pub(crate) fn join(&self) -> Result<(), Error> {
        setns(&self.namespace, CloneFlags::CLONE_NEWPID)
            .map_err(|errno| Error::system("enter a pid namespace")(errno.into()))
    }
}

impl Drop for Pids {
    fn drop(&mut self) {
        // All others end with it; waiting returns once they are gone.
        let _ = self.first.kill();
        let _ = self.first.wait();
    }
}
