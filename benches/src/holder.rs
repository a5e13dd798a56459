// SPDX-License-Identifier: Apache-2.0
//! A process of its own that holds a lock as the legacy tools do, for as long as a value lives; and ways to set up a pod meanwhile.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::fcntl::{Flock, FlockArg};

use crate::contender::SetUp;
use crate::pod::PodNamespace;

/// Default lock of the legacy tools: one file for the whole node.
pub const NODE: &str = "/run/xtables.lock";
/// The argument that makes a bench hold a lock. Its binary must call [`hold`] then.
pub const ARGUMENT: &str = "--hold";

/// Holds a lock until EOF on stdin. Prints a line when it has it.
pub fn hold(file: &Path) -> Result<()> {
    let _lock = lock(file, FlockArg::LockExclusive).with_context(|| format!("lock {}", file.display()))?;
    let mut out = std::io::stdout();
    out.write_all(b"+")?;
    out.flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn lock(file: &Path, how: FlockArg) -> Result<Flock<File>> {
    Flock::lock(File::open(file)?, how).map_err(|(_, errno)| errno.into())
}

/// A process that holds a lock.
struct Holder(Child);

impl Holder {
    fn start(file: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args([ARGUMENT, file])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a process that holds a lock")?;
        let mut said = child.stdout.take().context("no pipe from the process that holds a lock")?;
        let holder = Self(child);
        let mut answer = [0; 1];
        ensure!(said.read(&mut answer)? == 1, "the process that should hold {file} ended");
        Ok(holder)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Its input ends, so it does.
        drop(self.0.stdin.take());
        self.0.wait().ok();
    }
}

/// A lock to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lock {
    Node,
    Pod,
}

/// Set-up of a pod while another process holds a lock.
pub struct Held {
    inner: Box<dyn SetUp>,
    lock: Lock,
}

impl Held {
    /// Wraps another way.
    #[must_use]
    pub fn new(inner: Box<dyn SetUp>, lock: Lock) -> Self {
        Self { inner, lock }
    }
}

impl SetUp for Held {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn set_up(&self, pod: &PodNamespace) -> Result<Duration> {
        let file = match self.lock {
            Lock::Node => NODE.to_owned(),
            Lock::Pod => pod.path(),
        };
        let _holder = Holder::start(&file)?;
        let took = self.inner.set_up(pod);
        let free = lock(Path::new(&file), FlockArg::LockExclusiveNonblock).is_ok();
        ensure!(!free, "nobody held {file}");
        took
    }
}
