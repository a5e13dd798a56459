// SPDX-License-Identifier: Apache-2.0
//! A pod to set up: a fresh network namespace with addresses of both families. Nothing is mounted or named, so nothing can
//! stay behind: the namespace lives as long as the file that holds it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;

use anyhow::{Result, anyhow};
use nix::sched::CloneFlags;

/// A fresh pod namespace.
#[derive(Debug)]
pub struct PodNamespace {
    file: File,
}

impl PodNamespace {
    /// Makes one: `lo` up, one IPv4 and one IPv6 address.
    pub fn create() -> Result<Self> {
        let file = rig::netns::fresh(|| {
            rig::link::up(&["10.9.0.2", "fd00:9::2"]);
            File::open(rig::netns::OWN)
        });
        Ok(Self { file: file? })
    }

    /// Path that any process can open while this value lives.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `work` on a thread that is inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| -> Result<T> {
                nix::sched::setns(&self.file, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            });
            inside.join().map_err(|_| anyhow!("the namespace's thread panicked"))?
        })
    }
}
