// SPDX-License-Identifier: Apache-2.0
//! Follows a program from system call to system call and kills it when it begins the one that it is told.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Paths that the agent changes.
const OURS: [&str; 2] = ["/host/", "/var/run/istio-cni"];

/// End of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Killed at the entry of this system call.
    Killed(&'static str),
    /// It made fewer changes: it ended by itself, or was killed where it was to come to.
    Came,
}

/// Runs `command` until it begins its `fatal`th change, ends, or has come to where `reached` says that it is to come. `before` happens while it waits for each
/// change to begin.
pub(crate) fn killed_at(
    command: &Command,
    fatal: usize,
    reached: &dyn Fn() -> bool,
    before: &dyn Fn(&str),
) -> End {
    let mut child = held(command);
    let first = Pid::from_raw(child.id().try_into().unwrap());
    ptrace::seize(
        first,
        Options::PTRACE_O_TRACESYSGOOD
            | Options::PTRACE_O_EXITKILL
            | Options::PTRACE_O_TRACECLONE
            | Options::PTRACE_O_TRACEEXEC,
    )
    .unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let end = Tracer { first, fatal, changes: 0, under_way: BTreeSet::new() }.follow(reached, before);
    // It is reaped already, of which the library knows nothing.
    child.wait().unwrap_err();
    end
}

/// The program behind one that waits for a line: it is followed from its first call on.
fn held(command: &Command) -> Child {
    let mut own = rig::process::command(&[]);
    own.arg(command.get_program()).args(command.get_args());
    own.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    own.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Role of this executable in a traced process: becomes the program once the tracer writes a line.
pub(crate) fn exec(program: &[String]) -> ! {
    std::io::stdin().read_exact(&mut [0]).unwrap();
    panic!("{}", Command::new(&program[0]).args(&program[1..]).exec());
}

struct Tracer {
    first: Pid,
    fatal: usize,
    changes: usize,
    /// Threads inside a system call.
    under_way: BTreeSet<Pid>,
}

impl Tracer {
    fn follow(mut self, reached: &dyn Fn() -> bool, before: &dyn Fn(&str)) -> End {
        let mut end = End::Came;
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL)).unwrap() {
                WaitStatus::PtraceSyscall(pid) => {
                    if self.under_way.remove(&pid) {
                        if reached() {
                            self.kill();
                        }
                    } else if let Some(call) = begun_change(pid) {
                        before(call);
                        self.changes += 1;
                        if self.changes == self.fatal {
                            end = End::Killed(call);
                            self.kill();
                        }
                        self.under_way.insert(pid);
                    }
                    go_on(pid, None);
                }
                // A new thread begins with a stop that is no signal to it.
                WaitStatus::PtraceEvent(pid, ..) => go_on(pid, None),
                WaitStatus::Stopped(pid, signal) => go_on(pid, Some(signal)),
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) if pid == self.first => {
                    return end;
                }
                _ => {}
            }
        }
    }

    fn kill(&self) {
        kill(self.first, Signal::SIGKILL).unwrap();
    }
}

/// Continues to the next system call.
fn go_on(pid: Pid, signal: Option<Signal>) {
    match ptrace::syscall(pid, signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => panic!("cannot let it go on: {errno}"),
    }
}

/// The name of the call that a thread begins, if it changes a file or makes a change last.
fn begun_change(pid: Pid) -> Option<&'static str> {
    ptrace::syscall_info(pid).ok().filter(|call| call.op == libc::PTRACE_SYSCALL_INFO_ENTRY)?;
    let registers = ptrace::getregs(pid).ok()?;
    let ours = |descriptor: u64| {
        let path = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).unwrap_or_default();
        OURS.iter().any(|ours| path.starts_with(Path::new(ours)))
    };
    let creates = |flags: u64| flags & u64::from(libc::O_CREAT.cast_unsigned()) != 0;
    let (name, counts) = match i64::try_from(registers.orig_rax).ok()? {
        libc::SYS_open => ("open", creates(registers.rsi)),
        libc::SYS_openat => ("open", creates(registers.rdx)),
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_sendfile => {
            ("write", ours(registers.rdi))
        }
        libc::SYS_copy_file_range => ("write", ours(registers.rdx)),
        libc::SYS_fsync | libc::SYS_fdatasync => ("fsync", ours(registers.rdi)),
        libc::SYS_ftruncate => ("truncate", ours(registers.rdi)),
        libc::SYS_chmod | libc::SYS_fchmodat => ("chmod", true),
        libc::SYS_fchmod => ("chmod", ours(registers.rdi)),
        libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => ("rename", true),
        libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => ("unlink", true),
        libc::SYS_link | libc::SYS_linkat | libc::SYS_symlink | libc::SYS_symlinkat => ("link", true),
        libc::SYS_mkdir | libc::SYS_mkdirat => ("mkdir", true),
        _ => return None,
    };
    counts.then_some(name)
}
