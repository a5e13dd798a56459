// SPDX-License-Identifier: Apache-2.0
//! This test as a process of its own, for what threads cannot do: enter a user namespace, change users, be killed.

use std::fs::File;
use std::io::{BufRead as _, Write as _};
use std::net::UdpSocket;
use std::process::{Child, ExitCode, Stdio};

use netfilter::Netns;
use netfilter::address::Rtnetlink;
use netfilter::program::program;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::unistd::{Uid, setresuid};
use rig::process::command;

use crate::{crash, owner};

/// Plays a role.
pub(crate) fn play(role: &[String]) -> ExitCode {
    match role.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hold"] => hold(),
        ["program", netns, backend, user] => {
            Netns::open(netns).unwrap().enter_for_good().unwrap();
            let request = owner::request(backend.parse().unwrap(), user.parse().unwrap());
            match program(&mut Rtnetlink::open().unwrap(), request) {
                Ok(done) => println!("{}", done.choice.backend),
                Err(error) => {
                    println!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        ["send", holder, user] => {
            setns(File::open(format!("/proc/{holder}/ns/user")).unwrap(), CloneFlags::CLONE_NEWUSER).unwrap();
            setns(File::open(format!("/proc/{holder}/ns/net")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
            let user = Uid::from_raw(user.parse().unwrap());
            setresuid(user, user, user).unwrap();
            UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", "127.0.0.9:9").unwrap();
        }
        ["victim", backend, what, users] => {
            let request = crash::Goal::read(backend, what).request(users.parse().unwrap());
            let mut rtnetlink = Rtnetlink::open().unwrap();
            ptrace::traceme().unwrap();
            raise(Signal::SIGSTOP).unwrap();
            program(&mut rtnetlink, request).unwrap();
        }
        _ => panic!("no such role: {role:?}"),
    }
    ExitCode::SUCCESS
}

/// Makes a user namespace, and in it a network namespace, and holds both until stdin ends.
fn hold() {
    let mut stdin = std::io::stdin().lock();
    let mut said = String::new();
    unshare(CloneFlags::CLONE_NEWUSER).unwrap();
    println!("map me");
    stdin.read_line(&mut said).unwrap();
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    println!("ready");
    while stdin.read_line(&mut said).unwrap() > 0 {}
}

/// A process that holds a user namespace and a network namespace that it owns.
pub(crate) struct Holder(Child);

impl Holder {
    /// Starts it, with these users and groups in it: lines of `uid_map`.
    pub(crate) fn start(map: &str) -> Self {
        let mut child = command(&["hold"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        let mut hear = |expected: &str| assert_eq!(said.next().unwrap().unwrap(), expected);
        hear("map me");
        let proc = |file: &str| format!("/proc/{}/{file}", child.id());
        std::fs::write(proc("setgroups"), "deny").unwrap();
        std::fs::write(proc("uid_map"), map).unwrap();
        std::fs::write(proc("gid_map"), map).unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "mapped").unwrap();
        hear("ready");
        Self(child)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// The path of its network namespace.
    pub(crate) fn netns(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}
