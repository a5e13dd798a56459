// SPDX-License-Identifier: Apache-2.0
//! Repairs in place that fail: further attempts, and the fallback.

use super::*;

impl Play {
    /// So many failures of the repair that began at 0; when the last one was, and its actions.
    fn failures(&mut self, uid: &str, times: u32) -> (u64, Vec<String>) {
        let mut now = 0;
        for attempt in 1..times {
            self.done(now, uid, no_namespace());
            now += after(attempt).as_secs();
            assert_eq!(self.acts(now, RepairEvent::Tick), [format!("Repair {uid}")]);
        }
        (now, self.done(now, uid, no_namespace()))
    }
}

#[test]
fn a_failure_is_tried_again_later_each_time_and_never_forgotten() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(0, event(&pod("a", 1)));
    let mut now = 0;
    for attempt in 1..=12_u32 {
        let events = play.done(now, "a", no_namespace());
        assert_eq!(events[0], format!("Repair fail after {now}s"));
        let is_told = events.iter().any(|one| one.starts_with("tell a"));
        assert_eq!(is_told, attempt == 1 || attempt == 5, "attempt {attempt}: {events:?}");
        assert_eq!(events.contains(&"unrepairable: no_namespace".to_owned()), attempt == 5);
        let next = now + after(attempt).as_secs();
        let early: Vec<_> =
            play.at(next - 1, RepairEvent::Tick).into_iter().filter(|one| one == "Repair a").collect();
        assert_eq!(early, NOTHING, "attempt {attempt}");
        assert!(play.at(next, RepairEvent::Tick).contains(&"Repair a".to_owned()), "attempt {attempt}");
        now = next;
    }
}

#[test]
fn runs_that_fail_meanwhile_do_not_put_the_next_attempt_off() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(0, event(&pod("a", 1)));
    let (now, _) = play.failures("a", 8);
    let due = now + after(8).as_secs();
    for (restarts, at) in (2..).zip((now..due).step_by(30)) {
        assert_eq!(play.acts(at, event(&pod("a", restarts))), NOTHING, "at {at}");
    }
    assert_eq!(play.acts(due, RepairEvent::Tick), ["Repair a"]);
}

#[test]
fn a_repair_that_keeps_failing_gets_the_fallback() {
    let falling_back =
        |fallback| Play::with(*changed(&[RepairPolicy::Repair], |repair| repair.fallback = Some(fallback)));
    let mut play = falling_back(RepairPolicy::Delete);
    play.at(0, event(&pod("a", 1)));
    let (now, events) = play.failures("a", 5);
    assert_eq!(events[1], "unrepairable: no_namespace");
    assert_eq!(events[3..], ["Delete a"]);
    assert_eq!(play.done(now, "a", ActionResult::Conflict("changed".into())), NOTHING);
    assert_eq!(play.acts(now + 1, RepairEvent::Tick), ["Delete a"], "the newer pod");
    let failed = ["Delete fail after 16s", "tell a: Failed(Delete, \"denied\")"];
    assert_eq!(play.done(now + 1, "a", ActionResult::Failed("denied".into())), failed);
    assert_eq!(play.acts(now + 1 + after(6).as_secs(), RepairEvent::Tick), ["Delete a"]);

    let mut play = falling_back(RepairPolicy::Label);
    play.at(0, event(&pod("a", 1)));
    let (now, events) = play.failures("a", 5);
    assert_eq!(events[3..], ["Label a"]);
    assert_eq!(play.done(now, "a", ActionResult::Accepted), ["Label success after 15s", "tell a: Labelled"]);
    let mut labelled = pod("a", 2);
    labelled["metadata"]["labels"] = json!({"cni.istio.io/uninitialized": "true"});
    assert_eq!(play.acts(now, event(&labelled)), NOTHING);
    let again = now + after(5).as_secs();
    assert_eq!(play.acts(again, RepairEvent::Tick), ["Repair a"], "it is broken as before");
    assert_eq!(play.done(again, "a", no_namespace()), ["Repair fail after 31s"]);
    assert_eq!(play.acts(again + after(6).as_secs(), RepairEvent::Tick), ["Repair a"]);
}

#[test]
fn a_repair_that_worked_in_between_is_not_given_up() {
    let mut play = Play::with(*changed(&[RepairPolicy::Repair], |repair| {
        repair.fallback = Some(RepairPolicy::Delete);
    }));
    play.at(0, event(&pod("a", 1)));
    let (now, _) = play.failures("a", 3);
    let next = now + after(3).as_secs();
    assert_eq!(play.acts(next, RepairEvent::Tick), ["Repair a"]);
    play.done(next, "a", proven(Written::Unchanged));
    play.at(next, event(&pod("a", 2)));
    let next = next + after(4).as_secs();
    assert_eq!(play.acts(next, RepairEvent::Tick), ["Repair a"]);
    let events = play.done(next, "a", no_namespace());
    assert_eq!(events[0], format!("Repair fail after {next}s"));
    assert!(events[1].starts_with("tell a: Failed(Repair"), "the first failure since: {events:?}");
}

#[test]
fn a_pod_that_asks_for_the_impossible_is_unrepairable() {
    let mut bad = pod("a", 1);
    bad["metadata"]["annotations"]["traffic.sidecar.istio.io/excludeInboundPorts"] = json!("x");
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.at(0, event(&bad))[0], "unrepairable: invalid_pod");
    let mut play = Play::new(&[RepairPolicy::Delete]);
    assert_eq!(play.at(0, event(&bad)), ["Delete a"]);
    let mut play =
        Play::with(*changed(&[RepairPolicy::Repair], |repair| repair.fallback = Some(RepairPolicy::Label)));
    assert_eq!(play.at(0, event(&bad)).last().unwrap(), "Label a");
    let events = play.done(0, "a", ActionResult::Accepted);
    assert!(!events.contains(&"Label a".to_owned()), "once: {events:?}");
}
