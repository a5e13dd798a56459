// SPDX-License-Identifier: Apache-2.0
//! The hand: files, programs, processes and packets of the node that it stands on. It needs nothing there but itself, the node's `/proc`
//! (`hostPID`) and privileges. [`cluster::hand`] has the protocol.
//!
//! | part | what it does |
//! |---|---|
//! | [`files`] | reads, changes and locks files |
//! | [`ask`] | asks a socket, as any user |
//! | [`programs`] | runs programs, in any network, with any user and capabilities |
//! | [`place`] | finds and enters the network of a pod |
//! | [`root`] | resolves paths beneath the node's root |
//! | [`traffic`] | sends traffic, reads and compares rules, in any network |
//! | [`kept`] | keeps a connection open |
//! | [`watch`] | follows changes of files |
//! | [`capture`], [`decode`] | follows packets; reads their headers |

pub mod ask;
pub mod capture;
pub mod decode;
pub mod files;
pub mod kept;
pub mod place;
pub mod programs;
pub mod root;
pub mod traffic;
pub mod watch;

use std::collections::BTreeMap;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::hand::{Answer, Done, Order, READY, Refusal, Signal, Work};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{self, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::line;
use root::Root;

/// Orders that go on until they are stopped, by their numbers: until the pipe is closed.
type Following = Arc<Mutex<BTreeMap<u64, PipeWriter>>>;

/// Answers to one order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker(u64);

impl Asker {
    pub(crate) fn say(self, result: Result<Answer, Refusal>) -> io::Result<()> {
        line::announce(&serde_json::to_string(&Done { id: self.0, result })?)
    }
}

/// Carries out the orders on standard input until it ends, on the node whose root directory is `root`.
pub async fn run(root: PathBuf) -> io::Result<()> {
    let root = Root::new(root);
    // Whatever it starts is there, too.
    std::env::set_current_dir("/")?;
    line::announce(READY)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let following = Following::default();
    while let Some(text) = lines.next_line().await? {
        let order: Order = serde_json::from_str(&text)?;
        let stopped = stops(&order, &following)?;
        let (following, root) = (Arc::clone(&following), root.clone());
        tokio::spawn(async move {
            let (id, asker) = (order.id, Asker(order.id));
            let result = beneath(root, order.work, (asker, stopped)).await;
            following.lock().remove(&id);
            // Who asked is gone if this fails, and so is standard input.
            let _gone = asker.say(result.map_err(Refusal::from));
        });
    }
    Ok(())
}

/// Event that stops an order. An order to stop another one takes effect here: before any that follows it.
fn stops(order: &Order, following: &Following) -> io::Result<Option<PipeReader>> {
    let mut following = following.lock();
    match &order.work {
        Work::Stop { order } => drop(following.remove(order)),
        Work::Watch { .. } | Work::Capture { .. } | Work::Keep { .. } | Work::Lock { .. } => {
            let (stopped, stop) = io::pipe()?;
            following.insert(order.id, stop);
            return Ok(Some(stopped));
        }
        _ => {}
    }
    Ok(None)
}

/// Waits until there is something to read; true if it is to stop instead, or as well.
pub(crate) fn stops_before(events: impl AsFd, stopped: Option<&PipeReader>) -> io::Result<bool> {
    let of = |fd| PollFd::new(fd, PollFlags::POLLIN);
    let stopped: Option<BorrowedFd<'_>> = stopped.map(AsFd::as_fd);
    let mut both: Vec<_> = [Some(events.as_fd()), stopped].into_iter().flatten().map(of).collect();
    loop {
        match poll(&mut both, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            polled => {
                polled?;
                return Ok(both.get(1).and_then(PollFd::any).unwrap_or(false));
            }
        }
    }
}

/// Carries out an order with its paths beneath the node's root.
async fn beneath(
    root: Root,
    mut work: Work,
    (asker, stopped): (Asker, Option<PipeReader>),
) -> io::Result<Answer> {
    match work {
        Work::Watch { path, plugins } => {
            watch::follow(watch::Watched { path, plugins, root }, asker, stopped).await
        }
        Work::MakeDirectory { path } => root.make_directory(&path).map(|()| Answer::Done),
        _ => {
            let _held = root.hold(&mut work)?;
            carry_out(work, asker, stopped).await
        }
    }
}

async fn carry_out(work: Work, asker: Asker, stopped: Option<PipeReader>) -> io::Result<Answer> {
    match work {
        Work::Run(run) => programs::run(run).await.map(Answer::Ended),
        Work::Capture { network, packets, ports } => {
            capture::follow(network, capture::Told { left: packets, ports }, asker, stopped).await
        }
        Work::Send { network, traffic, deadline_ms } => {
            traffic::send(network, traffic, Duration::from_millis(deadline_ms))
                .await
                .map_err(io::Error::other)
        }
        Work::Keep { network, traffic, deadline_ms } => {
            kept::follow(network, traffic, Duration::from_millis(deadline_ms), asker, stopped).await
        }
        Work::Stray { network, stray, deadline_ms } => {
            traffic::stray(network, stray, Duration::from_millis(deadline_ms)).await.map_err(io::Error::other)
        }
        Work::Inspect { network } => traffic::inspect(network).await.map_err(io::Error::other),
        Work::Compare { network, wanted } => {
            traffic::compare(network, *wanted).await.map_err(io::Error::other)
        }
        Work::Lock { path } => files::hold(path, asker, stopped).await,
        Work::Ask { path, line, owner } => ask::ask(path, line, owner).await,
        Work::Signal { process, signal } => send(process, signal),
        Work::Stop { .. } => Ok(Answer::Done),
        of_files => files::carry_out(of_files),
    }
}

fn send(process: u32, signal: Signal) -> io::Result<Answer> {
    let process = i32::try_from(process).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let signal = match signal {
        Signal::Kill => signal::SIGKILL,
        Signal::Terminate => signal::SIGTERM,
    };
    kill(Pid::from_raw(process), signal)?;
    Ok(Answer::Done)
}
