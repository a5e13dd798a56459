// SPDX-License-Identifier: Apache-2.0
//! Opens a network namespace by path and runs code inside it. What is done there is up to the caller.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FsWord, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// `NSFS_MAGIC`: the file system that every namespace file belongs to.
const NSFS_MAGIC: FsWord = 0x6e73_6673;

/// The calling thread's directory in `/proc`. That of the process is the main thread's; there, it is the cheaper way by two
/// directories.
macro_rules! own_proc {
    ($below:literal) => {
        if $crate::netns::is_main_thread() {
            concat!("/proc/self/", $below)
        } else {
            concat!("/proc/thread-self/", $below)
        }
    };
}
pub(crate) use own_proc;

thread_local! {
    /// Asked for several times in a call of the plugin, and two system calls each time.
    static IS_MAIN: bool = rustix::thread::gettid() == rustix::process::getpid();
}

/// True if the calling thread is the one that its process began with.
pub(crate) fn is_main_thread() -> bool {
    IS_MAIN.with(|is_main| *is_main)
}

/// Failure to open or enter a namespace.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The path cannot be opened.
    #[error("failed to open netns {path:?}: {reason}")]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's reason; part of the text, so no `source`.
        reason: io::Error,
    },
    /// The path leads to something that is not a namespace.
    #[error("failed to open netns {path:?}: not a network namespace (file system magic {magic:#x})")]
    NotANamespace {
        /// The path as given.
        path: PathBuf,
        /// Magic number of the file system that it lies on.
        magic: FsWord,
    },
    /// The namespace cannot be entered; a namespace of another kind ends here, too.
    #[error("failed to enter netns {path:?}: {reason}")]
    Enter {
        /// The path as given.
        path: PathBuf,
        /// The system's reason; part of the text, so no `source`.
        reason: io::Error,
    },
}

/// Identity of a network namespace for as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetnsId {
    /// Device number of the namespace's file.
    pub dev: u64,
    /// Its inode number.
    pub ino: u64,
}

/// An open network namespace. It stays alive at least as long as this value.
#[derive(Debug)]
pub struct Netns {
    file: OwnedFd,
    id: NetnsId,
    path: PathBuf,
}

impl Netns {
    /// Opens the namespace behind `path`: a bind mount, or a link in a process's `ns` directory.
    ///
    /// # Errors
    /// If it cannot be opened or is not a namespace's file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NetnsError> {
        let path = path.as_ref();
        let failed = |errno: Errno| NetnsError::Open { path: path.to_owned(), reason: errno.into() };
        // NONBLOCK: a path that turns out to be a FIFO must not hold the caller for ever.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let magic = rustix::fs::fstatfs(&file).map_err(failed)?.f_type;
        if magic != NSFS_MAGIC {
            return Err(NetnsError::NotANamespace { path: path.to_owned(), magic });
        }
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        Ok(Self { file, id: NetnsId { dev: stat.st_dev, ino: stat.st_ino }, path: path.to_owned() })
    }

    /// The calling thread's namespace.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn current() -> Result<Self, NetnsError> {
        Self::open(own_proc!("ns/net"))
    }

    /// True if this is the calling thread's namespace.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn is_current(&self) -> Result<bool, NetnsError> {
        let path = own_proc!("ns/net");
        let stat = rustix::fs::stat(path)
            .map_err(|errno| NetnsError::Open { path: path.into(), reason: errno.into() })?;
        Ok(self.id == NetnsId { dev: stat.st_dev, ino: stat.st_ino })
    }

    /// Device and inode: equal exactly for two handles of one namespace.
    #[must_use]
    pub fn id(&self) -> NetnsId {
        self.id
    }

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on this thread inside the namespace and returns to the former one, also when `work` panics. Ends the
    /// process if there is no way back: a thread in the wrong namespace would do to the node what was meant for a pod.
    ///
    /// # Errors
    /// If the namespace cannot be entered; `work` did not run then.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> Result<T, NetnsError> {
        let here = Self::current()?;
        self.enter_for_good()?;
        let back = Return(here);
        let result = work();
        drop(back);
        Ok(result)
    }

    /// Enters the namespace without a way back: for a process that ends right afterwards.
    ///
    /// # Errors
    /// If the namespace cannot be entered; the thread is where it was then.
    pub fn enter_for_good(&self) -> Result<(), NetnsError> {
        move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| NetnsError::Enter { path: self.path.clone(), reason: errno.into() })
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The way back out of a namespace.
struct Return(Netns);

impl Drop for Return {
    fn drop(&mut self) {
        if self.0.enter_for_good().is_err() {
            std::process::abort();
        }
    }
}
