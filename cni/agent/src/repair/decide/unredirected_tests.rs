// SPDX-License-Identifier: Apache-2.0
//! Pods that run without redirection.

use super::*;

fn healthy(uid: &str) -> Value {
    let mut pod = pod(uid, 0);
    pod["status"]["initContainerStatuses"] = json!([]);
    pod
}

fn wrong() -> Vec<(String, Option<PodOutcome>)> {
    vec![("a".to_owned(), Some(PodOutcome::Unredirected(vec!["no rules".into(), "x".into()])))]
}

#[test]
fn an_unredirected_pod_is_told_when_seen_twice_and_left_alone() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    assert_eq!(play.at(0, event(&healthy("a"))), NOTHING);
    assert_eq!(play.at(1, RepairEvent::Tick), ["look at a"]);
    assert_eq!(play.at(1, RepairEvent::Looked(wrong())), NOTHING, "it may be set up just now");
    assert_eq!(play.at(3, RepairEvent::Tick), ["look at a"]);
    let events = "tell a: Unredirected(\"no rules (and 1 more differences)\")";
    assert_eq!(play.at(3, RepairEvent::Looked(wrong())), [events, "unredirected: 1"]);
    assert_eq!(play.at(63, RepairEvent::Tick), ["look at a"]);
    assert_eq!(play.at(63, RepairEvent::Looked(wrong())), NOTHING, "told once");
    play.at(123, RepairEvent::Tick);
    let right = RepairEvent::Looked(vec![("a".into(), Some(PodOutcome::Right))]);
    assert_eq!(play.at(123, right), ["tell a: Restored", "unredirected: 0"]);
    assert_eq!(play.at(9999, RepairEvent::Tick), NOTHING);
}

#[test]
fn what_was_seen_at_other_addresses_says_nothing() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    play.at(0, event(&healthy("a")));
    assert_eq!(play.at(1, RepairEvent::Tick), ["look at a"]);
    let mut other = healthy("a");
    other["status"]["podIP"] = json!("10.0.0.99");
    play.at(1, event(&other));
    play.at(1, RepairEvent::Looked(vec![("a".into(), Some(PodOutcome::Right))]));
    assert_eq!(play.at(2, RepairEvent::Tick), ["look at a"], "its new sandbox was never looked at");
}

#[test]
fn rules_that_cannot_be_read_are_told_of_once() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    play.at(0, event(&healthy("a")));
    let mut events = Vec::new();
    let mut now = 1;
    for attempt in 1..=8 {
        assert_eq!(play.at(now, RepairEvent::Tick), ["look at a"]);
        let outcome = Some(PodOutcome::Failed("x".into()));
        events.extend(play.at(now, RepairEvent::Looked(vec![("a".into(), outcome)])));
        now += after(attempt).as_secs();
    }
    assert_eq!(events, ["tell a: Unseen(\"x\")"]);
    play.at(now, RepairEvent::Tick);
    let right = RepairEvent::Looked(vec![("a".into(), Some(PodOutcome::Right))]);
    assert_eq!(play.at(now, right), ["tell a: Restored"], "what was unknown is known");
}

#[test]
fn acting_on_unredirected_pods_is_opted_in() {
    let mut play = Play::with(*changed(&[RepairPolicy::Repair], |repair| repair.act_on_unredirected = true));
    play.at(0, event(&healthy("a")));
    play.at(1, RepairEvent::Tick);
    play.at(1, RepairEvent::Looked(wrong()));
    play.at(3, RepairEvent::Tick);
    assert_eq!(play.at(3, RepairEvent::Looked(wrong()))[1..], ["Repair a", "unredirected: 1"]);
    let done = play.done(3, "a", proven(Written::Created));
    assert_eq!(
        (done[0].as_str(), done.last().unwrap().as_str()),
        ("Repair success after 0s", "unredirected: 0")
    );
}

/// A play in which "a" was seen to be unredirected at 3, and is being repaired.
fn repairing(fallback: Option<RepairPolicy>) -> Play {
    let mut play = Play::with(*changed(&[RepairPolicy::Repair], |repair| {
        repair.act_on_unredirected = true;
        repair.fallback = fallback;
    }));
    play.at(0, event(&healthy("a")));
    play.at(1, RepairEvent::Tick);
    play.at(1, RepairEvent::Looked(wrong()));
    play.at(3, RepairEvent::Tick);
    assert!(play.at(3, RepairEvent::Looked(wrong())).contains(&"Repair a".to_owned()));
    play
}

