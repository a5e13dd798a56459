// SPDX-License-Identifier: Apache-2.0
//! The lock of the legacy tools, which they hold while they change tables: a `flock` on one file of the whole node, unless they are
//! told another. Here it is the network namespace itself: each pod has its own, and whoever names it by another path meets the same.

use rustix::fs::{Stat, major, minor, stat};

use crate::netns::own_proc;

/// The calling process's network namespace, as a file that every process sees.
pub(super) const NAMESPACE: &str = "/proc/self/ns/net";
/// The tools' default lock.
pub(super) const NODE: &str = "/run/xtables.lock";

/// The process that holds the lock of the calling thread's namespace.
pub(super) fn holder() -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let Stat { st_dev, st_ino, .. } = stat(own_proc!("ns/net")).ok()?;
    holder_in(&locks, &format!("{:02x}:{:02x}:{st_ino}", major(st_dev), minor(st_dev)))
}

/// The process that holds a lock on `file` (`major:minor:inode`) according to `/proc/locks`.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        // Those who wait are listed below whom they wait for, with an arrow in front.
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, _, pid, found, ..] if *found == file => pid.parse().ok().filter(|pid| *pid != 0),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 77 00:04:4026532001 0 EOF
2: FLOCK  ADVISORY  WRITE 0 00:04:4026532007 0 EOF
3: FLOCK  ADVISORY  WRITE 4711 00:04:4026532001 0 EOF
3: -> FLOCK  ADVISORY  WRITE 4712 00:04:4026532001 0 EOF
";

    #[test]
    fn the_holder_is_neither_another_kind_nor_one_who_waits() {
        assert_eq!(holder_in(LOCKS, "00:04:4026532001"), Some(4711));
        assert_eq!(holder_in(LOCKS, "00:04:4026532002"), None);
        assert_eq!(holder_in(LOCKS, "00:04:4026532007"), None, "a process of another pid namespace");
        assert_eq!(holder_in("garbage\n1: FLOCK\n", "1"), None);
    }
}
