// SPDX-License-Identifier: Apache-2.0
//! Costs of a process besides time: its system calls, in order, its page faults and its peak resident memory. Taken with ptrace, so no tool
//! has to be installed. A shell waits for a line, is seized, and then becomes the process under test: so that counting starts with the first
//! system call after `execve`.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Costs of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Numbers of the system calls, in order, without the `execve` that started it.
    pub calls: Vec<i64>,
    /// Page faults, without those of the `execve` that started it.
    pub faults: u64,
    /// Peak resident set, KiB (`VmHWM` when it exits).
    pub peak_kib: u64,
    /// Exit code.
    pub exit: i32,
}

/// Runs `binary arguments…` once with nothing but `env` as its environment, `input` on stdin, and measures it.
pub fn measure(binary: &str, arguments: &[&str], env: &[(String, String)], input: &[u8]) -> Result<Cost> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", r#"read -r go; exec "$@""#, "sh", binary])
        .args(arguments)
        .env_clear()
        .envs(env.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("start /bin/sh")?;
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    let options = Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACEEXIT
        | Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options).context("ptrace the process under test")?;
    let mut stdin = child.stdin.take().context("no pipe to the process under test")?;
    stdin.write_all(b"\n")?;
    // Small enough for the pipe's buffer: a write to a stopped reader would never end.
    ensure!(input.len() < 60_000, "input of {} bytes does not fit a pipe", input.len());
    stdin.write_all(input)?;
    drop(stdin);
    let cost = follow(pid, &fs::canonicalize(binary)?);
    child.wait().ok();
    cost
}

fn follow(pid: Pid, binary: &Path) -> Result<Cost> {
    let mut cost = Cost::default();
    let mut started = false;
    let mut inside = false;
    let mut before = 0;
    loop {
        let status = waitpid(pid, Some(WaitPidFlag::__WALL))?;
        match status {
            WaitStatus::PtraceEvent(_, _, event) if event == ptrace::Event::PTRACE_EVENT_EXEC as i32 => {
                // The shell's own execve may still be under way when it is seized.
                started = fs::read_link(format!("/proc/{pid}/exe"))? == binary;
                inside = started; // the stop that follows is the end of this execve
                before = faults(pid)?;
                resume(pid, started, None)?;
            }
            WaitStatus::PtraceEvent(_, _, event) if event == ptrace::Event::PTRACE_EVENT_EXIT as i32 => {
                cost.peak_kib = peak_kib(pid)?;
                cost.faults = faults(pid)?.saturating_sub(before);
                ptrace::cont(pid, None)?;
            }
            WaitStatus::PtraceSyscall(_) => {
                if started && !inside {
                    cost.calls.push(i64::try_from(ptrace::getregs(pid)?.orig_rax)?);
                }
                inside = started && !inside;
                ptrace::syscall(pid, None)?;
            }
            WaitStatus::PtraceEvent(..) => resume(pid, started, None)?,
            WaitStatus::Stopped(_, signal) => resume(pid, started, Some(signal))?,
            WaitStatus::Exited(_, code) => {
                cost.exit = code;
                return if started { Ok(cost) } else { Err(anyhow!("the process under test never started")) };
            }
            other => bail!("the process under test ended strangely: {other:?}"),
        }
    }
}

fn resume(pid: Pid, started: bool, signal: Option<Signal>) -> Result<()> {
    if started {
        ptrace::syscall(pid, signal)?
    } else {
        ptrace::cont(pid, signal)?
    }
    Ok(())
}

fn peak_kib(pid: Pid) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").trim().parse()?)
}

/// Minor faults so far: field 10 of `proc_pid_stat(5)`, the eighth behind the name, which may hold anything but ends with `)`.
fn faults(pid: Pid) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    Ok(fields.split_whitespace().nth(7).context("no minor faults in stat")?.parse()?)
}

/// The name of a system call that the floor makes; the rest need none here.
#[must_use]
pub fn name(number: i64) -> &'static str {
    match number {
        2 => "open",
        41 => "socket",
        44 => "sendto",
        45 => "recvfrom",
        60 => "exit",
        308 => "setns",
        _ => "another",
    }
}
