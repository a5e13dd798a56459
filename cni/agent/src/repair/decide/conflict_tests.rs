// SPDX-License-Identifier: Apache-2.0
//! Pods that change between a look at them and the request about them.

use super::*;

fn conflict() -> ActionResult {
    ActionResult::Conflict("changed".into())
}

impl Play {
    fn at_ms(&mut self, ms: u64, event: RepairEvent) -> Vec<String> {
        self.decide(event, Time::from_millis(ms))
            .iter()
            .map(words)
            .filter(|one| !one.starts_with("look at "))
            .collect()
    }

    fn done_at_ms(&mut self, ms: u64, done: ActionResult) -> Vec<String> {
        self.at_ms(ms, RepairEvent::Done("a".into(), done, clock(0)))
    }
}

#[test]
fn a_conflict_is_neither_told_nor_counted_and_the_newer_pod_is_deleted_within_milliseconds() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    play.at_ms(0, event(&pod("a", 1)));
    let mut changed = pod("a", 1);
    changed["metadata"]["resourceVersion"] = json!("8");
    assert_eq!(play.at_ms(1, event(&changed)), NOTHING);
    assert_eq!(play.done_at_ms(1, conflict()), NOTHING);
    assert_eq!(play.at_ms(5, RepairEvent::Tick), NOTHING);
    let actions = play.decide(RepairEvent::Tick, Time::from_millis(6));
    assert!(
        matches!(&actions[..], [RepairAction::Delete(pod)] if pod.metadata.resource_version == "8"),
        "{actions:?}"
    );
    assert_eq!(play.done_at_ms(7, conflict()), NOTHING);
    assert_eq!(play.at_ms(17, RepairEvent::Tick), ["Delete a"], "twice as long");
    assert_eq!(play.done_at_ms(18, ActionResult::Accepted), ["Delete success after 0s", "tell a: Deleted"]);
}

#[test]
fn what_conflicts_for_more_than_a_second_is_a_failure() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    assert_eq!(play.at_ms(0, event(&pod("a", 1))), ["Delete a"]);
    let mut now = 0;
    for before in 0..8 {
        assert_eq!(play.done_at_ms(now, conflict()), NOTHING);
        now += 5 << before;
        assert_eq!(play.at_ms(now, RepairEvent::Tick), ["Delete a"]);
    }
    let failed = ["Delete fail after 1s", "tell a: Failed(Delete, \"changed\")"];
    assert_eq!(play.done_at_ms(now, conflict()), failed);
    assert_eq!(play.at_ms(now + 999, RepairEvent::Tick), NOTHING);
    assert_eq!(play.at_ms(now + 1000, RepairEvent::Tick), ["Delete a"]);
    assert_eq!(play.done_at_ms(now + 1000, conflict()), NOTHING, "they count anew");
}

#[test]
fn a_pod_that_came_up_while_its_deletion_was_in_flight_is_left_alone() {
    for done in [conflict(), ActionResult::Failed("no answer".into())] {
        let mut play = Play::new(&[RepairPolicy::Delete]);
        assert_eq!(play.at(0, event(&pod("a", 1))), ["Delete a"]);
        let mut up = pod("a", 2);
        up["status"]["initContainerStatuses"][0]["state"] =
            json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        assert_eq!(play.acts(1, event(&up)), NOTHING);
        play.done(1, "a", done);
        assert_eq!(play.acts(60, RepairEvent::Tick), NOTHING);
    }
}
