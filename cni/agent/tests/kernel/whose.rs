// SPDX-License-Identifier: Apache-2.0
//! Whose a namespace is.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Stdio};

use agent::repair::ask::{PodOutcome, Task};
use agent::repair::find::NotFound;
use serde_json::json;

use crate::Case;
use crate::node::{Node, inside, is_untouched, proven};

pub(crate) const CASES: &[Case] = &[
    Case("a namespace without a process is found by the runtime's cache", without_a_process),
    Case("an older cache, which names no namespace, is matched by address", older_cache),
    Case("a namespace is found by way of the node's first process", first_process),
    Case("a process of a stranger says nothing about a namespace", stranger),
    Case("of two with one address only the pod's own is written to", one_address),
    Case("what is left of a former pod of the name is left alone", former),
];

fn without_a_process() {
    let mut node = Node::new();
    let file = node.namespace("cni-1", &["10.9.0.2/24"]);
    node.cached(("cart", "u-1"), &json!({"netns": "/var/run/netns/cni-1"}));
    let inode = std::fs::metadata(&file).unwrap().ino();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut there = processes
        .filter(|one| std::fs::metadata(one.path().join("ns/net")).is_ok_and(|about| about.ino() == inode));
    assert!(there.next().is_none());
    assert_eq!(proven(&node.ask(Task::Repair, &["10.9.0.2"], &json!({}))), ["IPv4"]);
}

fn older_cache() {
    let mut node = Node::new();
    node.namespace("cni-1", &["10.9.0.2/24"]);
    node.cached(("cart", "u-1"), &json!({"result": {"ips": [{"address": "10.9.0.2/24"}]}}));
    assert_eq!(proven(&node.ask(Task::Repair, &["10.9.0.2"], &json!({}))), ["IPv4"]);
}

/// Stays until EOF on stdin.
pub(crate) fn linger() {
    println!("here");
    std::io::stdin().lines().for_each(drop);
}

fn first_process() {
    for network in
        [json!({"netns": "/var/run/netns/cni-1"}), json!({"result": {"ips": [{"address": "10.9.0.2/24"}]}})]
    {
        let mut node = Node::seen_by_its_first_process();
        node.namespace("cni-1", &["10.9.0.2/24"]);
        node.cached(("cart", "u-1"), &network);
        assert_eq!(proven(&node.ask(Task::Repair, &["10.9.0.2"], &json!({}))), ["IPv4"], "{network}");
    }
}

/// Process in a namespace, ended on drop.
struct Stranger(Child);

impl Stranger {
    fn enter(file: &Path) -> Self {
        let mut own = rig::process::command(&["linger"]);
        own.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = inside(file, move || own.spawn().unwrap());
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "here\n");
        Self(child)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn stranger() {
    let mut node = Node::new();
    let file = node.namespace("cni-1", &["10.9.0.2/24"]);
    let _stranger = Stranger::enter(&file);
    let outcome = node.ask(Task::Repair, &["10.9.0.2"], &json!({}));
    assert_eq!(outcome, PodOutcome::NotFound(NotFound::Unknown));
    assert!(is_untouched(&file));
    // The cache tells, whatever process came first.
    node.cached(("cart", "u-1"), &json!({"netns": "/var/run/netns/cni-1"}));
    assert_eq!(proven(&node.ask(Task::Repair, &["10.9.0.2"], &json!({}))), ["IPv4"]);
    assert!(!is_untouched(&file));
}

fn one_address() {
    let mut node = Node::new();
    let other = node.namespace("cni-2", &["10.9.0.2/24"]);
    node.namespace("cni-1", &["10.9.0.2/24"]);
    node.cached(("till", "u-2"), &json!({"netns": "/var/run/netns/cni-2"}));
    assert_eq!(
        node.ask(Task::Repair, &["10.9.0.2"], &json!({})),
        PodOutcome::NotFound(NotFound::Unknown),
        "its own is not known"
    );
    node.cached(("cart", "u-1"), &json!({"netns": "/var/run/netns/cni-1"}));
    assert_eq!(proven(&node.ask(Task::Repair, &["10.9.0.2"], &json!({}))), ["IPv4"]);
    assert!(is_untouched(&other));
}

fn former() {
    let mut node = Node::new();
    let file = node.namespace("cni-1", &["10.9.0.2/24"]);
    node.cached(("cart", "u-0"), &json!({"netns": "/var/run/netns/cni-1"}));
    let outcome = node.ask(Task::Repair, &["10.9.0.2"], &json!({}));
    assert_eq!(outcome, PodOutcome::NotFound(NotFound::OtherPod));
    assert!(is_untouched(&file));
}
