// SPDX-License-Identifier: Apache-2.0
//! Packets that go past right rules: those of a guest, and those that a chain of somebody else takes first. Neither is called redirected.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::repair::ask::{PodOutcome, Task};
use netfilter::look;
use redirect::found::FoundRules;
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet};
use redirect::sandbox::Sign;
use redirect::verdict::found_verdict;
use serde_json::{Value, json};

use crate::node::{Node, cart, divert, inside, is_untouched, proven};
use crate::{Case, stranger};

pub(crate) const CASES: &[Case] = &[
    Case("a guest behind an ingress filter is found, and its pod is neither right nor repaired", guest),
    Case("the kernel runs nat chains as the evaluator says, but for one added to an older table", order),
    Case("an inbound port that a later chain takes is told, and no repair is a proof", overtaken),
];

const ADDRESS: &str = "10.9.0.2";

fn ready() -> (Node, PathBuf) {
    let mut node = Node::new();
    let file = node.namespace("cni-1", &["10.9.0.2/24"]);
    node.cached(("cart", "u-1"), &json!({"netns": "/var/run/netns/cni-1"}));
    (node, file)
}

fn guest() {
    let (node, file) = ready();
    let of_class = |class: Option<&str>| {
        let mut pod = cart(&json!({}));
        pod["spec"]["runtimeClassName"] = json!(class);
        pod
    };
    inside(&file, || divert("tap0_kata"));
    for task in [Task::Look, Task::Repair] {
        let outcome = node.ask_about(task, &[ADDRESS], of_class(Some("secure")));
        let PodOutcome::Sandboxed(sandboxed) = &outcome else { panic!("{outcome:?}") };
        assert_eq!(sandboxed.sign, Sign::Diverted("eth0".to_owned(), "tap0_kata".to_owned()));
        let known = node.ask_about(task, &[ADDRESS], of_class(Some("kata-qemu")));
        assert!(matches!(known, PodOutcome::Sandboxed(_)), "{known:?}");
    }
    assert!(is_untouched(&file));
    // The stand-in for the guest's device is no tap: without a class nothing says that a guest is behind it.
    assert_eq!(proven(&node.ask_about(Task::Repair, &[ADDRESS], of_class(None))), ["IPv4"]);
}

/// When the other program writes its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Before,
    After,
    /// The table before, its chain after.
    AfterInOlderTable,
}

/// Packets that the rule of others and the outbound redirection of ours have counted.
fn counted(found: &FoundRules) -> [u64; 2] {
    let of = |chain: &str| {
        let chains = found.tables.iter().flat_map(|table| &table.chains);
        let rules = chains.filter(|held| held.name == chain).flat_map(|held| &held.rules);
        rules.filter_map(|rule| rule.packets).sum()
    };
    [of("takes-out"), of("ISTIO_REDIRECT")]
}

/// Whether the rule of others was met by a connection to port 80, and whether the evaluator says so.
fn outbound(file: &Path) -> [bool; 2] {
    inside(file, || {
        let found = look().unwrap();
        let packet = Packet {
            hook: Hook::Output,
            source: ADDRESS.parse().unwrap(),
            destination: "192.0.2.2".parse().unwrap(),
            layer4: Layer4::Tcp { source: 40000, destination: 80 },
            interface: "eth0".into(),
            uid: Some(0),
            gid: Some(0),
            connection: Connection::New,
            mark: 0,
            connmark: 0,
        };
        let said = found_verdict(&found, &packet).outcome.unwrap();
        assert!([15001, 80].map(|port| Outcome::Redirected { port }).contains(&said), "{said:?}");
        let to: SocketAddr = "192.0.2.2:80".parse().unwrap();
        // Redirected to this host, where nobody listens.
        TcpStream::connect_timeout(&to, Duration::from_secs(5)).unwrap_err();
        let after = counted(&look().unwrap());
        let [theirs, ours] = std::array::from_fn(|at| after[at] - counted(&found)[at]);
        assert_eq!(theirs + ours, 1, "the first chain that decides ends nat");
        [theirs == 1, said == (Outcome::Redirected { port: 80 })]
    })
}

fn order() {
    const SAME: i32 = stranger::DESTINATION_NAT;
    for (written, priority, is_taken, is_foretold) in [
        (Written::Before, SAME, false, false),
        (Written::After, SAME, true, true),
        (Written::Before, SAME - 1, true, true),
        (Written::After, SAME + 1, false, false),
        // No listing says that the chain is younger than ours.
        (Written::AfterInOlderTable, SAME, true, false),
    ] {
        let (node, file) = ready();
        let take = move || stranger::take(stranger::LOCAL_OUT, priority, 80).unwrap();
        match written {
            Written::Before => inside(&file, take),
            Written::AfterInOlderTable => {
                inside(&file, || stranger::take(stranger::PREROUTING, SAME, 9).unwrap());
            }
            Written::After => {}
        }
        let wrote = node.ask(Task::Repair, &[ADDRESS], &json!({}));
        assert!(matches!(wrote, PodOutcome::Proven { .. } | PodOutcome::Unproven { .. }), "{wrote:?}");
        if written != Written::Before {
            inside(&file, take);
        }
        assert_eq!(outbound(&file), [is_taken, is_foretold], "{written:?} {priority}");
    }
}

fn overtaken() {
    let take = || stranger::take(stranger::PREROUTING, stranger::DESTINATION_NAT, 8080).unwrap();
    let (node, file) = ready();
    let none: Value = json!({});
    assert_eq!(proven(&node.ask(Task::Repair, &[ADDRESS], &none)), ["IPv4"]);
    inside(&file, take);
    let outcome = node.ask(Task::Look, &[ADDRESS], &none);
    let PodOutcome::Overtaken(rules) = &outcome else { panic!("{outcome:?}") };
    assert!(
        rules[0].contains("rule 1 of ip stranger takes is somebody else's and takes packets past"),
        "{rules:?}"
    );
    for task in [Task::Verify, Task::Repair] {
        assert_eq!(
            node.ask(task, &[ADDRESS], &none),
            outcome,
            "right rules that are not met are no redirection"
        );
    }
    inside(&file, || stranger::track().unwrap());
    assert_eq!(node.ask(Task::Look, &[ADDRESS], &none), PodOutcome::Right);

    let (node, file) = ready();
    inside(&file, take);
    assert_eq!(proven(&node.ask(Task::Repair, &[ADDRESS], &none)), ["IPv4"]);
    assert_eq!(
        node.ask(Task::Look, &[ADDRESS], &none),
        PodOutcome::Right,
        "written before ours, it comes behind"
    );
}
