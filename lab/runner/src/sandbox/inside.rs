// SPDX-License-Identifier: Apache-2.0
//! The first process of the sandbox: arranges to die with its parent, gets its orders, gives the namespaces a `/proc` and
//! a `/run` of their own, starts the runtime and does its task.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, bail};
use nix::mount::{MsFlags, mount};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};

use crate::exit::Exit;
use crate::plan::{Orders, Place, Privilege, Task};

/// Has the task of the orders from standard input done.
pub fn main<D: Future<Output = anyhow::Result<Exit>>>(
    perform: impl FnOnce(Task, Place) -> D,
) -> anyhow::Result<Exit> {
    let Orders { task, mut place } = orders()?;
    // Blocked in the outer process, which reads them elsewhere, and inherited from it.
    SigSet::all().thread_unblock().context("cannot unblock signals")?;
    if place.is_sandbox()
        && let Err(error) = furnish()
    {
        place.privilege = Privilege::Denied { reason: format!("{error:#}") };
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")?;
    let exit = runtime.block_on(perform(task, place));
    // Whatever a scenario left on a blocking thread ends with this process.
    runtime.shutdown_background();
    exit
}

/// Only a process that the kernel will kill with its parent says hello, and only then does it get orders: whatever moment
/// the parent dies at, nothing is left behind.
fn orders() -> anyhow::Result<Orders> {
    prctl::set_pdeathsig(Signal::SIGKILL).context("cannot tie this process to its parent")?;
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    socket.write_all(b"!").context("`inside` is for `cnilab run` to call")?;
    let mut text = Vec::new();
    socket.read_to_end(&mut text)?;
    if text.is_empty() {
        bail!("the parent ended before it gave orders");
    }
    serde_json::from_slice(&text).context("cannot read the orders")
}

/// Mounts of the namespaces. None of it is visible outside.
fn furnish() -> anyhow::Result<()> {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .context("cannot make mounts private")?;
    let hidden = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), hidden, none).context("cannot mount /proc")?;
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("cnilab"), "/run", Some("tmpfs"), plain, Some("mode=0755")).context("cannot mount /run")?;
    Ok(())
}
