// SPDX-License-Identifier: Apache-2.0
//! The hand: runs programs on the node that it stands on, in the network namespaces of its pods. It needs nothing there but itself, the
//! node's `/proc` (`hostPID`) and privileges.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::CniAnswer;
use cluster::hand::{Done, Network, Order, READY};
use nix::ifaddrs::getifaddrs;
use nix::sched::{CloneFlags, setns};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::line;

/// This very program, whatever the file system around it.
const SELF: &str = "/proc/self/exe";

/// Carries out the orders on standard input until it ends.
pub async fn run() -> io::Result<()> {
    line::announce(READY)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(text) = lines.next_line().await? {
        let order: Order = serde_json::from_str(&text)?;
        tokio::spawn(async move {
            let (id, result) = (order.id, carry_out(order).await.map_err(|error| error.to_string()));
            // Who asked is gone if this fails, and so is standard input.
            let _gone = line::announce(&serde_json::to_string(&Done { id, result })?);
            Ok::<_, io::Error>(())
        });
    }
    Ok(())
}

async fn carry_out(order: Order) -> io::Result<CniAnswer> {
    let started = Instant::now();
    let deadline = Duration::from_millis(order.deadline_ms);
    let (program, input) = (order.words.join(" "), order.stdin.clone());
    let mut child = start(order).await?;
    let stdin = child.stdin.take();
    let exchange = async {
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that gives up early says why on its standard error.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        tokio::join!(write, child.wait_with_output()).1
    };
    let late =
        |_| io::Error::new(io::ErrorKind::TimedOut, format!("{program} did not end within {deadline:?}"));
    let output = tokio::time::timeout(deadline, exchange).await.map_err(late)??;
    Ok(CniAnswer {
        exit: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: started.elapsed(),
    })
}

/// Starts a program on a thread of its own, which ends in the namespace that it has entered.
async fn start(order: Order) -> io::Result<Child> {
    let (send, receive) = oneshot::channel();
    let runtime = Handle::current();
    std::thread::Builder::new().name("hand".to_owned()).spawn(move || {
        let _context = runtime.enter();
        let _nobody_waits = send.send(enter(order.network).and_then(|()| spawn(&order)));
    })?;
    receive.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?
}

fn spawn(order: &Order) -> io::Result<Child> {
    let (program, arguments) = order.words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(if program == "workload" { SELF } else { program });
    command.args(arguments).current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if order.owner != (0, 0) {
        command.uid(order.owner.0).gid(order.owner.1);
    }
    command.spawn()
}

/// Enters a network namespace with this thread. A pod's is the one of some process that has the pod's address: every runtime is alike in
/// that.
fn enter(network: Network) -> io::Result<()> {
    let Network::Pod(address) = network else { return Ok(()) };
    let mut seen = BTreeSet::new();
    for process in fs::read_dir("/proc")?.flatten() {
        // Others end while we look.
        let Ok(namespace) = File::open(process.path().join("ns/net")) else { continue };
        if !seen.insert(namespace.metadata()?.ino()) || setns(&namespace, CloneFlags::CLONE_NEWNET).is_err() {
            continue;
        }
        if has(address)? {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no process of this node has the address {address}")))
}

/// True if the namespace of this thread has the address.
fn has(address: IpAddr) -> io::Result<bool> {
    Ok(getifaddrs()?.filter_map(|interface| interface.address).any(|one| {
        let v4 = one.as_sockaddr_in().map(|socket| IpAddr::from(socket.ip()));
        let v6 = || one.as_sockaddr_in6().map(|socket| IpAddr::from(socket.ip()));
        v4.or_else(v6) == Some(address)
    }))
}
