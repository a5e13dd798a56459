// SPDX-License-Identifier: Apache-2.0
//! Rules and labels that change while an action is in flight.

use super::*;

#[test]
fn a_label_that_comes_late_does_not_hide_another_policy() {
    let mut play = Play::new(&[RepairPolicy::Label]);
    assert_eq!(play.at(0, event(&pod("a", 1))), ["Label a"]);
    assert_eq!(play.at(0, RepairEvent::Rules(Box::new(rules(&[RepairPolicy::Delete])))), NOTHING);
    assert!(play.done(0, "a", ActionResult::Accepted).contains(&"Delete a".to_owned()));

    let mut play = Play::new(&[RepairPolicy::Label]);
    assert_eq!(play.at(0, event(&pod("a", 1))), ["Label a"]);
    let other = changed(&[RepairPolicy::Label], |repair| repair.label.0 = "other".to_owned());
    assert_eq!(play.at(0, RepairEvent::Rules(other)), NOTHING);
    assert!(play.done(0, "a", ActionResult::Accepted).contains(&"Label a".to_owned()));
}

#[test]
fn what_was_repaired_meanwhile_is_not_deleted() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.at(0, event(&pod("a", 1))), ["Repair a"]);
    assert_eq!(play.at(0, RepairEvent::Rules(Box::new(rules(&[RepairPolicy::Delete])))), NOTHING);
    let done = play.done(0, "a", proven(Written::Created));
    assert!(!done.contains(&"Delete a".to_owned()), "{done:?}");
    assert_eq!(play.acts(9, RepairEvent::Tick), NOTHING);
}

#[test]
fn a_label_that_somebody_takes_away_comes_again() {
    let mut play = Play::new(&[RepairPolicy::Label]);
    assert_eq!(play.at(0, event(&pod("a", 1))), ["Label a"]);
    play.done(0, "a", ActionResult::Accepted);
    let mut labelled = pod("a", 1);
    labelled["metadata"]["labels"] = json!({"cni.istio.io/uninitialized": "true"});
    assert_eq!(play.acts(1, event(&labelled)), ["Label skip after 0s"]);
    assert_eq!(play.acts(2, event(&pod("a", 1))), NOTHING);
    assert_eq!(play.acts(3, RepairEvent::Tick), ["Label a"]);
    assert_eq!(play.acts(3, event(&pod("a", 1))), NOTHING, "it is on its way");
}
