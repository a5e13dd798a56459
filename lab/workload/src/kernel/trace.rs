// SPDX-License-Identifier: Apache-2.0
//! Follows a program and its children from system call to system call, and changes those that [`super::lack`] says.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nix::errno::Errno;
use nix::libc::{self, PTRACE_EVENT_EXEC, c_long, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::changes::FileChanges;
use super::hasten::{Hastened, hide_vdso};
use super::journal::Journal;
use super::lack::{Difference, Fate, SystemCall};
use super::memory::{LONGEST_PATH, poke, read, text};

/// Longer than any message of a back end.
const LONGEST_MESSAGE: usize = 8 << 20;
/// `PTRACE_EVENTMSG_SYSCALL_ENTRY`, the message of a stop where a system call begins (Linux 5.3)
const BEGINS: c_long = 1;

/// Runs `program` to its end and returns its exit code: 128 and the signal's number if a signal ended it.
///
/// # Errors
/// It cannot be started or traced.
pub fn run(difference: &Difference, mut program: Command) -> Result<u8> {
    trace_me(&mut program);
    let child = program.spawn().with_context(|| format!("cannot start {:?}", program.get_program()))?;
    let first = Pid::from_raw(i32::try_from(child.id())?);
    let WaitStatus::Stopped(..) = waitpid(first, Some(WaitPidFlag::__WALL))? else {
        bail!("the program ended before it could be traced");
    };
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_EXITKILL
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC;
    ptrace::setoptions(first, options)?;
    if difference.times.is_some() {
        hide_vdso(first).context("cannot hide the vDSO")?;
    }
    ptrace::syscall(first, None)?;
    let changes = difference.kill_at_change.map(|_| FileChanges::of(child.id())).transpose()?;
    let hastened = difference.times.map(Hastened::new);
    let journal =
        difference.journal.as_ref().map(|to| Journal::begin(to, &difference.durable)).transpose()?;
    Tracer { difference, under_way: HashMap::new(), first, since_entering: None, changes, hastened, journal }
        .follow()
}

#[expect(unsafe_code, reason = "a child must ask to be traced between fork and exec")]
fn trace_me(program: &mut Command) {
    // SAFETY: the closure makes one system call and touches nothing that another thread could hold.
    unsafe {
        program.pre_exec(|| ptrace::traceme().map_err(Into::into));
    }
}

/// Action at a call's return.
enum Return {
    /// Restores these bytes of memory.
    PutBack(Vec<(u64, u8)>),
    /// Returns this errno.
    Fail(Errno),
}

struct Tracer<'a> {
    difference: &'a Difference,
    under_way: HashMap<Pid, Return>,
    /// The program itself; the others are its children.
    first: Pid,
    /// Number of system calls since it entered a namespace.
    since_entering: Option<u32>,
    /// Changes, if they are to be counted.
    changes: Option<FileChanges>,
    /// Time, if it passes faster.
    hastened: Option<Hastened>,
    journal: Option<Journal>,
}

