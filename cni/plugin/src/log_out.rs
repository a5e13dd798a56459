// SPDX-License-Identifier: Apache-2.0
//! Where log lines go when a call ends: the rolling file in the run directory, for what runs without an agent, and the agent's log socket,
//! if there is one. Both are best effort: a call never fails, nor says anything, for want of a log.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use crate::clock::{Clock, Deadline, timespec};
use crate::log::Log;

/// All that handing lines to the agent may take.
pub const SOCKET_LIMIT: Duration = Duration::from_secs(1);

/// The file is set aside when it would grow beyond this.
pub const FILE_LIMIT: u64 = 10 * 1024 * 1024;

/// The file and the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlets {
    /// The rolling file.
    pub file: PathBuf,
    /// The agent's log socket.
    pub socket: PathBuf,
}

/// Hands over everything that `log` holds. The socket gets `limit` for it.
pub fn flush(log: &Log<'_>, outlets: &Outlets, clock: &dyn Clock, limit: Duration) {
    let kept = join(log.kept());
    if !kept.is_empty() {
        let _ = append(&outlets.file, kept.as_bytes());
    }
    let shown: Vec<&str> = log.shown().collect();
    // One look is cheaper than a socket for nothing: most nodes have no log socket unless the agent is new.
    if !shown.is_empty() && rustix::fs::access(&outlets.socket, Access::EXISTS).is_ok() {
        let _ = post(&outlets.socket, &shown, Deadline::after(clock, limit), clock);
    }
}

fn join<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.fold(String::new(), |mut text, line| {
        text.push_str(line);
        text.push('\n');
        text
    })
}

/// One write for all lines: with `O_APPEND` those of plugins that run at the same time do not mix.
fn append(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = open(path)?;
    if file.metadata()?.len() + bytes.len() as u64 > FILE_LIMIT {
        set_aside(path, &file)?;
        file = open(path)?;
    }
    file.write_all(bytes)
}

/// Opens the file, which nearly always exists: to be ready to create it makes the kernel lock the directory.
fn open(path: &Path) -> std::io::Result<File> {
    // Not the standard library's: that asks the kernel once more to close the file on exec.
    let open = |create| {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | create;
        rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR))
    };
    match open(OFlags::empty()) {
        Err(Errno::NOENT) => Ok(open(OFlags::CREATE)?.into()),
        file => Ok(file?.into()),
    }
}

/// Renames the full file, once: whoever comes second finds the lock taken, or another file under the name.
fn set_aside(path: &Path, full: &File) -> std::io::Result<()> {
    if rustix::fs::flock(full, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(());
    }
    if std::fs::metadata(path)?.ino() == full.metadata()?.ino() {
        let mut backup = path.as_os_str().to_owned();
        backup.push(".1");
        std::fs::rename(path, backup)?;
    }
    Ok(())
}

/// `POST /log` with a JSON array of lines. The answer is awaited, because some servers drop the request of a client that has gone, but not
/// read: there is nothing to do about it.
fn post(path: &Path, lines: &[&str], deadline: Deadline, clock: &dyn Clock) -> Result<(), Errno> {
    let body = serde_json::to_string(lines).map_err(|_| Errno::INVAL)?;
    let request = format!(
        "POST /log HTTP/1.1\r\nHost: unix\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let mut rest = request.as_bytes();
    while !rest.is_empty() {
        match rustix::net::send(&socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(Errno::AGAIN) => ready(&socket, PollFlags::OUT, deadline, clock)?,
            Err(other) => return Err(other),
        }
    }
    ready(&socket, PollFlags::IN, deadline, clock)?;
    rustix::net::recv(&socket, &mut [0; 64], RecvFlags::empty()).map(drop)
}

fn ready(socket: &OwnedFd, flags: PollFlags, deadline: Deadline, clock: &dyn Clock) -> Result<(), Errno> {
    let left = timespec(deadline.left(clock));
    match rustix::event::poll(&mut [PollFd::new(socket, flags)], Some(&left))? {
        0 => Err(Errno::TIMEDOUT),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::clock::SystemClock;

    fn outlets(dir: &Path) -> Outlets {
        Outlets { file: dir.join("istio-cni.log"), socket: dir.join("log.sock") }
    }

    fn log_of(words: &[&str], outlets: &Outlets) {
        let (mut stderr, clock) = (Vec::new(), SystemClock::start());
        let mut log = Log::new(&mut stderr, &clock);
        for word in words {
            log.info(word, &[]);
        }
        flush(&log, outlets, &clock, SOCKET_LIMIT);
    }

    #[test]
    fn lines_are_appended_to_a_private_file() {
        let dir = tempfile::tempdir().unwrap();
        let outlets = outlets(dir.path());
        log_of(&["one", "two"], &outlets);
        log_of(&["three"], &outlets);
        let text = std::fs::read_to_string(&outlets.file).unwrap();
        let words: Vec<String> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["msg"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(words, ["one", "two", "three"]);
        assert_eq!(std::fs::metadata(&outlets.file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_full_file_becomes_the_only_backup() {
        let dir = tempfile::tempdir().unwrap();
        let outlets = outlets(dir.path());
        for round in ["first", "second"] {
            std::fs::write(&outlets.file, round).unwrap();
            File::options().write(true).open(&outlets.file).unwrap().set_len(FILE_LIMIT).unwrap();
            log_of(&["after"], &outlets);
            let backup = std::fs::read(dir.path().join("istio-cni.log.1")).unwrap();
            assert_eq!(backup.len() as u64, FILE_LIMIT);
            assert!(backup.starts_with(round.as_bytes()));
            assert_eq!(std::fs::read_to_string(&outlets.file).unwrap().lines().count(), 1);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_another_just_set_aside_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = outlets(dir.path()).file;
        std::fs::write(&path, "old").unwrap();
        let full = open(&path).unwrap();
        std::fs::rename(&path, dir.path().join("istio-cni.log.1")).unwrap();
        std::fs::write(&path, "new").unwrap();
        set_aside(&path, &full).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(std::fs::read_to_string(dir.path().join("istio-cni.log.1")).unwrap(), "old");
    }

    #[test]
    fn the_agent_gets_an_array_of_lines() {
        let dir = tempfile::tempdir().unwrap();
        let outlets = outlets(dir.path());
        let listener = UnixListener::bind(&outlets.socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut text = String::new();
            let mut buffer = [0; 4096];
            while !text.ends_with(']') {
                let got = peer.read(&mut buffer).unwrap();
                text.push_str(std::str::from_utf8(&buffer[..got]).unwrap());
            }
            peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            text
        });
        log_of(&["one", "two"], &outlets);
        let text = server.join().unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /log HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        let lines: Vec<String> = serde_json::from_str(body).unwrap();
        let first: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        assert_eq!((lines.len(), first["msg"].as_str()), (2, Some("one")));
    }

    #[test]
    fn a_silent_log_socket_costs_a_second_at_most() {
        let dir = tempfile::tempdir().unwrap();
        let outlets = outlets(dir.path());
        let _listener = UnixListener::bind(&outlets.socket).unwrap();
        let clock = SystemClock::start();
        log_of(&["one"], &outlets);
        let passed = clock.now();
        assert!(passed >= SOCKET_LIMIT && passed < SOCKET_LIMIT * 3, "{passed:?}");
    }

    #[test]
    fn without_a_run_directory_nothing_happens() {
        log_of(&["one"], &outlets(Path::new("/nonexistent/run")));
    }
}
