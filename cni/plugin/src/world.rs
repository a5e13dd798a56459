// SPDX-License-Identifier: Apache-2.0
//! Everything outside of the process, as one value: what a call reads, writes, asks and changes goes through here, so that a
//! test can put anything in its place.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::agent::Agent;
use crate::clock::Clock;
use crate::http::Api;
use crate::kernel::Kernel;

/// Looks an environment variable up.
pub type Env<'w> = &'w dyn Fn(&str) -> Option<String>;

/// The world of one call.
pub struct World<'w> {
    /// Looks an environment variable up.
    pub env: Env<'w>,
    /// The words behind the program's name. A runtime gives none.
    pub args: &'w dyn Fn() -> Vec<String>,
    /// The network configuration.
    pub stdin: &'w mut dyn Read,
    /// Gets the result or the error, and nothing else.
    pub stdout: &'w mut dyn Write,
    /// Gets log lines and the about text.
    pub stderr: &'w mut dyn Write,
    /// Time.
    pub clock: &'w dyn Clock,
    /// The node agent.
    pub agent: &'w dyn Agent,
    /// The API server.
    pub api: &'w dyn Api,
    /// Network namespaces and what is in them.
    pub kernel: &'w dyn Kernel,
}

/// One of the process' standard streams, unbuffered: a result is one write.
pub struct Standard(pub BorrowedFd<'static>);

impl Read for Standard {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::retry_on_intr(|| rustix::io::read(self.0, &mut *buffer))?)
    }
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::io::write(self.0, bytes) {
            Err(Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
            other => Ok(other?),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
