// SPDX-License-Identifier: Apache-2.0
//! Pods that run without redirection.

use super::*;

fn healthy(uid: &str) -> Value {
    let mut pod = pod(uid, 0);
    pod["status"]["initContainerStatuses"] = json!([]);
    pod
}

fn wrong() -> Vec<(String, Option<Outcome>)> {
    vec![("a".to_owned(), Some(Outcome::Wrong(vec!["no rules".into(), "x".into()])))]
}

#[test]
fn an_unredirected_pod_is_told_when_seen_twice_and_left_alone() {
    let mut play = Play::new(&[Policy::Delete]);
    assert_eq!(play.at(0, event(&healthy("a"))), NOTHING);
    assert_eq!(play.at(1, Event::Tick), ["look at a"]);
    assert_eq!(play.at(1, Event::Looked(wrong())), NOTHING, "it may be set up just now");
    assert_eq!(play.at(3, Event::Tick), ["look at a"]);
    let told = "tell a: Unredirected(\"no rules (and 1 more differences)\")";
    assert_eq!(play.at(3, Event::Looked(wrong())), [told, "unredirected: 1"]);
    assert_eq!(play.at(63, Event::Tick), ["look at a"]);
    assert_eq!(play.at(63, Event::Looked(wrong())), NOTHING, "told once");
    play.at(123, Event::Tick);
    let right = Event::Looked(vec![("a".into(), Some(Outcome::Right))]);
    assert_eq!(play.at(123, right), ["tell a: Restored", "unredirected: 0"]);
    assert_eq!(play.at(9999, Event::Tick), NOTHING);
}

#[test]
fn what_was_seen_at_other_addresses_says_nothing() {
    let mut play = Play::new(&[Policy::Delete]);
    play.at(0, event(&healthy("a")));
    assert_eq!(play.at(1, Event::Tick), ["look at a"]);
    let mut other = healthy("a");
    other["status"]["podIP"] = json!("10.0.0.99");
    play.at(1, event(&other));
    play.at(1, Event::Looked(vec![("a".into(), Some(Outcome::Right))]));
    assert_eq!(play.at(2, Event::Tick), ["look at a"], "its new sandbox was never looked at");
}

#[test]
fn rules_that_cannot_be_read_are_told_of_once() {
    let mut play = Play::new(&[Policy::Delete]);
    play.at(0, event(&healthy("a")));
    let mut told = Vec::new();
    let mut now = 1;
    for attempt in 1..=8 {
        assert_eq!(play.at(now, Event::Tick), ["look at a"]);
        let outcome = Some(Outcome::Failed("x".into()));
        told.extend(play.at(now, Event::Looked(vec![("a".into(), outcome)])));
        now += after(attempt).as_secs();
    }
    assert_eq!(told, ["tell a: Unseen(\"x\")"]);
}

#[test]
fn acting_on_unredirected_pods_is_opted_in() {
    let mut play = Play::with(*changed(&[Policy::Repair], |repair| repair.act_on_unredirected = true));
    play.at(0, event(&healthy("a")));
    play.at(1, Event::Tick);
    play.at(1, Event::Looked(wrong()));
    play.at(3, Event::Tick);
    assert_eq!(play.at(3, Event::Looked(wrong()))[1..], ["Repair a", "unredirected: 1"]);
    let done = play.done(3, "a", proven(Written::Created));
    assert_eq!(
        (done[0].as_str(), done.last().unwrap().as_str()),
        ("Repair success after 0s", "unredirected: 0")
    );
}

#[test]
fn who_has_no_address_or_is_over_is_not_looked_at() {
    for (path, value) in [("podIP", json!("")), ("phase", json!("Succeeded"))] {
        let mut pod = healthy("a");
        pod["status"][path] = value;
        let mut play = Play::new(&[]);
        play.at(0, event(&pod));
        assert_eq!(play.at(9, Event::Tick), NOTHING, "{path}");
    }
    let mut play = Play::new(&[]);
    play.at(0, event(&healthy("a")));
    play.at(1, Event::Tick);
    assert_eq!(play.at(1, Event::Looked(vec![("a".into(), None)])), NOTHING);
    assert_eq!(play.at(2, Event::Tick), ["look at a"], "nobody could look");
}
