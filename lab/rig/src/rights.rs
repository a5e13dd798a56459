// SPDX-License-Identifier: Apache-2.0
//! Namespaces of the whole process, and with them the right to make more.

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

use crate::mounts;

/// Rights of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rights {
    /// Everything, with all users.
    Root,
    /// Everything, in a user namespace that has one user.
    OneUser,
    /// Nothing, for this reason.
    None(String),
}

impl Rights {
    /// Unmet prerequisite of a test that makes namespaces.
    #[must_use]
    pub fn unmet(&self) -> Option<String> {
        match self {
            Self::None(reason) => Some(reason.clone()),
            Self::Root | Self::OneUser => None,
        }
    }

    /// Unmet prerequisite of a test that needs several users.
    #[must_use]
    pub fn unmet_users(&self) -> Option<String> {
        let one = || (*self == Self::OneUser).then(|| "needs root: there is only one user".to_owned());
        self.unmet().or_else(one)
    }
}

/// Enters these namespaces; without root a user namespace as well, which takes a process with one thread. New mounts are private.
#[must_use]
pub fn acquire(namespaces: CloneFlags) -> Rights {
    let (uid, gid) = (geteuid(), getegid());
    let users = if uid.is_root() { CloneFlags::empty() } else { CloneFlags::CLONE_NEWUSER };
    if let Err(errno) = unshare(namespaces | users) {
        return Rights::None(format!("needs root or user namespaces: {errno}"));
    }
    let map = |file: &str, content: String| std::fs::write(format!("/proc/self/{file}"), content);
    let mapped = || {
        map("setgroups", "deny".to_owned())?;
        map("uid_map", format!("0 {uid} 1"))?;
        map("gid_map", format!("0 {gid} 1"))
    };
    let rights = if uid.is_root() {
        Rights::Root
    } else if let Err(error) = mapped() {
        return Rights::None(format!("needs root or user namespaces: {error}"));
    } else {
        Rights::OneUser
    };
    if namespaces.contains(CloneFlags::CLONE_NEWNS) {
        mounts::make_private();
    }
    rights
}
