// SPDX-License-Identifier: Apache-2.0
//! The kubelet's probes where the agent is on the node's network: there any process may hold the probes' port, and answer 200. `install-cni probe` runs in
//! the agent's container, asks its agent over a Unix socket, and believes an answer of that alone.
//!
//! The socket has no file, as two agents may share their directories for a while. Its name is that of the container's mount namespace, and whoever took the
//! name first is found out: the kernel says which process answers.

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

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Probe {
    /// Whether the agent runs.
    Healthz,
    /// Whether everything is installed, and what is missing.
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

/// True if the peer runs the program that this process runs, in this container: others have no number here.
fn is_agent(stream: &UnixStream) -> io::Result<bool> {
    let peer = getsockopt(stream, PeerCredentials)?.pid();
    let program = |process: &str| fs::metadata(PathBuf::from("/proc").join(process).join("exe"));
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let own = program("self").map(identity)?;
    Ok(peer > 0 && program(&peer.to_string()).is_ok_and(|found| identity(found) == own))
}

/// Whether the code is 200, and the body.
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
    fn another_program_with_the_name_is_not_believed() {
        let name = format!("istio-cni-probe-stranger-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let script = format!(
            "import socket; s = socket.socket(socket.AF_UNIX); s.bind('\\0{name}'); s.listen(); print('up', flush=True); c, _ = s.accept(); c.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\nready')"
        );
        let python = std::process::Command::new("python3")
            .args(["-c", &script])
            .stdout(std::process::Stdio::piped())
            .spawn();
        // Without python3 nobody plays the stranger.
        let Ok(mut stranger) = python else { return };
        let mut up = [0; 2];
        stranger.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
        let error = ask(&address, Probe::Readyz).unwrap_err();
        assert!(error.to_string().contains("another process"), "{error}");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
