// SPDX-License-Identifier: Apache-2.0
//! Rules written into a namespace, and the proof that they redirect.

use std::path::{Path, PathBuf};

use agent::repair::ask::{Evidence, PodOutcome, Task, Written};
use netfilter::Applied;
use netfilter::address::Rtnetlink;
use netfilter::route::PolicyRoutes;
use redirect::generate::ruleset;
use redirect::host::Environment;
use redirect::ruleset::{Chain, Target};
use redirect::{Enrolment, enrol};
use serde_json::{Value, json};

use crate::node::{Node, cart, inside, lose_route, proven};
use crate::stranger::Asked;
use crate::{Case, stranger};

pub(crate) const CASES: &[Case] = &[
    Case("both families are proven, and once more without a change", both_families),
    Case("TPROXY is proven by its outbound rules, routes included", tproxy),
    Case("native rules are proven", native),
    Case("packets that bypass the rules prove nothing", bypassed),
    Case("rules of another configuration redirect and differ, and right ones are verified", differing),
    Case("foreign rules of any condition do not disprove what the kernel redirects", foreign),
    Case("a packet that a rule of an unknown condition drops disproves nothing", dropped),
    Case("a packet that a known rule drops is not redirected", certainly_dropped),
    Case("a rule that is missing is seen, and written again", missing),
    Case("where nothing leads out, the proxy's own way to itself is what is proven", unreachable),
];

const DUAL: [&str; 2] = ["10.9.0.2", "fd00::2"];

/// Node with a namespace of `cart`.
fn ready(mut node: Node) -> (Node, PathBuf) {
    let file = node.namespace("cni-1", &["10.9.0.2/24", "fd00::2/64"]);
    node.cached(("cart", "u-1"), &json!({"netns": "/var/run/netns/cni-1"}));
    (node, file)
}

fn written(outcome: &PodOutcome) -> Written {
    let PodOutcome::Proven { written, .. } = outcome else { panic!("{outcome:?}") };
    *written
}

/// The rules of `cart`, but what would redirect outbound packets leaves them alone.
fn lose_redirect(file: &Path) {
    let facts = serde_json::from_value(cart(&json!({}))).unwrap();
    let Enrolment::Enrol(redirect) = enrol(&facts).unwrap() else { panic!("it is of the mesh") };
    let addresses = DUAL.map(|address| address.parse().unwrap());
    let mut rules = ruleset(&redirect.config_for(addresses, &Environment::default()).unwrap()).unwrap();
    for rule in rules.rules.iter_mut().filter(|rule| rule.chain == Chain::IstioRedirect) {
        rule.target = Target::Return;
    }
    inside(file, move || assert_eq!(netfilter::apply(&rules).unwrap(), Applied::Replaced));
}

fn both_families() {
    let (node, _) = ready(Node::new());
    assert!(matches!(node.ask(Task::Look, &DUAL, &json!({})), PodOutcome::Unredirected(_)));
    let outcome = node.ask(Task::Repair, &DUAL, &json!({}));
    assert_eq!((proven(&outcome), written(&outcome)), (vec!["IPv4", "IPv6"], Written::Created));
    assert_eq!(node.ask(Task::Look, &DUAL, &json!({})), PodOutcome::Right);
    let again = node.ask(Task::Repair, &DUAL, &json!({}));
    assert_eq!((proven(&again), written(&again)), (vec!["IPv4", "IPv6"], Written::Unchanged));
}

fn tproxy() {
    let (node, file) = ready(Node::new());
    let mode = json!({"sidecar.istio.io/interceptionMode": "TPROXY"});
    assert_eq!(proven(&node.ask(Task::Repair, &DUAL, &mode)), ["IPv4", "IPv6"]);
    let again = node.ask(Task::Repair, &DUAL, &mode);
    assert_eq!(written(&again), Written::Unchanged, "policy routes are there already");
    let routes = PolicyRoutes { mark: 1337, table: 133, ipv6: false };
    inside(&file, move || Rtnetlink::open().unwrap().remove_policy_routes(routes).unwrap());
    let outcome = node.ask(Task::Look, &DUAL, &mode);
    assert!(matches!(&outcome, PodOutcome::Wrong(_)), "{outcome:?}");
}

