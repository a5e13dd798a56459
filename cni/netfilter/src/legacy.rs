// SPDX-License-Identifier: Apache-2.0
//! A hint at rules of the legacy back end, which nf_tables cannot see.
//!
//! The kernel lists the legacy tables that somebody used in a namespace. A table that is listed may be empty (`iptables-legacy -L`
//! is enough to make it), so a hit says "look with iptables-legacy-save", not "there are rules"; no hit says for certain that
//! there are none.

use std::io;

use redirect::ruleset::Family;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};

use crate::netns::own_proc;

/// The legacy tables that exist in the calling thread's namespace for a family. None where the kernel has no legacy back end.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn tables(family: Family) -> io::Result<Vec<String>> {
    // The thread's own: /proc/net follows the main thread.
    let path = match family {
        Family::V4 => own_proc!("net/ip_tables_names"),
        Family::V6 => own_proc!("net/ip6_tables_names"),
    };
    let file = match open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => file,
        // Only listed where the legacy back end is built in or loaded; a missing /proc is another matter.
        Err(Errno::NOENT) => {
            return std::fs::metadata(own_proc!("net")).map(|_| Vec::new());
        }
        Err(errno) => return Err(errno.into()),
    };
    let mut names = Vec::new();
    let mut buffer = [0; 512];
    loop {
        match read(&file, &mut buffer) {
            Ok(0) => break,
            Ok(length) => names.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(String::from_utf8_lossy(&names).lines().map(str::to_owned).collect())
}
