// SPDX-License-Identifier: Apache-2.0
//! A socket that the hand asks. The kernel tells whom a connection is of by the thread that connects: one takes on the user, and ends.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use cluster::hand::{Answer, Bytes, Network, PROMPT};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::chdir;
use rustix::thread::CapabilitySet;

use super::{place, programs};

/// Asks a socket. A path may lead through the root directory of a process, which another user may not pass: the thread goes to the directory first.
pub(crate) async fn ask(path: PathBuf, line: String, owner: (u32, u32)) -> io::Result<Answer> {
    let work = move || {
        unshare(CloneFlags::CLONE_FS)?;
        chdir(path.parent().unwrap_or(&path))?;
        if owner != (0, 0) {
            programs::take_on(owner, CapabilitySet::DAC_OVERRIDE)?;
        }
        let name = path.file_name().unwrap_or_default();
        Ok(Answer::Content(Bytes(exchange(Path::new(name), &line)?)))
    };
    place::inside(Network::Node, work).await?
}

fn exchange(path: &Path, line: &str) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PROMPT))?;
    // A rejected client may be disconnected before it has sent anything.
    match writeln!(stream, "{line}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(error),
        _ => Ok(answer),
    }
}
