// SPDX-License-Identifier: Apache-2.0
//! Nothing of a run stays, however it ends: not after `kill -9` of the outer process, not after Ctrl-C, and a second run
//! finds the machine as the first one did. Works with and without root; what can run differs, what may stay does not.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use serde_json::Value;

mod built;

use built::binaries;

/// A scenario with two pods, real traffic and real rules.
const FEATURE: &str = "redirection/proxy-exempt.feature";

fn lab(report: &Path, sut: &Path) -> Command {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_cnilab"));
    lab.args(["run", "--feature", FEATURE]).arg("--sut").arg(sut).arg("--report-dir").arg(report);
    lab.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    lab
}

/// A run that has done its work and stands still, with everything that it made.
struct Kept {
    outer: Child,
    /// Held open: a run that cannot print would end for another reason.
    _stdout: BufReader<ChildStdout>,
    first_process: u32,
}

#[expect(clippy::zombie_processes, reason = "whoever gets it waits for it")]
fn kept(report: &Path, sut: &Path) -> Kept {
    let mut outer = lab(report, sut).arg("--keep").spawn().unwrap();
    let mut stdout = BufReader::new(outer.stdout.take().unwrap());
    let mut seen = String::new();
    loop {
        let mut line = String::new();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the run ended before it could be kept: {seen}");
        if let Some(rest) = line.strip_prefix("kept: nsenter -t ") {
            let first_process = rest.split(' ').next().unwrap().parse().unwrap();
            return Kept { outer, _stdout: stdout, first_process };
        }
        seen.push_str(&line);
    }
}

/// Objects of the machine that a run could leave behind.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    links: BTreeSet<String>,
    files: BTreeSet<String>,
    mounts: usize,
}

fn machine() -> Machine {
    let names = |dir: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let ours = |name: &String| name.starts_with("lab") || name.starts_with("cnilab");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    Machine {
        links: names("/sys/class/net").into_iter().filter(ours).collect(),
        files: names("/run").into_iter().filter(ours).collect(),
        mounts: mounts.lines().filter(|line| line.contains("cnilab")).count(),
    }
}

/// The pid namespace of a process, by which everything that runs in a sandbox is found.
fn pid_namespace(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap()
}

/// Zombies do not count: they are nothing but an exit code that nobody has asked for yet.
fn processes_in(namespace: &Path) -> Vec<String> {
    let is_alive = |process: &Path| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read_link(entry.path().join("ns/pid")).is_ok_and(|found| found == namespace))
        .filter(|entry| is_alive(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// The processes that descend from one. Nodes have pid namespaces of their own below the sandbox'.
fn below(ancestor: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let ancestors = |pid: u32| std::iter::successors(parent(pid), |pid| parent(*pid));
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    pids.filter(|pid| ancestors(*pid).any(|one| one == ancestor)).collect()
}

/// A handle of the sandbox' first process. It ends only after everything else in its pid namespace has.
fn watch(pid: u32) -> OwnedFd {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

/// Waits for that end; no clock is needed.
fn until_gone(process: &OwnedFd) {
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)).unwrap();
    assert_eq!(ready, 1, "the sandbox outlived the lab");
}

fn verdict(report: &Path) -> (i32, Value) {
    let text = fs::read_to_string(report.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    (report["exit"].as_i64().unwrap().try_into().unwrap(), report["totals"].clone())
}

#[test]
fn a_killed_run_leaves_nothing_and_the_next_one_works() {
    let sut = binaries();
    let report = tempfile::tempdir().unwrap();
    let before = machine();

    let mut run = kept(report.path(), sut);
    let (namespace, process) = (pid_namespace(run.first_process), watch(run.first_process));
    let own = pid_namespace(std::process::id());
    if geteuid().is_root() {
        assert_ne!(namespace, own, "root gets a pid namespace of its own");
        assert!(below(run.first_process).len() > 2, "pods were left standing: otherwise nothing is proven");
    }
    run.outer.kill().unwrap();
    run.outer.wait().unwrap();
    until_gone(&process);
    if namespace != own {
        assert_eq!(processes_in(&namespace), Vec::<String>::new());
    }
    assert_eq!(machine(), before);

    let second = lab(report.path(), sut).output().unwrap();
    let (exit, totals) = verdict(report.path());
    assert_eq!(second.status.code(), Some(exit));
    if geteuid().is_root() {
        assert_eq!(exit, 0, "{totals} {}", String::from_utf8_lossy(&second.stdout));
    } else {
        assert!(exit == 0 || exit == 4, "{totals}");
    }
    assert_eq!(machine(), before);
}

#[test]
fn an_interrupted_run_says_so_and_leaves_nothing() {
    let sut = binaries();
    let report = tempfile::tempdir().unwrap();
    let before = machine();
    let mut run = kept(report.path(), sut);
    let (namespace, process) = (pid_namespace(run.first_process), watch(run.first_process));
    let own = pid_namespace(std::process::id());
    kill(Pid::from_raw(run.outer.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let status = run.outer.wait().unwrap();
    until_gone(&process);
    // The scenarios had ended when the signal came, so their result stands.
    assert_eq!(status.code(), Some(verdict(report.path()).0));
    if namespace != own {
        assert_eq!(processes_in(&namespace), Vec::<String>::new());
    }
    assert_eq!(machine(), before);
}

/// The first process of the sandbox of a run.
fn inner(outer: &Child) -> Pid {
    let pid = outer.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    Pid::from_raw(children.trim().parse().unwrap())
}

#[test]
fn verdicts_outlive_the_process_that_gave_them() {
    let sut = binaries();
    let report = tempfile::tempdir().unwrap();
    let mut lab = lab(report.path(), sut);
    lab.args(["--jobs", "1"]);
    let mut outer = lab.spawn().unwrap();
    let mut stdout = BufReader::new(outer.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("cnilab "), "{line}");
    if geteuid().is_root() {
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("  pass  "), "{line}");
    }
    kill(inner(&outer), Signal::SIGKILL).unwrap();
    let status = outer.wait().unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let (exit, totals) = verdict(report.path());
    assert_eq!((status.code(), exit), (Some(3), 3), "{rest}");
    assert!(totals["inconclusive"].as_u64().unwrap() > 0, "{totals}");
    assert!(!geteuid().is_root() || totals["pass"].as_u64().unwrap() > 0, "{totals}");
    let text = fs::read_to_string(report.path().join("report.json")).unwrap();
    assert!(text.contains("the lab's process was killed by SIGKILL before its end"), "{text}");
    let junit = fs::read_to_string(report.path().join("junit.xml")).unwrap();
    assert!(junit.contains("<error ") && !junit.contains("errors=\"0\""), "{junit}");
}

#[test]
fn a_run_that_is_interrupted_in_the_middle_reports_what_it_did_not_do() {
    let sut = binaries();
    let report = tempfile::tempdir().unwrap();
    let before = machine();
    let mut lab = lab(report.path(), sut);
    lab.args(["--jobs", "1"]);
    let mut outer = lab.spawn().unwrap();
    let mut stdout = BufReader::new(outer.stdout.take().unwrap());
    let mut header = String::new();
    stdout.read_line(&mut header).unwrap();
    assert!(header.starts_with("cnilab "), "{header}");
    kill(Pid::from_raw(outer.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let status = outer.wait().unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let (exit, totals) = verdict(report.path());
    assert_eq!((status.code(), exit), (Some(130), 130), "{rest}");
    assert!(totals["skipped"].as_u64().unwrap() > 0, "{totals}");
    assert_eq!(machine(), before);
}
