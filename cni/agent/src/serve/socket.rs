// SPDX-License-Identifier: Apache-2.0
//! A Unix socket's file. It appears under its name at once, listening and with its mode, in place of whatever a dead agent left there.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use tokio::net::UnixListener;

use crate::files::remedy;

/// The socket cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen at {}: {source}{}", path.display(), remedy(source))]
pub struct SocketError {
    path: PathBuf,
    source: io::Error,
}

/// A socket's file. It is removed when this is dropped, unless another one is in its place by then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

/// Listens at `path`. Must be called inside of a tokio runtime.
///
/// # Errors
/// When the file cannot be made.
pub fn open(path: &Path, mode: u32) -> Result<(UnixListener, SocketFile), SocketError> {
    listen(path, mode).map_err(|source| SocketError { path: path.to_owned(), source })
}

fn listen(path: &Path, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // One name for all agents, so that what a killed one left is found.
    let new = path.with_file_name(format!(".{name}.new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    let placed = fs::set_permissions(&new, Permissions::from_mode(mode))
        .and_then(|()| identity(&new))
        .and_then(|id| fs::rename(&new, path).map(|()| id));
    match placed {
        Ok(id) => Ok((listener, SocketFile { path: path.to_owned(), id })),
        Err(error) => {
            let _ = fs::remove_file(&new);
            Err(error)
        }
    }
}

/// Connects to a socket, and waits for nobody.
///
/// # Errors
/// Nobody listens; [`ErrorKind::WouldBlock`] if somebody does whose queue is full.
pub fn connect(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl SocketFile {
    /// True if somebody listens under the name: we, or the agent that comes after us.
    #[must_use]
    pub fn is_served(&self) -> bool {
        match identity(&self.path) {
            Ok(id) if id == self.id => true,
            Ok(_) => match connect(&self.path) {
                Ok(()) => true,
                // Its queue is full, but there is one.
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            },
            Err(_) => false,
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|id| id == self.id) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn nobody_waits_for_a_socket_whose_owner_hangs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        assert_eq!(connect(&path).unwrap_err().kind(), ErrorKind::NotFound);
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        assert_eq!(connect(&path).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        rustix::net::listen(&socket, 0).unwrap();
        // The kernel lets one more into a queue than it is long.
        connect(&path).unwrap();
        assert_eq!(connect(&path).unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(UnixStream::connect(&path).is_err(), "it is stale");
        let (_listener, file) = open(&path, 0o600).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(file.is_served());
        drop(file);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn the_next_agent_s_socket_is_left_alone_as_long_as_it_lives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.sock");
        let (_old_listener, old) = open(&path, 0o600).unwrap();
        let (listener, new) = open(&path, 0o600).unwrap();
        assert!(old.is_served() && new.is_served());
        drop(listener);
        assert!(!old.is_served(), "the next agent died");
        drop(old);
        assert!(path.exists());
        drop(new);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_missing_directory_is_named() {
        let error = open(Path::new("/nonexistent/agent.sock"), 0o600).unwrap_err().to_string();
        assert!(error.starts_with("failed to listen at /nonexistent/agent.sock: "), "{error}");
        assert!(error.ends_with("; see that it exists on the node and is mounted"), "{error}");
    }
}
