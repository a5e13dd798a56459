// SPDX-License-Identifier: Apache-2.0
//! Peers outside of the agent's pid namespace, as the node's processes are outside of its container's.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use agent::metrics::Metrics;
use agent::pods::Pods;
use agent::serve::lookup::Lookup;
use agent::serve::{Limits, Share, answer, socket};
use nix::sched::{CloneFlags, unshare};
use rig::process::command;
use tokio_util::sync::CancellationToken;

use crate::Case;

pub(crate) const CASES: &[Case] = &[Case(
    "a process that has its share takes nothing from another, seen from another pid namespace",
    each_has_its_own_share,
)];

/// One connection per process, which may be silent for a while.
pub(crate) fn serve(path: &Path) {
    let share = Share { open: 1, burst: 8.0, rate: 0.0 };
    let limits = Limits { share, read: Duration::from_secs(60), ..Limits::default() };
    let lookup = Lookup::new(Pods::default(), None, Metrics::default());
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let (listener, _file) = socket::open(path, 0o600).unwrap();
        println!("ready");
        answer(listener, lookup, limits, CancellationToken::new()).await;
    });
}

/// The agent's answer; empty if it rejects us.
pub(crate) fn ask(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let question = r#"{"version":1,"kind":"deleted","namespace":"shop","name":"cart"}"#;
    // Whoever is turned away may find the other end closed already.
    let _ = writeln!(stream, "{question}");
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text.trim_end().to_owned()
}

/// Server process, ended on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn served(path: &Path) -> Server {
    let mut command = command(&["serve", path.to_str().unwrap()]);
    command.stdout(Stdio::piped());
    // Only what this thread starts is in the new namespace.
    let start = move || {
        unshare(CloneFlags::CLONE_NEWPID).unwrap();
        command.spawn().unwrap()
    };
    let mut child = std::thread::spawn(start).join().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Server(child)
}

fn each_has_its_own_share() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let _server = served(&path);
    let _held = UnixStream::connect(&path).unwrap();
    let answered = r#"{"version":1,"response":"noted"}"#;
    let other = command(&["ask", path.to_str().unwrap()]).output().unwrap();
    assert_eq!(String::from_utf8(other.stdout).unwrap().trim_end(), answered);
    // Before Linux 6.9 such processes look the same, and none of them is bounded for itself.
    let mine = if tells_apart() { "" } else { answered };
    assert_eq!(ask(&path), mine);
}

fn tells_apart() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(9))
}