fn native() {
    let (node, _) = ready(Node::with_backend("nft"));
    let outcome = node.ask(Task::Repair, &DUAL, &json!({}));
    let PodOutcome::Proven { backend, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!((backend.as_str(), proven(&outcome)), ("nft", vec!["IPv4", "IPv6"]));
}

fn differing() {
    let (node, _) = ready(Node::new());
    node.ask(Task::Repair, &DUAL, &json!({}));
    let outcome = node.ask(Task::Verify, &DUAL, &json!({}));
    assert_eq!((proven(&outcome), written(&outcome)), (vec!["IPv4", "IPv6"], Written::Unchanged));
    let edited = json!({"traffic.sidecar.istio.io/excludeOutboundPorts": "5432"});
    for task in [Task::Look, Task::Verify] {
        let outcome = node.ask(task, &DUAL, &edited);
        assert!(matches!(&outcome, PodOutcome::Wrong(_)), "{outcome:?}");
    }
}

fn bypassed() {
    let (node, file) = ready(Node::new());
    inside(&file, || stranger::untrack().unwrap());
    let outcome = node.ask(Task::Repair, &DUAL, &json!({}));
    let PodOutcome::Unproven { why, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(why.contains("did not meet the rule"), "{why}");
    inside(&file, || stranger::track().unwrap());
    assert_eq!(proven(&node.ask(Task::Repair, &DUAL, &json!({}))), ["IPv4", "IPv6"]);
}

/// The repair of `cart` beside a foreign rule of the output hook.
fn beside(asked: Asked, priority: i32, verdict: u32) -> PodOutcome {
    let (node, file) = ready(Node::new());
    inside(&file, move || stranger::rule(asked, priority, verdict).unwrap());
    node.ask(Task::Repair, &DUAL, &json!({}))
}

fn foreign() {
    for asked in [Asked::Nothing, Asked::Established, Asked::New, Asked::Icmp, Asked::Direction] {
        for priority in [stranger::MANGLE, stranger::FILTER] {
            let outcome = beside(asked, priority, stranger::ACCEPT);
            assert_eq!(proven(&outcome), ["IPv4", "IPv6"], "{asked:?} {priority}: {outcome:?}");
        }
    }
    let outcome = beside(Asked::Established, stranger::MANGLE, stranger::DROP);
    assert_eq!(proven(&outcome), ["IPv4", "IPv6"], "it does not hold of a new connection");
}

fn dropped() {
    let outcome = beside(Asked::Direction, stranger::MANGLE, stranger::DROP);
    let PodOutcome::Proven { families, .. } = &outcome else { panic!("{outcome:?}") };
    let [v4, v6] = families.as_slice() else { panic!("{families:?}") };
    let Evidence::Rules { why } = &v4.evidence else { panic!("{v4:?}") };
    assert!(why.contains("another rule decides: cannot judge"), "{why}");
    assert!(matches!(v6.evidence, Evidence::Packet { .. }), "{v6:?}");
}

fn certainly_dropped() {
    let outcome = beside(Asked::New, stranger::MANGLE, stranger::DROP);
    let PodOutcome::Unproven { why, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(why.contains("would not be redirected"), "{why}");
}

fn missing() {
    let (node, file) = ready(Node::new());
    node.ask(Task::Repair, &DUAL, &json!({}));
    lose_redirect(&file);
    let outcome = node.ask(Task::Look, &DUAL, &json!({}));
    let PodOutcome::Unredirected(lacks) = &outcome else { panic!("{outcome:?}") };
    assert!(lacks.iter().all(|lack| lack.contains("ISTIO_REDIRECT")), "{lacks:?}");
    let outcome = node.ask(Task::Repair, &DUAL, &json!({}));
    assert_eq!((proven(&outcome), written(&outcome)), (vec!["IPv4", "IPv6"], Written::Replaced));
}

fn unreachable() {
    let mut node = Node::new();
    let file = node.namespace("cni-1", &["10.9.0.2/32"]);
    node.cached(("cart", "u-1"), &json!({"netns": "/var/run/netns/cni-1"}));
    inside(&file, lose_route);
    let none: Value = json!({"traffic.sidecar.istio.io/includeOutboundIPRanges": "192.0.2.0/24"});
    let outcome = node.ask(Task::Repair, &["10.9.0.2"], &none);
    let PodOutcome::Proven { families, .. } = &outcome else { panic!("{outcome:?}") };
    let [one] = families.as_slice() else { panic!("{families:?}") };
    assert!(matches!(one.evidence, Evidence::Packet { port: 15006, .. }), "{one:?}");
}
