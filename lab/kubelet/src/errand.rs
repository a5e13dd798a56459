// SPDX-License-Identifier: Apache-2.0
//! Programs that somebody runs beside a container's process: `kubectl exec`, hooks, containers that run again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use cluster::CniAnswer;
use nix::sched::{CloneFlags, setns, unshare};
use tokio::process::{Child, Command};

use crate::contention;
use crate::error::Error;
use crate::netns;
use crate::process::Program;
use crate::rights::Rights;

/// `PATH` of the node.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a program to its end beside a process: in its network, its files, its environment and among its processes. Without an absolute path in front of the
/// arguments it is the program of that process.
pub(crate) async fn beside(process: u32, words: &[&str], deadline: Duration) -> Result<CniAnswer, Error> {
    let started = Instant::now();
    let of = PathBuf::from(format!("/proc/{process}"));
    let lines = |file: &str| {
        let path = of.join(file);
        let text = fs::read(&path).map_err(Error::file("read", path))?;
        let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        Ok::<_, Error>(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>())
    };
    let (own, environment) = (lines("cmdline")?, lines("environ")?);
    let own = own.first().ok_or_else(|| Error::Missing(format!("program of process {process}")))?;
    let (program, arguments) = match words {
        [program, arguments @ ..] if program.starts_with('/') => (*program, arguments),
        arguments => (own.as_str(), arguments),
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().kill_on_drop(true);
    command.envs(environment.iter().filter_map(|variable| variable.split_once('=')));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let entered = spawn_beside(process, command, Rights::ALL).await?;
    let child = entered.map_err(Error::system("start a program in a container"))?;
    let (output, waited) = tokio::time::timeout(deadline, contention::wait_with_output(child))
        .await
        .map_err(|_| Error::Deadline { what: format!("the end of {program}"), deadline })?
        .map_err(Error::system("wait for a process"))?;
    Ok(CniAnswer::of(&output, started.elapsed(), waited))
}

/// Starts a program beside a process: in its network, its files and among its processes.
pub(crate) async fn spawn_beside(
    process: u32,
    mut command: Command,
    rights: Rights,
) -> Result<io::Result<Child>, Error> {
    let of = PathBuf::from(format!("/proc/{process}/ns"));
    let namespace = |name: &str| {
        let path = of.join(name);
        fs::File::open(&path).map_err(Error::file("open", path))
    };
    let (mounts, processes) = (namespace("mnt")?, namespace("pid")?);
    let spawn = move || {
        let enter = || {
            // A process has what the thread has that starts it, and this thread ends with that.
            unshare(CloneFlags::CLONE_FS)?;
            setns(&mounts, CloneFlags::CLONE_NEWNS)?;
            // Otherwise it has no number, and no /proc/self, in the /proc that it sees.
            setns(&processes, CloneFlags::CLONE_NEWPID)
        };
        enter().map_err(|errno| Error::system("enter a container")(errno.into()))?;
        rights.take_on()?;
        Ok(command.spawn())
    };
    netns::inside(&of.join("net"), spawn).await?
}

/// Runs a program to its end.
pub(crate) async fn finish(
    program: &Program,
    netns: &Path,
    input: &[u8],
    deadline: Duration,
) -> Result<CniAnswer, Error> {
    let started = Instant::now();
    let (output, waited) = program.measure(netns, input, deadline).await?;
    Ok(CniAnswer::of(&output, started.elapsed(), waited))
}
