// SPDX-License-Identifier: Apache-2.0
//! The kubelet's probes where the agent is on the node's network. There any process may hold the probes' port, and answer 200. So the kubelet runs
//! `install-cni probe` in the agent's container, which asks over a Unix socket and believes an answer of the agent alone.
//!
//! The socket is an abstract one (unix(7)): it has no file, because two agents may share their directories for a while. Its name has the inode of the
//! container's mount namespace. Another process may take that name first. `SO_PEERCRED` then names that process, and it is not believed.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

/// Deadline of a question, below that of a kubelet's probe.
const LIMIT: Duration = Duration::from_millis(900);
/// Bound on an answer, in bytes: the kubelet keeps 10 KiB of it.
const LARGEST: u64 = 16 * 1024;

/// Endpoint of the agent, as `install-cni probe` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Probe {
    Healthz,
    Readyz,
}

impl Probe {
    fn path(self) -> &'static str {
        match self {
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
        }
    }
}

/// Asks the agent of this container, and prints its answer.
#[must_use]
pub fn main(probe: Probe) -> ExitCode {
    let (text, code) = match address().and_then(|address| ask(&address, probe)) {
        Ok((true, text)) => (text, ExitCode::SUCCESS),
        Ok((false, text)) => (text, ExitCode::FAILURE),
        Err(error) => (format!("the agent does not answer: {error}\n"), ExitCode::FAILURE),
    };
    let printed = io::stdout().write_all(text.as_bytes());
    if printed.is_ok() { code } else { ExitCode::FAILURE }
}

/// Listens for probes of this container.
///
/// # Errors
/// Somebody else has the name.
pub fn listen() -> io::Result<UnixListener> {
    UnixListener::bind_addr(&address()?)
}

/// Name of the socket. Names are those of a network namespace, in which each container has mounts of its own.
fn address() -> io::Result<SocketAddr> {
    let namespace = fs::metadata("/proc/self/ns/mnt")?.ino();
    SocketAddr::from_abstract_name(format!("istio-cni-probe-{namespace}"))
}

fn ask(address: &SocketAddr, probe: Probe) -> io::Result<(bool, String)> {
    let mut stream = UnixStream::connect_addr(address)?;
    if !is_agent(&stream)? {
        return Err(io::Error::other("another process has the name of its socket"));
    }
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    write!(stream, "GET {} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n", probe.path())?;
    let mut answer = Vec::new();
    stream.take(LARGEST).read_to_end(&mut answer)?;
    read(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::Error::other("its answer is no HTTP"))
}

/// True if the peer is a process of this program. One outside of this container's pid namespace has the number 0.
fn is_agent(stream: &UnixStream) -> io::Result<bool> {
    runs_this_program(getsockopt(stream, PeerCredentials)?.pid())
}

fn runs_this_program(peer: i32) -> io::Result<bool> {
    let program = |process: &str| fs::metadata(PathBuf::from("/proc").join(process).join("exe"));
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let own = program("self").map(identity)?;
    Ok(peer > 0 && program(&peer.to_string()).is_ok_and(|found| identity(found) == own))
}

/// Splits an HTTP/1.1 response: success means 200 alone, as `/readyz` answers 503.
fn read(answer: &str) -> Option<(bool, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.lines().next()?.strip_prefix("HTTP/1.1 ")?.split(' ').next()?;
    Some((code == "200", body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(answer: &'static str) -> (SocketAddr, std::thread::JoinHandle<()>) {
        static NAMES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NAMES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("istio-cni-probe-test-{}-{number}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 256];
            let read = stream.read(&mut head).unwrap();
            assert!(head[..read].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        (address, thread)
    }

    #[test]
    fn the_agents_word_is_told_with_what_is_missing() {
        for (answer, wanted) in [
            ("HTTP/1.1 200 OK\r\na: b\r\n\r\nready\n", Some((true, "ready\n"))),
            (
                "HTTP/1.1 503 Service Unavailable\r\n\r\nnot ready\nconflist: x\n",
                Some((false, "not ready\nconflist: x\n")),
            ),
            ("garbage", None),
        ] {
            let (address, thread) = answering(answer);
            let told = ask(&address, Probe::Readyz).ok();
            assert_eq!(told, wanted.map(|(is_ready, text)| (is_ready, text.to_owned())));
            thread.join().unwrap();
        }
    }

    #[test]
    fn only_a_process_of_this_program_is_believed() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut stranger =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let other = i32::try_from(stranger.id()).unwrap();
        for (peer, is_believed) in [(own, true), (other, false), (0, false)] {
            assert_eq!(runs_this_program(peer).unwrap(), is_believed, "{peer}");
        }
        drop(stranger.stdin.take());
        stranger.wait().unwrap();
    }
}