impl Tracer<'_> {
    fn follow(mut self) -> Result<u8> {
        let first = self.first;
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL))? {
                WaitStatus::PtraceSyscall(pid) => {
                    // A process that was killed meanwhile is reported next.
                    match self.stopped(pid) {
                        Err(error) if error.downcast_ref() != Some(&Errno::ESRCH) => {
                            return Err(error.context("cannot look at a system call"));
                        }
                        _ => {}
                    }
                    resume(pid, None)?;
                }
                WaitStatus::PtraceEvent(pid, _, PTRACE_EVENT_EXEC) if self.hastened.is_some() => {
                    match hide_vdso(pid) {
                        Ok(()) | Err(Errno::ESRCH) => {}
                        Err(errno) => return Err(errno).context("cannot hide the vDSO"),
                    }
                    resume(pid, None)?;
                }
                // A new child begins with a stop that is no signal to it.
                WaitStatus::PtraceEvent(pid, ..)
                | WaitStatus::Stopped(pid, Signal::SIGSTOP | Signal::SIGTRAP) => {
                    resume(pid, None)?;
                }
                WaitStatus::Stopped(pid, signal) => resume(pid, Some(signal))?,
                WaitStatus::Exited(pid, code) if pid == first => {
                    return Ok(u8::try_from(code).unwrap_or(u8::MAX));
                }
                WaitStatus::Signaled(pid, signal, _) if pid == first => {
                    return Ok(128u8.saturating_add(u8::try_from(signal as i32).unwrap_or(0)));
                }
                _ => {}
            }
        }
    }

    fn stopped(&mut self, pid: Pid) -> Result<()> {
        let mut registers = ptrace::getregs(pid)?;
        if ptrace::getevent(pid)? == BEGINS {
            self.hastened.as_mut().map_or(Ok(()), |time| time.begins(pid, &mut registers))?;
            self.journal.iter_mut().for_each(|journal| journal.begins(pid, &registers));
            Ok(self.begins(pid, registers)?)
        } else {
            self.hastened.as_mut().map_or(Ok(()), |time| time.returns(pid, &mut registers))?;
            self.journal.as_mut().map_or(Ok(()), |journal| journal.returns(pid, &registers))?;
            Ok(self.returns(pid, registers)?)
        }
    }

    fn begins(&mut self, pid: Pid, mut registers: user_regs_struct) -> Result<(), Errno> {
        if (pid == self.first && self.is_last(&registers)) || self.is_last_change(&registers) {
            return nix::sys::signal::kill(self.first, Signal::SIGKILL);
        }
        let Some(carried) = carried(pid, &registers) else { return Ok(()) };
        match self.difference.fate(&carried.call()) {
            Fate::Same => {}
            Fate::Fails(errno) => {
                // No such number: the kernel does nothing.
                registers.orig_rax = u64::MAX;
                ptrace::setregs(pid, registers)?;
                self.under_way.insert(pid, Return::Fail(errno));
            }
            Fate::Changed(edits) => {
                let mut old = Vec::with_capacity(edits.len());
                for (index, byte) in edits {
                    if let Some(address) = carried.address(index) {
                        old.push((address, poke(pid, address, byte)?));
                    }
                }
                self.under_way.insert(pid, Return::PutBack(old));
            }
        }
        Ok(())
    }

    /// Counts a call of the program, and says whether it is to be killed before it.
    fn is_last(&mut self, registers: &user_regs_struct) -> bool {
        let Some(kill_at) = self.difference.kill_at else { return false };
        match &mut self.since_entering {
            Some(count) => *count += 1,
            None if i64::try_from(registers.orig_rax) == Ok(libc::SYS_setns) => self.since_entering = Some(0),
            None => {}
        }
        self.since_entering == Some(kill_at.get())
    }

    /// Counts a change, whichever thread makes it, and says whether the program is to be killed before it.
    fn is_last_change(&mut self, registers: &user_regs_struct) -> bool {
        let Some(fatal) = self.difference.kill_at_change else { return false };
        self.changes.as_mut().and_then(|changes| changes.begin(registers)) == Some(fatal.get())
    }

    fn returns(&mut self, pid: Pid, mut registers: user_regs_struct) -> Result<(), Errno> {
        match self.under_way.remove(&pid) {
            None => Ok(()),
            Some(Return::Fail(errno)) => {
                registers.rax = i64::from(-(errno as i32)).cast_unsigned();
                ptrace::setregs(pid, registers)
            }
            Some(Return::PutBack(bytes)) => {
                bytes.into_iter().rev().try_for_each(|(address, byte)| poke(pid, address, byte).map(drop))
            }
        }
    }
}

fn resume(pid: Pid, signal: Option<Signal>) -> Result<()> {
    match ptrace::syscall(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno).context("cannot let the program go on"),
    }
}

/// Arguments of a call, with the address of each byte.
enum Carried {
    Socket { domain: u64, protocol: u64 },
    Bytes { bytes: Vec<u8>, pieces: Vec<(u64, usize)> },
    Path(PathBuf),
    Option { level: u64, name: u64, value: Vec<u8>, at: u64 },
    Enter,
}

