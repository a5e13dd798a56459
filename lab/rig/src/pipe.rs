// SPDX-License-Identifier: Apache-2.0
//! Pipes that nobody reads.

use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc::O_NONBLOCK;

/// A pipe without room, whose writer blocks, and the number of bytes in it.
#[must_use]
pub fn full() -> (PipeReader, PipeWriter, usize) {
    let (reader, writer) = std::io::pipe().unwrap();
    // Opened a second time: the writer itself stays one that blocks.
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut filler = File::options().write(true).custom_flags(O_NONBLOCK).open(path).unwrap();
    let mut held = 0;
    loop {
        match filler.write(&[b'.'; 4096]) {
            Ok(written) => held += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (reader, writer, held),
            Err(error) => panic!("{error}"),
        }
    }
}
