// SPDX-License-Identifier: Apache-2.0
//! Runs a program on a kernel that lacks something, or that forbids something. The real kernel cannot be brought into most of these
//! states, so the program's system calls are changed on their way in: a message that asks for what is to be lacking asks for
//! something that no kernel has, and the real kernel gives its real answer. Where that is not possible the call fails with the errno
//! that such a kernel returns.
//!
//! The program and all its children are traced (ptrace). What was changed in their memory is put back when the call returns.
//!
//! | part | what it does |
//! |---|---|
//! | [`lack`] | what can be lacking, and which calls it changes; pure |
//! | [`trace`] | follows the program |
//! | `clock`, `hasten` | time that passes faster; the first is pure |
//! | `journal` | what it does to files, for a loss of power |
//! | `changes` | what it changes of files, so that it can be killed before any of it |

#[cfg(target_arch = "x86_64")]
mod changes;
#[cfg(target_arch = "x86_64")]
pub mod clock;
#[cfg(target_arch = "x86_64")]
mod hasten;
#[cfg(target_arch = "x86_64")]
mod journal;
pub mod lack;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(target_arch = "x86_64")]
pub mod trace;
/// Registers are read and written, and only those of x86_64 are known.
#[cfg(not(target_arch = "x86_64"))]
pub mod trace {
    /// Cannot run anything here.
    pub fn run(_: &super::lack::Difference, _: std::process::Command) -> anyhow::Result<u8> {
        anyhow::bail!("a kernel that lacks something can only be played on x86_64")
    }
}

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use lack::{Difference, Entering, Lack};

/// Arguments of `workload fake-kernel`.
#[derive(Debug, Clone, clap::Args)]
pub struct KernelOptions {
    /// Feature that the kernel lacks.
    #[arg(long, value_name = "WHAT")]
    without: Vec<Lack>,
    /// A path that nobody may open, with all that is below it.
    #[arg(long, value_name = "PATH")]
    deny: Vec<PathBuf>,
    /// Nobody may enter a namespace.
    #[arg(long)]
    no_entering: bool,
    /// Kill the program before this system call: the first is the one after it has entered a namespace.
    #[arg(long, value_name = "N")]
    kill_at: Option<NonZeroU32>,
    /// Kill the program before it changes files for the Nth time.
    #[arg(long, value_name = "N")]
    kill_at_change: Option<NonZeroU32>,
    /// Time passes so many times as fast: clocks and time-outs of the program and its children.
    #[arg(long, value_name = "N")]
    times: Option<NonZeroU32>,
    /// Write down here what the program does to files, a line of JSON each.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Directory whose files the journal is of.
    #[arg(long, value_name = "DIRECTORY")]
    durable: Vec<PathBuf>,
    /// The program with its arguments.
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Runs the program to its end; the exit code is its own.
///
/// # Errors
/// It cannot be started or traced.
pub fn run(options: &KernelOptions) -> anyhow::Result<ExitCode> {
    let difference = Difference {
        without: options.without.clone(),
        deny: options.deny.clone(),
        entering: if options.no_entering { Entering::Forbidden } else { Entering::Allowed },
        kill_at: options.kill_at,
        kill_at_change: options.kill_at_change,
        times: options.times,
        journal: options.journal.clone(),
        durable: options.durable.clone(),
    };
    let (name, arguments) = options.program.split_first().ok_or_else(|| anyhow::anyhow!("no program"))?;
    let mut program = Command::new(name);
    program.args(arguments);
    trace::run(&difference, program).map(ExitCode::from)
}