impl Carried {
    fn call(&self) -> SystemCall<'_> {
        match self {
            Self::Socket { domain, protocol } => SystemCall::Socket { domain: *domain, protocol: *protocol },
            Self::Bytes { bytes, .. } => SystemCall::Send(bytes),
            Self::Path(path) => SystemCall::Path(path),
            Self::Option { level, name, value, .. } => {
                SystemCall::SocketOption { level: *level, name: *name, value }
            }
            Self::Enter => SystemCall::Enter,
        }
    }

    /// Address of the byte at `index`.
    fn address(&self, mut index: usize) -> Option<u64> {
        match self {
            Self::Bytes { pieces, .. } => pieces.iter().find_map(|(at, length)| {
                let inside = index < *length;
                let address = at.checked_add(u64::try_from(index).ok()?)?;
                index = index.saturating_sub(*length);
                inside.then_some(address)
            }),
            Self::Option { at, .. } => at.checked_add(u64::try_from(index).ok()?),
            Self::Socket { .. } | Self::Path(_) | Self::Enter => None,
        }
    }
}

/// Arguments of a relevant call; `None` for all others, and for unreadable memory.
fn carried(pid: Pid, registers: &user_regs_struct) -> Option<Carried> {
    let user_regs_struct { rdi, rsi, rdx, r10, .. } = *registers;
    match i64::try_from(registers.orig_rax).ok()? {
        libc::SYS_socket => Some(Carried::Socket { domain: rdi, protocol: rdx }),
        libc::SYS_sendto => sent(pid, vec![(rsi, usize::try_from(rdx).ok()?)]),
        libc::SYS_sendmsg => sent(pid, pieces(pid, rsi)?),
        libc::SYS_open | libc::SYS_access | libc::SYS_stat | libc::SYS_lstat | libc::SYS_execve => {
            path(pid, rdi)
        }
        libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat => path(pid, rsi),
        libc::SYS_connect => unix_path(pid, rsi, rdx),
        libc::SYS_getsockopt => {
            let value = read(pid, r10, 32)?;
            Some(Carried::Option { level: rsi, name: rdx, value, at: r10 })
        }
        libc::SYS_setns => Some(Carried::Enter),
        _ => None,
    }
}

fn sent(pid: Pid, pieces: Vec<(u64, usize)>) -> Option<Carried> {
    let mut bytes = Vec::new();
    for (at, length) in &pieces {
        if bytes.len().checked_add(*length)? > LONGEST_MESSAGE {
            return None;
        }
        bytes.extend(read(pid, *at, *length)?);
    }
    Some(Carried::Bytes { bytes, pieces })
}

/// The pieces of a message: `msg_iov` and `msg_iovlen` of a `struct msghdr`.
fn pieces(pid: Pid, header: u64) -> Option<Vec<(u64, usize)>> {
    let header = read(pid, header, 32)?;
    let word = |bytes: &[u8], at: usize| bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes);
    let (at, count) = (word(&header, 16)?, usize::try_from(word(&header, 24)?).ok()?);
    let list = read(pid, at, count.checked_mul(16).filter(|size| *size <= LONGEST_PATH)?)?;
    list.chunks_exact(16)
        .map(|piece| Some((word(piece, 0)?, usize::try_from(word(piece, 8)?).ok()?)))
        .collect()
}

fn path(pid: Pid, at: u64) -> Option<Carried> {
    text(pid, at).map(|name| Carried::Path(name.into()))
}

/// The path of a `struct sockaddr_un`.
fn unix_path(pid: Pid, at: u64, length: u64) -> Option<Carried> {
    let address = read(pid, at, usize::try_from(length).ok().filter(|length| *length <= 128)?)?;
    let (family, path) = address.split_first_chunk::<2>()?;
    if i32::from(u16::from_ne_bytes(*family)) != libc::AF_UNIX {
        return None;
    }
    let path = path.split(|byte| *byte == 0).next()?;
    Some(Carried::Path(PathBuf::from(OsString::from_vec(path.to_vec()))))
}
