// SPDX-License-Identifier: Apache-2.0
//! A child process that SIGKILL does not end: the first of a pid namespace stays until all others there are reaped.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use agent::repair::ask::Task;
use agent::repair::child::{ChildError, Program};
use nix::sched::{CloneFlags, unshare};

use crate::Case;
use crate::node::Node;

pub(crate) const CASES: &[Case] =
    &[Case("a child process that cannot be killed does not hold up repair", is_left_behind)];

/// A program that says that it runs, and does not end.
fn hangs(dir: &Path) -> Program {
    let path = dir.join("program");
    fs::write(&path, format!("#!/bin/sh\nmkdir {}\nexec sleep 1000\n", dir.join("runs").display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Program(path)
}

fn is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (program, request) = (hangs(dir.path()), Node::new().request(Task::Look, Vec::new()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Only what this thread starts is in the new namespace.
    unshare(CloneFlags::CLONE_NEWPID).unwrap();
    runtime.block_on(async {
        let ask = program.ask(&request, Duration::from_secs(5));
        let second = async {
            let mut look = tokio::time::interval(Duration::from_millis(10));
            while !dir.path().join("runs").exists() {
                look.tick().await;
            }
            Command::new("true").spawn().unwrap()
        };
        let both = async { tokio::join!(ask, second) };
        let (answer, mut second) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
        assert!(matches!(answer, Err(ChildError::Unkillable(_))), "{answer:?}");
        second.wait().unwrap();
    });
}