#[test]
fn one_that_was_labelled_goes_on_being_repaired() {
    let mut play = repairing(Some(RepairPolicy::Label));
    let mut now = 3;
    for attempt in 1..5 {
        play.done(now, "a", no_namespace());
        now += after(attempt).as_secs();
        play.at(now, RepairEvent::Tick);
    }
    assert!(play.done(now, "a", no_namespace()).contains(&"Label a".to_owned()));
    play.done(now, "a", ActionResult::Accepted);
    let mut labelled = healthy("a");
    labelled["metadata"]["labels"] = json!({"cni.istio.io/uninitialized": "true"});
    play.at(now, event(&labelled));
    now += after(5).as_secs();
    assert!(play.at(now, RepairEvent::Tick).contains(&"Repair a".to_owned()));
}

#[test]
fn other_rules_do_not_forget_who_is_unredirected() {
    let mut play = repairing(None);
    play.done(3, "a", no_namespace());
    let mut excluding = changed(&[RepairPolicy::Repair], |repair| repair.act_on_unredirected = true);
    excluding.plugin.as_mut().unwrap().excluded.push("other".to_owned());
    assert_eq!(
        play.acts(3, RepairEvent::Rules(excluding)),
        NOTHING,
        "still unredirected, told, and waited for"
    );
    assert_eq!(play.acts(4, RepairEvent::Tick), ["Repair a"]);
    let told = changed(&[RepairPolicy::Repair], |_| {});
    assert_eq!(play.acts(5, RepairEvent::Rules(told)), NOTHING);
    play.done(5, "a", no_namespace());
    let acting = changed(&[RepairPolicy::Repair], |repair| repair.act_on_unredirected = true);
    assert_eq!(play.acts(6, RepairEvent::Rules(acting)), ["Repair a"], "as somebody asks for it now");
}

#[test]
fn a_changed_status_does_not_begin_the_attempts_anew() {
    let mut play = repairing(Some(RepairPolicy::Delete));
    let mut now = 3;
    for attempt in 1..5 {
        play.done(now, "a", no_namespace());
        let mut restarted = healthy("a");
        restarted["status"]["containerStatuses"] = json!([{"name": "app", "restartCount": attempt}]);
        play.at(now, event(&restarted));
        now += after(attempt).as_secs();
        assert_eq!(play.acts(now - 1, RepairEvent::Tick), NOTHING, "attempt {attempt}");
        assert_eq!(play.acts(now, RepairEvent::Tick), ["Repair a"], "attempt {attempt}");
    }
    assert!(play.done(now, "a", no_namespace()).contains(&"Evict a".to_owned()), "the fallback");
}

#[test]
fn who_has_no_address_or_is_over_is_not_looked_at() {
    for (path, value) in [("podIP", json!("")), ("phase", json!("Succeeded"))] {
        let mut pod = healthy("a");
        pod["status"][path] = value;
        let mut play = Play::new(&[]);
        play.at(0, event(&pod));
        assert_eq!(play.at(9, RepairEvent::Tick), NOTHING, "{path}");
    }
    let mut play = Play::new(&[]);
    play.at(0, event(&healthy("a")));
    play.at(1, RepairEvent::Tick);
    assert_eq!(play.at(1, RepairEvent::Looked(vec![("a".into(), None)])), NOTHING);
    assert_eq!(play.at(2, RepairEvent::Tick), ["look at a"], "nobody could look");
}

#[test]
fn one_that_nobody_can_look_at_does_not_take_the_others_with_it() {
    let mut play = Play::new(&[]);
    play.at(0, event(&healthy("a")));
    play.at(0, event(&healthy("b")));
    let looked = |uid: &str, outcome| (uid.to_owned(), outcome);
    let right = || Some(PodOutcome::Right);
    assert_eq!(play.at(1, RepairEvent::Tick), ["look at a b"]);
    let nobody = vec![looked("a", None), looked("b", None)];
    assert_eq!(play.at(1, RepairEvent::Looked(nobody)), NOTHING);
    assert_eq!(play.at(2, RepairEvent::Tick), ["look at a"]);
    assert_eq!(play.at(2, RepairEvent::Looked(vec![looked("a", None)])), ["look at b"]);
    assert_eq!(play.at(2, RepairEvent::Looked(vec![looked("b", right())])), NOTHING);
    play.at(3, event(&healthy("c")));
    play.at(3, event(&healthy("d")));
    assert_eq!(play.at(4, RepairEvent::Tick), ["look at c d"], "before one that may take long");
    let both = vec![looked("c", right()), looked("d", right())];
    assert_eq!(play.at(4, RepairEvent::Looked(both)), ["look at a"]);
}

