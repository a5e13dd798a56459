// SPDX-License-Identifier: Apache-2.0
//! Everything outside of the process, as one value: what a call reads, writes, asks and changes goes through here, so that a
//! test can put anything in its place.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::FileType;
use rustix::io::{Errno, ReadWriteFlags};

use crate::agent::Agent;
use crate::clock::{Clock, timespec};
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

/// Time that all lines of a call together may wait for the reader of stderr.
pub const STDERR_LIMIT: Duration = Duration::from_millis(500);

/// Largest write that a pipe with any room takes whole: `PIPE_BUF`.
const PIPE_BUF: usize = 4096;

/// The current file position, for `pwritev2`.
const HERE: u64 = u64::MAX;

/// Stderr, which a runtime may leave unread: a full pipe then blocks its writer. Lines wait for [`STDERR_LIMIT`] in all. After that stderr
/// counts as closed.
pub struct Stderr<'c> {
    file: BorrowedFd<'c>,
    clock: &'c dyn Clock,
    left: Duration,
}

impl<'c> Stderr<'c> {
    /// The process' own.
    #[must_use]
    pub fn new(clock: &'c dyn Clock) -> Self {
        Self::over(rustix::stdio::stderr(), clock, STDERR_LIMIT)
    }

    fn over(file: BorrowedFd<'c>, clock: &'c dyn Clock, left: Duration) -> Self {
        Self { file, clock, left }
    }

    /// Waits for room.
    fn wait(&mut self) -> io::Result<()> {
        let since = self.clock.now();
        let ready =
            rustix::event::poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&timespec(self.left)));
        self.left = self.left.saturating_sub(self.clock.now().saturating_sub(since));
        match ready {
            Ok(0) => {
                self.left = Duration::ZERO;
                Err(io::ErrorKind::TimedOut.into())
            }
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    /// Regular files never fill up, and may refuse a write that must not wait for a block.
    fn is_regular(&self) -> bool {
        rustix::fs::fstat(self.file)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }
}

impl Write for Stderr<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file;
        let write = |bytes: &[u8]| rustix::io::retry_on_intr(|| rustix::io::write(file, bytes));
        while !self.left.is_zero() {
            match rustix::io::pwritev2(file, &[IoSlice::new(bytes)], HERE, ReadWriteFlags::NOWAIT) {
                Ok(written) => return Ok(written),
                Err(Errno::AGAIN) if self.is_regular() => return Ok(write(bytes)?),
                Err(Errno::AGAIN) => self.wait()?,
                Err(Errno::INTR) => {}
                // Pipes of kernels before 6.4 and terminals do not know the flag. Another writer may take the room between the two calls.
                Err(_) => {
                    self.wait()?;
                    return Ok(write(bytes.get(..PIPE_BUF).unwrap_or(bytes))?);
                }
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::clock::SystemClock;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_waits_for_a_late_reader_is_written_whole() {
        let (mut reader, writer, held) = rig::pipe::full();
        let clock = SystemClock::start();
        let line = vec![b'x'; 10 * PIPE_BUF];
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            all
        });
        Stderr::over(writer.as_fd(), &clock, LONG).write_all(&line).unwrap();
        drop(writer);
        let read = read.join().unwrap();
        assert!(read[held..] == line, "{} of {} bytes", read.len() - held, line.len());
    }

    #[test]
    fn once_nobody_read_in_time_nothing_is_written_any_more() {
        let (mut reader, writer, held) = rig::pipe::full();
        let clock = SystemClock::start();
        let mut stderr = Stderr::over(writer.as_fd(), &clock, Duration::from_millis(20));
        let dropped = stderr.write_all(b"one\n").unwrap_err();
        assert_eq!(dropped.kind(), io::ErrorKind::TimedOut);
        reader.read_exact(&mut vec![0; held]).unwrap();
        let dropped = stderr.write_all(b"two\n").unwrap_err();
        assert_eq!(dropped.kind(), io::ErrorKind::TimedOut);
        drop(writer);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"", "half a line is worse than none");
    }

    #[test]
    fn files_and_readers_that_left_are_as_they_were() {
        let clock = SystemClock::start();
        let mut file = tempfile::tempfile().unwrap();
        Stderr::over(file.as_fd(), &clock, LONG).write_all(b"one\ntwo\n").unwrap();
        let mut text = String::new();
        io::Seek::rewind(&mut file).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let gone = Stderr::over(writer.as_fd(), &clock, LONG).write_all(b"one\n").unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    }
}
