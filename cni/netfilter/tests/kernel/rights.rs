// SPDX-License-Identifier: Apache-2.0
//! What the test may do, and the user namespace that makes it possible without root.

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};

/// What the process may do.
pub(crate) enum Rights {
    /// Everything, with all users.
    Root,
    /// Everything inside a user namespace that has one user.
    OneUser,
    /// Nothing, for this reason.
    None(String),
}

/// Enters a user namespace where needed. Must run before any thread is made.
pub(crate) fn acquire() -> Rights {
    let rights = if geteuid().is_root() { Rights::Root } else { enter() };
    match (&rights, unshare_in_thread()) {
        (Rights::None(_), _) | (_, Ok(())) => rights,
        (_, Err(error)) => Rights::None(format!("needs CAP_SYS_ADMIN for network namespaces: {error}")),
    }
}

fn unshare_in_thread() -> nix::Result<()> {
    std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join().unwrap()
}

fn enter() -> Rights {
    let (uid, gid) = (geteuid(), getegid());
    if let Err(error) = unshare(CloneFlags::CLONE_NEWUSER) {
        return Rights::None(format!("needs root or user namespaces: {error}"));
    }
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {uid} 1")),
        ("/proc/self/gid_map", format!("0 {gid} 1")),
    ];
    for (path, content) in maps {
        if let Err(error) = std::fs::write(path, content) {
            return Rights::None(format!("needs root or user namespaces: {path}: {error}"));
        }
    }
    Rights::OneUser
}