/// Sees "a" twice with this outcome, in a play that acts on unredirected pods by deletion.
fn surveyed(outcome: &PodOutcome) -> (Play, Vec<String>) {
    let mut play = Play::with(*changed(&[RepairPolicy::Delete], |repair| repair.act_on_unredirected = true));
    play.at(0, event(&healthy("a")));
    play.at(1, RepairEvent::Tick);
    play.at(1, RepairEvent::Looked(vec![("a".to_owned(), Some(outcome.clone()))]));
    play.at(3, RepairEvent::Tick);
    let told = play.at(3, RepairEvent::Looked(vec![("a".to_owned(), Some(outcome.clone()))]));
    (play, told)
}

#[test]
fn rules_that_differ_are_told_apart_and_left_alone() {
    let (mut play, told) = surveyed(&PodOutcome::Wrong(vec!["a port".into()]));
    assert_eq!(told, ["tell a: Differs(\"a port\")"]);
    assert_eq!(play.acts(999, RepairEvent::Tick), NOTHING);
    let lost = || {
        RepairEvent::Looked(vec![("a".to_owned(), Some(PodOutcome::Unredirected(vec!["no rules".into()])))])
    };
    assert_eq!(play.acts(999, lost())[..1], ["tell a: Unredirected(\"no rules\")"], "now they are gone");
}

#[test]
fn a_pod_that_runs_is_evicted_one_a_minute_and_when_its_budget_allows_it() {
    let (mut play, told) = surveyed(&PodOutcome::Unredirected(vec!["no rules".into()]));
    assert_eq!(told[1..], ["Evict a", "unredirected: 1"]);
    let held = ActionResult::Held("budget".into());
    let told = play.done(3, "a", held.clone());
    assert_eq!(told, ["Delete skip after 0s", "tell a: EvictionHeld(\"budget\")"]);
    assert_eq!(play.acts(5, RepairEvent::Tick), NOTHING, "one a minute");
    assert_eq!(play.acts(63, RepairEvent::Tick), ["Evict a"]);
    assert_eq!(play.done(63, "a", held), ["Delete skip after 60s"], "told once");
    assert_eq!(play.acts(123, RepairEvent::Tick), ["Evict a"]);
    assert_eq!(play.done(123, "a", ActionResult::Accepted), ["Delete success after 120s", "tell a: Evicted"]);
}

#[test]
fn a_pod_that_runs_is_not_evicted_without_evidence() {
    let (mut play, _) = surveyed(&PodOutcome::Unredirected(vec!["no rules".into()]));
    play.done(3, "a", ActionResult::Failed("no answer".into()));
    play.verified = Some(PodOutcome::Failed("no answer".into()));
    assert_eq!(play.acts(63, RepairEvent::Tick), NOTHING);
    play.verified = Some(PodOutcome::Wrong(vec!["a port".into()]));
    assert_eq!(play.acts(999, RepairEvent::Tick), NOTHING);
}

#[test]
fn a_redirected_pod_whose_validation_failed_is_left_alone_by_every_policy() {
    for policy in [RepairPolicy::Delete, RepairPolicy::Label] {
        let mut play = Play::new(&[policy]);
        play.verified = None;
        assert_eq!(play.acts(0, event(&pod("a", 1))), ["verify a"]);
        let told = play.done(1, "a", proven(Written::Unchanged));
        assert_eq!(told[0], format!("{policy:?} skip after 1s"));
        assert!(told[1].starts_with("tell a: RightBefore("), "{told:?}");
        assert_eq!(play.acts(99, RepairEvent::Tick), NOTHING);
        // Rules that are not there, or cannot be read, are what the policy is for.
        for outcome in [no_namespace(), ActionResult::Failed("x".into())] {
            let mut play = Play::new(&[policy]);
            play.verified = None;
            play.at(0, event(&pod("a", 1)));
            assert_eq!(play.done(1, "a", outcome)[0], format!("{policy:?} a"));
        }
    }
}
