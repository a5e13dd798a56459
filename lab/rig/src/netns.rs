// SPDX-License-Identifier: Apache-2.0
//! Network namespaces of threads.

use std::panic::resume_unwind;
use std::path::Path;

use nix::sched::{CloneFlags, unshare};

use crate::mounts;

/// The network namespace of the calling thread.
pub const OWN: &str = "/proc/thread-self/ns/net";

/// Runs `work` in a fresh network namespace, on a thread of its own.
pub fn fresh<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            enter_fresh();
            work()
        });
        inside.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Moves the calling thread into a fresh network namespace.
pub fn enter_fresh() {
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace takes root or a user namespace");
}

/// Makes a network namespace that lasts as long as its mount at `path`.
pub fn mounted(path: &Path, furnish: impl FnOnce() + Send) {
    std::fs::write(path, "").unwrap();
    fresh(|| {
        mounts::bind(OWN, path);
        furnish();
    });
}
