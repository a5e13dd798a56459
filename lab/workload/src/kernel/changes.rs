// SPDX-License-Identifier: Apache-2.0
//! Counts what a program changes of files. Of writes to one file that follow each other the first two count, which begin and go
//! on: between all further ones nothing is otherwise.

use std::os::fd::OwnedFd;

use nix::libc::{self, user_regs_struct};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Changes so far.
#[derive(Debug)]
pub(super) struct FileChanges {
    program: OwnedFd,
    count: u32,
    /// File of the last write, and the number of writes.
    writing: Option<(File, u32)>,
}

/// Device and inode.
type File = (u64, u64);

enum Change {
    Write(File),
    Other,
}

impl FileChanges {
    /// Changes of the process of this pid.
    pub(super) fn of(program: u32) -> Result<Self, Errno> {
        let pid = i32::try_from(program).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let program = pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self { program, count: 0, writing: None })
    }

    /// Takes in a call that begins; how many changes there are with it, if it is one that counts.
    pub(super) fn begin(&mut self, registers: &user_regs_struct) -> Option<u32> {
        self.writing = match (self.change(registers)?, self.writing.take()) {
            (Change::Write(file), Some((last, times))) if file == last => {
                Some((file, times.saturating_add(1)))
            }
            (Change::Write(file), _) => Some((file, 1)),
            (Change::Other, _) => None,
        };
        if self.writing.as_ref().is_some_and(|(_, times)| *times > 2) {
            return None;
        }
        self.count += 1;
        Some(self.count)
    }

    /// File of a descriptor; `None` if it is no regular file.
    fn file(&self, descriptor: u64) -> Option<File> {
        let descriptor = i32::try_from(descriptor).ok()?;
        let own = pidfd_getfd(&self.program, descriptor, PidfdGetfdFlags::empty()).ok()?;
        let found = fstat(own).ok()?;
        (FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
            .then_some((found.st_dev, found.st_ino))
    }

    fn change(&self, registers: &user_regs_struct) -> Option<Change> {
        let user_regs_struct { rdi, rsi, rdx, .. } = *registers;
        let makes = |flags: u64| flags & u64::from(libc::O_CREAT.cast_unsigned()) != 0;
        match i64::try_from(registers.orig_rax).ok()? {
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_sendfile => {
                self.file(rdi).map(Change::Write)
            }
            libc::SYS_copy_file_range => self.file(rdx).map(Change::Write),
            libc::SYS_open => makes(rsi).then_some(Change::Other),
            libc::SYS_openat => makes(rdx).then_some(Change::Other),
            libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_ftruncate | libc::SYS_fchmod => {
                self.file(rdi).map(|_| Change::Other)
            }
            libc::SYS_chmod
            | libc::SYS_fchmodat
            | libc::SYS_rename
            | libc::SYS_renameat
            | libc::SYS_renameat2
            | libc::SYS_unlink
            | libc::SYS_unlinkat
            | libc::SYS_rmdir
            | libc::SYS_mkdir
            | libc::SYS_mkdirat
            | libc::SYS_link
            | libc::SYS_linkat
            | libc::SYS_symlink
            | libc::SYS_symlinkat => Some(Change::Other),
            _ => None,
        }
    }
}
