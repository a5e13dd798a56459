// SPDX-License-Identifier: Apache-2.0
//! `kubectl exec`: a program beside a container's process, as the same user with the same rights, its streams open to the client.
//!
//! As with a real runtime, such a program lives on when the client leaves, with its input closed and nobody who reads its output, and dies
//! with the container. There is no terminal: one that is asked for is refused.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use apiserver::kubelets::{Exec, ExecRequest, KubeletError};
use futures::future::FutureExt as _;
use tokio::process::{Child, Command};
use tokio::sync::oneshot;

use crate::errand::{PATH, spawn_beside};
use crate::node::NetnsNode;
use crate::pod::Planned;
use crate::process::{Exit, ExitWatch};
use crate::slot::Slot;

/// Starts a program in a running container.
///
/// # Errors
/// The container does not run, or the program cannot be started, in the words of kubelet and containerd.
pub async fn start(node: &NetnsNode, slot: &Arc<Slot>, wanted: ExecRequest) -> Result<Exec, KubeletError> {
    if wanted.streams.tty {
        return Err(KubeletError("there are no terminals in this lab: exec without --tty".to_owned()));
    }
    let name = &wanted.of.container;
    let not_found = || KubeletError(format!("unable to upgrade connection: container not found ({name:?})"));
    let shown = slot.shown();
    let (_, pid) = shown.pids.iter().find(|(running, _)| running == name).ok_or_else(not_found)?;
    let (_, ends) = shown.exits.iter().find(|(running, _)| running == name).ok_or_else(not_found)?;
    let planned = slot.plan.containers.iter().find(|planned| planned.name == *name).ok_or_else(not_found)?;
    let command = command(node, slot, planned, *pid, &wanted).map_err(|_| not_found())?;
    let started = spawn_beside(*pid, command, planned.program.rights).await.map_err(|_| not_found())?;
    let mut child = started.map_err(|error| no_program(&wanted.command, &error))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (ended, end) = oneshot::channel();
    let ends = ends.clone();
    tokio::spawn(async move {
        let code = attend(child, ends).await;
        let _the_client_left = ended.send(code);
    });
    Ok(Exec {
        stdin: stdin.map(|pipe| Box::new(pipe) as _),
        stdout: stdout.map(|pipe| Box::new(pipe) as _),
        stderr: stderr.map(|pipe| Box::new(pipe) as _),
        // Without an answer it went down with the runtime.
        exit: end.map(|code| code.unwrap_or(137)).boxed(),
    })
}

fn command(
    node: &NetnsNode,
    slot: &Slot,
    planned: &Planned,
    pid: u32,
    wanted: &ExecRequest,
) -> io::Result<Command> {
    let words = |file: &str| {
        let text = fs::read(format!("/proc/{pid}/{file}"))?;
        let words = text.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        io::Result::Ok(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>())
    };
    let (own, environment) = (words("cmdline")?, words("environ")?);
    let own = own.first().ok_or(io::ErrorKind::NotFound)?;
    let (first, arguments) = wanted.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program(node, slot, own, first));
    command.args(arguments).env_clear().env("PATH", PATH);
    command.envs(environment.iter().filter_map(|variable| variable.split_once('=')));
    let (uid, gid) = (planned.program.uid, planned.program.gid);
    if (uid, gid) != (0, 0) {
        command.uid(uid).gid(gid);
    }
    let piped = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    let streams = wanted.streams;
    command.stdin(piped(streams.stdin)).stdout(piped(streams.stdout)).stderr(piped(streams.stderr));
    Ok(command)
}

/// A program by the names that a pod's `command` knows it by. Others are looked up in the container.
fn program(node: &NetnsNode, slot: &Slot, own: &str, word: &str) -> String {
    let binaries = &node.options.binaries;
    if word.starts_with('/') {
        return word.to_owned();
    }
    if Path::new(own).file_name() == Some(word.as_ref()) {
        return own.to_owned();
    }
    let under_test = binaries.sut.join(word);
    // A root of its own has nothing of the lab's directories.
    match slot.plan.is_rooted() {
        false if word == "workload" => binaries.workload.display().to_string(),
        false if under_test.is_file() => under_test.display().to_string(),
        _ => word.to_owned(),
    }
}

fn no_program(command: &[String], error: &io::Error) -> KubeletError {
    let word = command.first().map(String::as_str).unwrap_or_default();
    let why = match error.kind() {
        io::ErrorKind::NotFound if word.starts_with('/') => format!("stat {word}: no such file or directory"),
        io::ErrorKind::NotFound => "executable file not found in $PATH".to_owned(),
        _ => error.to_string(),
    };
    KubeletError(format!(
        "error executing command in container: failed to exec in container: OCI runtime exec failed: exec failed: unable to start container process: exec: {word:?}: {why}: unknown"
    ))
}

/// Waits for a program's end, or ends it with its container.
async fn attend(mut child: Child, mut ends: ExitWatch) -> i32 {
    tokio::select! {
        status = child.wait() => return status.map_or(137, |status| Exit::of(status).code()),
        // An error means that nobody looks after the container any more.
        _ = ends.wait_for(Option::is_some) => {}
    }
    // Nothing is lost if it has ended meanwhile.
    let _ = child.kill().await;
    child.wait().await.map_or(137, |status| Exit::of(status).code())
}
