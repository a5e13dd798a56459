// SPDX-License-Identifier: Apache-2.0
//! Asks the kernel for one table of legacy iptables, by the socket options that `iptables-legacy-save` uses.

#![expect(unsafe_code, reason = "no library knows these socket options")]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};

use redirect::found::FoundChain;
use redirect::ruleset::{Family, Table};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::LegacyError;
use super::layout::{self, INFO_LENGTH, Info};

/// `IPT_SO_GET_INFO`, `IP6T_SO_GET_INFO`
const GET_INFO: c_int = 64;
/// `IPT_SO_GET_ENTRIES`, `IP6T_SO_GET_ENTRIES`
const GET_ENTRIES: c_int = 65;
/// Length of a table's name with its NUL: `XT_TABLE_MAXNAMELEN`.
const NAME: usize = 32;
/// Where the entries begin in `struct ipt_get_entries`: name and size, aligned as counters are.
const HEADER: usize = (NAME + 4).next_multiple_of(align_of::<u64>());
/// Maximum attempts at reading a table while others change its size.
const ATTEMPTS: u32 = 16;
/// More than any table that is in use, and no more memory than a process can have.
const LARGEST: usize = 64 << 20;

/// The chains of a table. Makes it if it is not there.
pub(super) fn chains(family: Family, table: Table) -> Result<Vec<FoundChain>, LegacyError> {
    let name = table.name();
    let failed = |errno| match errno {
        Errno::PERM => LegacyError::Permission { table: name },
        errno => LegacyError::Read { table: name, reason: errno.into() },
    };
    let socket = open(family).map_err(failed)?;
    for _ in 0..ATTEMPTS {
        let info = info(&socket, family, table).map_err(failed)?;
        let info = Info::parse(&info).ok_or(LegacyError::Malformed { table: name })?;
        match entries(&socket, family, (table, info.size)) {
            // The kernel's answer to a size that is no longer right.
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(failed(errno)),
            Ok(bytes) => {
                let entries = bytes.get(HEADER..).unwrap_or_default();
                return layout::chains((family, table), &info, entries)
                    .ok_or(LegacyError::Malformed { table: name });
            }
        }
    }
    Err(failed(Errno::AGAIN))
}

/// True if the kernel has a table. Makes it if it has: only for namespaces that nobody else uses.
pub(crate) fn available(family: Family, table: Table) -> bool {
    open(family).is_ok_and(|socket| info(&socket, family, table).is_ok())
}

/// A socket of the calling thread's namespace; no packet ever leaves through it.
fn open(family: Family) -> Result<OwnedFd, Errno> {
    let family = match family {
        Family::V4 => AddressFamily::INET,
        Family::V6 => AddressFamily::INET6,
    };
    rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// `struct ipt_getinfo`
fn info(socket: &OwnedFd, family: Family, table: Table) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; INFO_LENGTH];
    put(&mut buffer, 0, table.name().as_bytes());
    get(socket, (family, GET_INFO), &mut buffer)?;
    Ok(buffer)
}

/// `struct ipt_get_entries`
fn entries(socket: &OwnedFd, family: Family, (table, size): (Table, u32)) -> Result<Vec<u8>, Errno> {
    let length = usize::try_from(size).map_or(LARGEST, |size| size.min(LARGEST));
    let mut buffer = vec![0; HEADER + length];
    put(&mut buffer, 0, table.name().as_bytes());
    put(&mut buffer, NAME, &size.to_ne_bytes());
    get(socket, (family, GET_ENTRIES), &mut buffer)?;
    Ok(buffer)
}

fn put(buffer: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = buffer.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn get(socket: &OwnedFd, (family, option): (Family, c_int), buffer: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: the C library's own, with the types of its header on every 64-bit Linux.
    unsafe extern "C" {
        fn getsockopt(
            socket: c_int,
            level: c_int,
            option: c_int,
            value: *mut c_void,
            length: *mut u32,
        ) -> c_int;
    }
    /// `IPPROTO_IP`, `IPPROTO_IPV6`
    const LEVELS: [c_int; 2] = [0, 41];
    let level = LEVELS[usize::from(family == Family::V6)];
    let mut length = u32::try_from(buffer.len()).map_err(|_| Errno::NOMEM)?;
    // SAFETY: the buffer is as long as `length` says, and both live until the call returns.
    let result =
        unsafe { getsockopt(socket.as_raw_fd(), level, option, buffer.as_mut_ptr().cast(), &raw mut length) };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
