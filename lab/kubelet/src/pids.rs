// SPDX-License-Identifier: Apache-2.0
//! The processes of a node: a pid namespace, so that whoever looks through a node's `/proc` finds that node's pods and no
//! other's. The kernel ends all of them with the first one.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, PipeReader};
use std::path::Path;
use std::process::Stdio;

use nix::sched::{CloneFlags, setns, unshare};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use tokio::process::{Child, Command};

use crate::error::Error;
use crate::netns;
use crate::rootfs::NodeRoot;

/// Line of `workload pause`.
const READY: &str = "ready pause";

/// Pid namespace of a node, as long as this value lives.
#[derive(Debug)]
pub struct Pids {
    /// It is killed when this is dropped, and all others with it. Nobody waits for its end: the kernel puts that off until whoever started
    /// the others has heard of theirs, and that may be the very thread that drops this.
    #[expect(dead_code, reason = "held for its drop")]
    first: Child,
    namespace: File,
    /// Mount namespace of the first process, whose `/proc` is theirs.
    mounts: File,
}

impl Pids {
    /// Starts the first process, in the node's network namespace at `netns` and with the node's root: `/proc/1/root` is how pods may look at its
    /// files.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub async fn start(workload: &Path, netns: &Path, root: NodeRoot) -> Result<Self, Error> {
        let mut command = Command::new(workload);
        command.arg("pause").env_clear().stdin(Stdio::null()).kill_on_drop(true);
        let workload = workload.to_owned();
        netns::inside(netns, move || {
            root.lay_out()?;
            unshare(CloneFlags::CLONE_NEWPID).map_err(|e| Error::system("make a pid namespace")(e.into()))?;
            let cannot = || Error::file("run", &workload);
            let (said, out) = io::pipe().map_err(cannot())?;
            command.arg("--proc").arg(root.0.join("proc"));
            command.stdout(out.try_clone().map_err(cannot())?).stderr(out);
            let first = command.spawn().map_err(cannot())?;
            drop(command);
            // It has a number until somebody waits for it.
            let own = format!("/proc/{}/ns", first.id().unwrap_or_default());
            let open = |name| {
                let path = Path::new(&own).join(name);
                File::open(&path).map_err(Error::file("open", path))
            };
            let pids = Self { first, namespace: open("pid")?, mounts: open("mnt")? };
            has_mounted(&workload, said)?;
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

    /// Shows their `/proc` at this place to this thread, and to what it starts.
    pub(crate) fn show_proc(&self, at: &Path) -> Result<(), Error> {
        let own = Path::new("/proc/thread-self/ns/mnt");
        let own = File::open(own).map_err(Error::file("open", own))?;
        let go = |mounts| {
            setns(mounts, CloneFlags::CLONE_NEWNS)
                .map_err(|errno| Error::system("enter a mount namespace")(errno.into()))
        };
        go(&self.mounts)?;
        let copied =
            open_tree(CWD, "/proc", OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC);
        go(&own)?;
        let failed = |errno: Errno| Error::file("mount", at)(errno.into());
        let copied = copied.map_err(failed)?;
        move_mount(copied, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH).map_err(failed)
    }
}

/// Waits for the first process' only line. It mounts the `/proc` of its pid namespace before that, which nobody outside can do.
fn has_mounted(workload: &Path, said: PipeReader) -> Result<(), Error> {
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line).map_err(Error::file("hear", workload))?;
    let why = line.trim_end().to_owned();
    if why == READY { Ok(()) } else { Err(Error::Process { program: workload.to_owned(), why }) }
}
