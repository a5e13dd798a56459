// SPDX-License-Identifier: Apache-2.0
//! Pods whose packets the rules of their namespace do not meet, all of them or those of an app.

use redirect::sandbox::{Sandboxed, Sign};

use super::*;

fn of_class(mut pod: Value, class: &str) -> Value {
    pod["spec"]["runtimeClassName"] = class.into();
    pod
}

fn in_a_guest(class: &str) -> PodOutcome {
    let sign = Sign::Diverted("eth0".to_owned(), "tap0_kata".to_owned());
    PodOutcome::Sandboxed(Sandboxed { class: class.to_owned(), sign })
}

fn said_sandboxed(actions: &[String]) -> bool {
    actions.iter().any(|action| action.starts_with("tell a: Sandboxed("))
}

#[test]
fn a_pod_of_a_sandboxed_class_is_named_and_not_repaired() {
    for policies in [&[RepairPolicy::Repair][..], &[RepairPolicy::Delete]] {
        let mut play = Play::new(policies);
        let first = play.acts(0, event(&of_class(pod("a", 1), "kata-qemu")));
        assert!(said_sandboxed(&first), "{first:?}");
        assert_eq!(first[1..], ["unrepairable: sandboxed", "sandboxed: 1"]);
        assert_eq!(play.acts(60, event(&of_class(pod("a", 2), "kata-qemu"))), [""; 0], "once");
        assert_eq!(play.acts(61, RepairEvent::Gone("a".to_owned())), ["sandboxed: 0"]);
    }
}

#[test]
fn a_guest_that_is_found_in_the_namespace_is_no_repair() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.acts(0, event(&of_class(pod("a", 1), "secure"))), ["Repair a"]);
    let done = play.done(1, "a", ActionResult::Repaired(in_a_guest("secure")));
    assert!(said_sandboxed(&done), "{done:?}");
    for success in ["Success", "Repaired", "RightBefore", "Exposed"] {
        assert!(!done.iter().any(|action| action.contains(success)), "{done:?}");
    }
    assert!(done.contains(&"unrepairable: sandboxed".to_owned()), "{done:?}");
    assert_eq!(play.acts(60, event(&of_class(pod("a", 2), "secure"))), [""; 0]);
}

#[test]
fn a_survey_that_finds_a_guest_calls_the_pod_neither_right_nor_unredirected() {
    let mut play = Play::new(&[]);
    let mut running = of_class(pod("a", 0), "secure");
    running["status"] = json!({"phase": "Running", "podIP": "10.9.0.2"});
    play.at(0, event(&running));
    assert_eq!(play.at(1, RepairEvent::Tick), ["look at a"]);
    let seen = play.at(2, RepairEvent::Looked(vec![("a".to_owned(), Some(in_a_guest("secure")))]));
    assert!(said_sandboxed(&seen), "{seen:?}");
    assert_eq!(seen[1..], ["sandboxed: 1"]);
    assert_eq!(play.at(200, RepairEvent::Tick), [""; 0], "nothing changes in a guest's namespace");
}

#[test]
fn an_app_that_runs_as_its_proxy_is_named_once() {
    let mut play = Play::new(&[]);
    let mut shared = pod("a", 0);
    shared["spec"]["securityContext"] = json!({"runAsUser": 1_000_650_000});
    shared["status"] = json!({"phase": "Running", "podIP": "10.9.0.2"});
    let named = play.at(0, event(&shared));
    assert!(
        named[0].starts_with("tell a: SharedAccount(\"container app runs with the proxy's user 1000650000"),
        "{named:?}"
    );
    assert_eq!(play.at(0, event(&shared)), [""; 0]);
}

#[test]
fn a_pod_whose_rules_are_overtaken_is_named_and_counted_and_left_alone() {
    let rules = changed(&[RepairPolicy::Repair], |repair| repair.act_on_unredirected = true);
    let mut play = Play::with(*rules);
    let mut running = pod("a", 0);
    running["status"] = json!({"phase": "Running", "podIP": "10.9.0.2"});
    play.at(0, event(&running));
    assert_eq!(play.at(1, RepairEvent::Tick), ["look at a"]);
    let overtaken = || Some(PodOutcome::Overtaken(vec!["rule 1 of ip kv pre".to_owned()]));
    let looked = |outcome| RepairEvent::Looked(vec![("a".to_owned(), outcome)]);
    let seen = play.at(2, looked(overtaken()));
    assert_eq!(seen, ["tell a: Overtaken(\"rule 1 of ip kv pre\")", "unredirected: 1"]);
    assert_eq!(play.at(62, RepairEvent::Tick), ["look at a"]);
    assert_eq!(play.at(63, looked(overtaken())), [""; 0]);
    assert_eq!(play.at(123, RepairEvent::Tick), ["look at a"]);
    assert_eq!(play.at(124, looked(Some(PodOutcome::Right))), ["tell a: Restored", "unredirected: 0"]);
}

#[test]
fn a_pod_whose_validation_failed_and_whose_rules_are_overtaken_is_named_and_kept() {
    let overtaken = PodOutcome::Overtaken(vec!["rule 1 of ip kv pre".to_owned()]);
    let named = "tell a: Overtaken(\"rule 1 of ip kv pre\")";
    for policy in [RepairPolicy::Delete, RepairPolicy::Label] {
        let mut play = Play::new(&[policy]);
        play.verified = Some(overtaken.clone());
        let acts = play.acts(0, event(&pod("a", 1)));
        assert_eq!(acts, [&format!("{policy:?} skip after 0s"), named, "unredirected: 1"]);
        assert_eq!(play.acts(300, RepairEvent::Tick), [""; 0]);
    }
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.acts(0, event(&pod("a", 1))), ["Repair a"]);
    let acts = play.done(1, "a", ActionResult::Repaired(overtaken));
    assert_eq!(acts, ["Repair skip after 1s", named, "unredirected: 1"]);
}

#[test]
fn a_pod_with_a_guest_is_looked_at_each_minute() {
    let looks = |annotations: Value| {
        let mut play = Play::new(&[]);
        let mut running = pod("a", 0);
        running["status"] = json!({"phase": "Running", "podIP": "10.9.0.2"});
        running["metadata"]["annotations"] = annotations;
        play.at(0, event(&running));
        play.at(1, RepairEvent::Tick);
        play.at(2, RepairEvent::Looked(vec![("a".to_owned(), Some(PodOutcome::Right))]));
        play.at(62, RepairEvent::Tick)
    };
    let guest = json!({"sidecar.istio.io/status": "{}", "istio.io/reroute-virtual-interfaces": "k6t-eth0"});
    assert_eq!(looks(guest), ["look at a"]);
    assert_eq!(looks(json!({"sidecar.istio.io/status": "{}"})), [""; 0]);
}
