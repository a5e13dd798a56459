// SPDX-License-Identifier: Apache-2.0
//! The built agent, killed at each call that changes a file: what a runtime reads then is a whole network, its plugins are there, and the next start
//! comes to where the first one went. Each case is a process of its own with its own root, mounts and network, which die with it.
//!
//! Without root cases are ignored with the reason; with `CI` set that is a failure.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod node;
mod owner;
mod trace;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use nix::sched::CloneFlags;
use node::{Node, Primary, Volume};
use rig::rights;
use trace::End;

/// Upper bound of an agent's changes: it never ends by itself.
const MOST: usize = 200;

/// A case: sentence and function.
struct Case(&'static str, fn(&Node));

const CASES: &[Case] = &[
    Case("a_kill_at_any_change_of_an_installation_leaves_a_network_and_the_next_start_installs", install),
    Case(
        "a_kill_at_any_change_of_an_installation_beside_a_conf_leaves_a_network_and_the_next_start_installs",
        beside,
    ),
    Case(
        "a_kill_at_any_change_of_an_installation_loses_nothing_that_the_owner_of_the_list_writes_meanwhile",
        meanwhile,
    ),
    Case("a_kill_at_any_change_of_an_uninstallation_leaves_a_network_and_the_next_one_cleans", uninstall),
    Case("what_a_killed_uninstallation_left_is_installed_again", install_again),
    Case("an_agent_whose_directory_was_deleted_on_the_node_ends_and_the_next_one_installs", deleted),
    Case("an_agent_whose_directory_was_moved_on_the_node_ends_and_the_next_one_installs", moved),
];

fn main() -> ExitCode {
    if let Some(program) = rig::process::role() {
        trace::exec(&program);
    }
    if let Some((name, dir)) = rig::process::own_test() {
        let Case(_, work) = CASES.iter().find(|case| case.0 == name).unwrap();
        work(&Node::enter(&dir));
        return ExitCode::SUCCESS;
    }
    let unmet = rights::acquire(CloneFlags::CLONE_NEWNS).unmet_users();
    rig::run(CASES.iter().map(|&Case(name, _)| rig::process::test(name, unmet.clone())))
}

/// Process to be killed at each system call.
struct Victim<'a> {
    node: &'a Node,
    /// Prepares the node.
    prepare: &'a dyn Fn(&Node),
    command: fn() -> Command,
    /// True when an endless victim has reached its goal.
    came: &'a dyn Fn() -> bool,
    /// System calls that it must make: without them the tracer is blind.
    makes: &'a [&'a str],
    /// Somebody else, before each of its changes.
    beside: &'a dyn Fn(&str),
}

impl Victim<'_> {
    /// Kills it at its first change, at its second, and so on, until it comes to its end.
    fn at_each_change(&self, after: impl Fn(&str)) {
        let mut calls = BTreeSet::new();
        for fatal in 1..=MOST {
            self.node.clear();
            (self.prepare)(self.node);
            match trace::killed_at(&(self.command)(), fatal, self.came, self.beside) {
                End::Killed(call) => {
                    calls.insert(call);
                    let what = format!("killed at change {fatal}, {call}");
                    self.node.check(&what);
                    after(&what);
                }
                End::Came => {
                    let seen = self.makes.iter().all(|call| calls.contains(call));
                    return assert!(seen, "not all of its changes are seen: {calls:?}");
                }
            }
        }
        panic!("it makes {MOST} changes and does not come to its end");
    }
}

fn install(node: &Node) {
    let prepare = |node: &Node| node.primary(Primary::List);
    installed_at_last(node, &prepare, &["open", "write", "chmod", "fsync", "rename"]);
}

fn beside(node: &Node) {
    let prepare = |node: &Node| node.primary(Primary::Single);
    installed_at_last(node, &prepare, &["open", "write", "chmod", "fsync", "rename"]);
}

fn installed_at_last(node: &Node, prepare: &dyn Fn(&Node), makes: &[&str]) {
    let came = || node.installed().is_ok();
    let victim = Victim { node, prepare, command: node::agent, came: &came, makes, beside: &|_| {} };
    victim.at_each_change(|what| node.start_until_installed(what));
}

/// The owner writes the list when the agent is about to put its own in the place, and once more when it is about to give that back.
fn meanwhile(node: &Node) {
    let written = Cell::new(0);
    let prepare = |node: &Node| {
        written.set(0);
        node.primary(Primary::List);
    };
    let beside = |call: &str| {
        if call == "rename" && written.get() < 2 && owner::is_about_to_be_replaced() {
            written.set(written.get() + 1);
            owner::writes(written.get());
        }
    };
    let came = || written.get() == 2 && node.installed().is_ok();
    let makes = &["open", "write", "chmod", "fsync", "rename", "unlink"];
    let victim =
        Victim { node, prepare: &prepare, command: node::agent, came: &came, makes, beside: &beside };
    victim.at_each_change(|what| {
        node.start_until_installed(what);
        assert_eq!(owner::version(), written.get(), "{what}: what the owner wrote is lost");
    });
    assert_eq!((owner::version(), written.get()), (2, 2), "what the owner wrote is lost");
}

fn uninstall(node: &Node) {
    purged(node, |what| {
        let ended = node::purge().output().unwrap();
        assert!(ended.status.success(), "{what}: {}", String::from_utf8_lossy(&ended.stdout));
        node.cleaned().unwrap_or_else(|why| panic!("{what}, and purged again: {why}"));
    });
}

fn install_again(node: &Node) {
    purged(node, |what| node.start_until_installed(what));
}

fn deleted(node: &Node) {
    orphaned(node, Volume::delete);
}

fn moved(node: &Node) {
    orphaned(node, Volume::move_away);
}

fn orphaned(node: &Node, lose: impl Fn(&Volume)) {
    node.clear();
    let volume = node.mount_net_dir();
    node.primary(Primary::List);
    let mut agent = node.installed_by("at first");
    lose(&volume);
    let ended = node::ends(&mut agent);
    assert!(!ended.success(), "kubelet would think that all is well");
    let _again = volume.make_again();
    node.primary(Primary::List);
    node.start_until_installed("the directory was made again");
}

fn purged(node: &Node, after: impl Fn(&str)) {
    let makes = &["open", "write", "chmod", "fsync", "rename", "unlink"];
    let victim = Victim {
        node,
        prepare: &Node::install,
        command: node::purge,
        came: &|| false,
        makes,
        beside: &|_| {},
    };
    victim.at_each_change(after);
}
