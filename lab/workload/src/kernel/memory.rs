// SPDX-License-Identifier: Apache-2.0
//! Memory of a traced process that stands still.

use std::ffi::OsString;
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStringExt as _;

use nix::errno::Errno;
use nix::libc::c_long;
use nix::sys::ptrace::{self, AddressType};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// `PATH_MAX`
pub(super) const LONGEST_PATH: usize = 4096;

/// A text that ends with a zero.
pub(super) fn text(pid: Pid, at: u64) -> Option<OsString> {
    let mut text = Vec::new();
    while text.len() < LONGEST_PATH {
        let word = peek(pid, at.checked_add(u64::try_from(text.len()).ok()?)?).ok()?;
        match word.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend(word.get(..end)?);
                return Some(OsString::from_vec(text));
            }
            None => text.extend(word),
        }
    }
    None
}

pub(super) fn read(pid: Pid, at: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    if length == 0 {
        return Some(bytes);
    }
    let remote = RemoteIoVec { base: usize::try_from(at).ok()?, len: length };
    let got = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &[remote]).ok()?;
    (got == length).then_some(bytes)
}

fn address(at: u64) -> Result<AddressType, Errno> {
    usize::try_from(at).map(|at| at as AddressType).map_err(|_| Errno::EFAULT)
}

pub(super) fn peek(pid: Pid, at: u64) -> Result<[u8; size_of::<c_long>()], Errno> {
    Ok(ptrace::read(pid, address(at)?)?.to_ne_bytes())
}

/// Writes one byte; returns the former one.
pub(super) fn poke(pid: Pid, at: u64, byte: u8) -> Result<u8, Errno> {
    let mut word = peek(pid, at)?;
    let old = std::mem::replace(&mut word[0], byte);
    ptrace::write(pid, address(at)?, c_long::from_ne_bytes(word))?;
    Ok(old)
}

pub(super) fn read_word(pid: Pid, at: u64) -> Result<u64, Errno> {
    Ok(u64::from_ne_bytes(peek(pid, at)?))
}

pub(super) fn write_word(pid: Pid, at: u64, word: u64) -> Result<(), Errno> {
    ptrace::write(pid, address(at)?, word.cast_signed())
}

/// A structure of two words; `None` if there is none.
pub(super) fn read_exact(pid: Pid, at: u64) -> Option<[u8; 16]> {
    read(pid, at, 16)?.try_into().ok()
}

/// Writes two words, whatever the protection of their page.
pub(super) fn write_exact(pid: Pid, at: u64, bytes: [u8; 16]) -> Result<(), Errno> {
    let both = u128::from_ne_bytes(bytes).to_le();
    let [low, high] = [both as u64, (both >> 64) as u64];
    write_word(pid, at, low)?;
    write_word(pid, at.saturating_add(8), high)
}
