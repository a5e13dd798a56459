// SPDX-License-Identifier: Apache-2.0

use serde_json::{Value, json};

use super::super::ask::{Evidence, OpenConnections, Proven, Written};
use super::*;
use play::*;

#[path = "conflict_tests.rs"]
mod conflict;
#[path = "failing_tests.rs"]
mod failing;
#[path = "meanwhile_tests.rs"]
mod meanwhile;
#[path = "play_tests.rs"]
mod play;
#[path = "sandboxed_tests.rs"]
mod sandboxed;
#[path = "unredirected_tests.rs"]
mod unredirected;

#[test]
fn the_first_policy_of_repair_delete_label_counts_in_all_combinations() {
    use RepairPolicy::{Delete, Label, Repair};
    for (policies, expected) in [
        (vec![], "tell a: Broken"),
        (vec![Label], "Label a"),
        (vec![Delete], "Delete a"),
        (vec![Label, Delete], "Delete a"),
        (vec![Repair], "Repair a"),
        (vec![Label, Repair], "Repair a"),
        (vec![Delete, Repair], "Repair a"),
        (vec![Label, Delete, Repair], "Repair a"),
    ] {
        let mut play = Play::new(&policies);
        assert_eq!(play.at(0, event(&pod("a", 1))), [expected], "{policies:?}");
        assert_eq!(play.at(0, event(&pod("a", 1))), NOTHING, "{policies:?}: once");
    }
}

#[test]
fn the_first_failure_is_none_and_the_second_run_tells() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.at(0, event(&pod("a", 0))), NOTHING);
    assert_eq!(play.at(0, event(&pod("a", 1))), ["Repair a"]);
}

#[test]
fn who_is_excluded_is_left_alone_and_told_why_once() {
    let mut excluded = pod("a", 1);
    excluded["metadata"]["namespace"] = json!("kube-system");
    let mut play = Play::new(&[RepairPolicy::Delete]);
    assert_eq!(play.at(0, event(&excluded)), [r#"tell a: Excluded("namespace kube-system is excluded")"#]);
    excluded["status"]["initContainerStatuses"][0]["restartCount"] = json!(2);
    assert_eq!(play.at(1, event(&excluded)), NOTHING);
}

#[test]
fn who_is_not_broken_or_not_ours_is_left_alone() {
    let edits: [(&str, Value); 10] = [
        ("/metadata/annotations", json!({})),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("/spec/nodeName", json!("n-2")),
        ("/spec/hostNetwork", json!(true)),
        ("/spec/initContainers/0/name", json!("istio-init")),
        ("/status/initContainerStatuses/0/name", json!("other")),
        ("/status/initContainerStatuses/0/lastState/terminated/exitCode", json!(1)),
        ("/status/initContainerStatuses/0/state", json!({"terminated": {"exitCode": 0}})),
        (
            "/status/initContainerStatuses/0/state",
            json!({"terminated": {"exitCode": 9, "reason": "Completed"}}),
        ),
        ("/metadata/labels", json!({"sidecar.istio.io/inject": "false"})),
    ];
    for (path, value) in edits {
        let mut pod = pod("a", 1);
        let (parent, key) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap()[key] = value.clone();
        let mut play = Play::new(&[RepairPolicy::Delete]);
        assert_eq!(play.at(0, event(&pod)), NOTHING, "{path} = {value}");
    }
    let mut off = Play::with(*changed(&[RepairPolicy::Delete], |repair| repair.enabled = false));
    assert_eq!(off.at(0, event(&pod("a", 1))), NOTHING);
    let mut selected = Play::with(*changed(&[RepairPolicy::Delete], |repair| {
        repair.selectors.labels = crate::selector::labels("app=x").unwrap()
    }));
    assert_eq!(selected.at(0, event(&pod("a", 1))), NOTHING);
    let mut said =
        Play::with(*changed(&[RepairPolicy::Delete], |repair| repair.termination_message = "no".into()));
    assert_eq!(said.at(0, event(&pod("a", 1))), NOTHING);
}

#[test]
fn a_proven_repair_is_told_and_done_once_until_validation_fails_again() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(0, event(&pod("a", 1)));
    let events = play.done(1, "a", proven(Written::Created));
    let proofs = "back end nft-compat; IPv4: a packet to 192.0.2.2:80 is redirected to port 15001";
    assert_eq!(events, ["Repair success after 1s", &format!("tell a: Repaired({proofs:?})"), "a redirects"]);
    assert_eq!(play.at(2, event(&pod("a", 1))), NOTHING, "the proof was a look, too");
    assert_eq!(play.at(60, event(&pod("a", 1))), NOTHING);

    assert_eq!(play.at(60, event(&pod("a", 2))), NOTHING, "not at once");
    assert_eq!(play.at(61, RepairEvent::Tick), ["Repair a"]);
    let events = play.done(62, "a", proven(Written::Unchanged));
    assert_eq!(events, ["Repair success after 62s", &format!("tell a: FailsOtherwise({proofs:?})")]);
    play.at(70, event(&pod("a", 3)));
    assert_eq!(play.at(80, RepairEvent::Tick), ["Repair a"]);
    assert_eq!(play.done(80, "a", proven(Written::Unchanged)), ["Repair success after 80s"], "told once");
}

#[test]
fn a_run_that_began_before_the_repair_says_nothing_of_it() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(10, event(&begun(pod("a", 1), 2)));
    assert_eq!(play.done(12, "a", proven(Written::Created)).len(), 3);
    // The kubelet had started the next run before, and tells of its failure now.
    assert_eq!(play.at(20, event(&begun(pod("a", 2), 8))), NOTHING);
    assert_eq!(play.at(30, RepairEvent::Tick), NOTHING, "neither counted again nor told");
    // One that began in the very second of the repair: the API tells no more than seconds.
    assert_eq!(play.at(31, event(&begun(pod("a", 3), 12))), NOTHING);
    assert_eq!(play.at(40, RepairEvent::Tick), NOTHING);
    // One that began later.
    assert_eq!(play.at(41, event(&begun(pod("a", 4), 33))), NOTHING, "not at once");
    assert_eq!(play.at(42, RepairEvent::Tick), ["Repair a"]);
    let events = play.done(42, "a", proven(Written::Unchanged));
    assert!(events[1].starts_with("tell a: FailsOtherwise("), "{events:?}");
}

#[test]
fn an_old_status_that_comes_after_the_repair_is_no_second_failure() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(10, event(&begun(pod("a", 2), 8)));
    assert_eq!(play.done(12, "a", proven(Written::Created)).len(), 3);
    // A list that is as old as the one before, and then what was known already.
    for restarts in [1, 2, 1, 2] {
        let began = if restarts == 1 { 2 } else { 8 };
        assert_eq!(play.at(13, event(&begun(pod("a", restarts), began))), NOTHING, "{restarts}");
        assert_eq!(play.at(20, RepairEvent::Tick), NOTHING, "{restarts}");
    }
}

#[test]
fn the_same_holds_for_a_status_that_comes_while_the_repair_goes_on_and_after_other_rules() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(10, event(&begun(pod("a", 1), 2)));
    assert_eq!(play.acts(11, event(&begun(pod("a", 2), 8))), NOTHING);
    assert_eq!(play.done(12, "a", proven(Written::Created)).len(), 3);
    let other = excluding(&[RepairPolicy::Repair]);
    assert_eq!(play.at(13, RepairEvent::Rules(other)), NOTHING);
    assert_eq!(play.acts(20, event(&begun(pod("a", 3), 11))), NOTHING);
    assert_eq!(play.acts(30, RepairEvent::Tick), NOTHING);
}

#[test]
fn a_new_agent_does_not_claim_to_know_why_validation_failed() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(0, event(&begun(pod("a", 1), 0)));
    let events = play.done(1, "a", proven(Written::Unchanged));
    assert!(events[1].starts_with("tell a: RightBefore("), "{events:?}");
}

#[test]
fn pods_that_a_controller_makes_in_place_of_deleted_ones_are_deleted_ever_more_slowly() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    assert_eq!(play.at(0, event(&owned("a1", 1))), ["Delete a1"]);
    assert_eq!(play.at(0, event(&owned("a2", 1))), NOTHING);
    let events = play.done(0, "a1", ActionResult::Accepted);
    assert_eq!(events, ["Delete success after 0s", "tell a1: Deleted", "Delete a2"], "there from the start");
    play.done(0, "a2", ActionResult::Accepted);

    let mut now = 1;
    for (uid, wait) in [("b", 2), ("c", 4), ("d", 8)] {
        let events = play.acts(now, event(&owned(uid, 1)));
        let spared = format!("tell {uid}: Spared(3, {:?})", Duration::from_secs(wait - 1));
        assert_eq!(events, if uid == "d" { vec![spared] } else { vec![] }, "{uid}");
        assert_eq!(play.at(now, event(&owned(uid, 2))), NOTHING, "{uid}: told once");
        assert_eq!(play.acts(now + wait - 2, RepairEvent::Tick), NOTHING, "{uid}: too early");
        let at = now - 1 + wait;
        assert_eq!(play.acts(at, RepairEvent::Tick), [format!("Delete {uid}")], "{uid} at {at}");
        play.done(at, uid, ActionResult::Accepted);
        play.at(at, RepairEvent::Gone(uid.into()));
        now = at + 1;
    }
    assert_eq!(play.acts(now, event(&pod("stranger", 1))), ["Delete stranger"], "others do not wait");
}

#[test]
fn a_pod_of_the_controller_that_comes_up_ends_the_waiting() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    play.at(0, event(&owned("a", 1)));
    play.done(0, "a", ActionResult::Accepted);
    let mut up = owned("b", 1);
    up["status"]["initContainerStatuses"][0]["state"] =
        json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    play.at(1, event(&up));
    assert_eq!(play.acts(1, event(&owned("c", 1))), ["Delete c"]);
}

#[test]
fn rules_that_no_packet_proves_do_not_count_as_proven() {
    let evidence = |evidence| Proven { family: "IPv4".into(), evidence };
    let packet = evidence(Evidence::Packet { to: "192.0.2.2:80".into(), port: 15001 });
    let rules = evidence(Evidence::Rules { why: "no route".into() });
    for (families, expected) in [
        (vec![packet.clone(), packet.clone()], "Repair success after 0s"),
        (vec![packet, rules.clone()], "Repair unproven after 0s"),
        (vec![rules], "Repair unproven after 0s"),
    ] {
        let mut play = Play::new(&[RepairPolicy::Repair]);
        play.at(0, event(&pod("a", 1)));
        let open = OpenConnections::default();
        let outcome = PodOutcome::Proven { written: Written::Created, backend: "nft".into(), families, open };
        let events = play.done(0, "a", ActionResult::Repaired(outcome));
        assert_eq!(events[0], expected);
        assert_eq!(events.contains(&"a redirects".to_owned()), expected.contains("success"), "{events:?}");
        assert_eq!(events[1].starts_with("tell a: Repaired("), expected.contains("success"), "{events:?}");
    }
}

#[test]
fn a_deletion_is_told_and_counted_although_the_watch_knew_of_it_before_the_answer_came() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    assert_eq!(play.at(0, event(&pod("a", 1))), ["Delete a"]);
    assert_eq!(play.at(1, RepairEvent::Gone("a".into())), NOTHING);
    assert_eq!(play.done(1, "a", ActionResult::Accepted), ["Delete success after 1s", "tell a: Deleted"]);
    assert_eq!(play.at(2, event(&pod("b", 1))), ["Delete b"], "nothing is going on any more");
}

#[test]
fn deletion_and_label_are_told_as_upstream_does() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    play.at(0, event(&pod("a", 1)));
    let failed = "tell a: Failed(Delete, \"denied\")";
    assert_eq!(play.done(0, "a", ActionResult::Failed("denied".into())), ["Delete fail after 0s", failed]);
    assert!(play.at(1, RepairEvent::Tick).contains(&"Delete a".to_owned()));
    assert_eq!(play.done(1, "a", ActionResult::Accepted), ["Delete success after 1s", "tell a: Deleted"]);

    let mut play = Play::new(&[RepairPolicy::Label]);
    play.at(0, event(&pod("a", 1)));
    assert_eq!(play.done(0, "a", ActionResult::Accepted), ["Label success after 0s", "tell a: Labelled"]);
    let mut labelled = pod("a", 1);
    labelled["metadata"]["labels"] = json!({"cni.istio.io/uninitialized": "whatever"});
    for _ in 0..2 {
        assert_eq!(play.at(0, event(&labelled)), ["Label skip after 0s"], "on every event");
    }
}

#[test]
fn a_job_is_told_to_be_unrepairable_and_gets_the_fallback() {
    let mut job = pod("a", 0);
    job["spec"]["restartPolicy"] = json!("Never");
    job["status"]["phase"] = json!("Failed");
    let why = "its containers are started once only (restartPolicy: Never)";
    let events = ["unrepairable: restart_policy_never", &format!("tell a: Unrepairable({why:?}, None)")];

    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.at(0, event(&job)), events);
    assert_eq!(play.at(1, event(&job)), NOTHING, "once");

    let mut play =
        Play::with(*changed(&[RepairPolicy::Repair], |repair| repair.fallback = Some(RepairPolicy::Delete)));
    let told = play.at(0, event(&job));
    assert_eq!(told, [events[0], &format!("tell a: Unrepairable({why:?}, Some(Delete))"), "Delete a"]);
    assert_eq!(play.done(0, "a", ActionResult::Failed("x".into())).len(), 2);
    assert_eq!(play.at(1, RepairEvent::Tick), ["Delete a"], "the fallback is tried again, too");

    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.at(0, event(&job)), events);
    let fallback = changed(&[RepairPolicy::Repair], |repair| repair.fallback = Some(RepairPolicy::Label));
    assert_eq!(play.at(1, RepairEvent::Rules(fallback)), ["Label a"], "nothing is told again");

    let mut over = pod("a", 1);
    over["status"]["phase"] = json!("Failed");
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(
        play.at(0, event(&over)),
        ["unrepairable: finished", "tell a: Unrepairable(\"it is over\", None)"]
    );
}

#[test]
fn one_at_a_time_by_the_longest_wait_and_a_stuck_one_does_not_stop_the_others() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.at(0, event(&pod("b", 1))), ["Repair b"]);
    assert_eq!(play.at(0, event(&pod("c", 1))), NOTHING);
    assert_eq!(play.at(0, event(&pod("a", 1))), NOTHING);
    assert_eq!(play.done(0, "b", ActionResult::Failed("no answer".into())).last().unwrap(), "Repair a");
    assert_eq!(play.done(0, "a", proven(Written::Created)).last().unwrap(), "Repair c");
    assert_eq!(play.controller.wake(), Some(Time::from_millis(500)), "the survey; repair is busy");
}

#[test]
fn a_crowd_is_repaired_at_the_node_s_pace() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    play.controller = Controller::new(rules(&[RepairPolicy::Delete]), Pace::new(Duration::from_secs(10), 2));
    let mut deleted = 0;
    for uid in ["a", "b", "c"] {
        deleted += play.at(0, event(&pod(uid, 1))).len();
        deleted += play
            .done(0, uid, ActionResult::Accepted)
            .iter()
            .filter(|one| one.starts_with("Delete ") && one.len() == 8)
            .count();
    }
    assert_eq!(deleted, 2);
    assert_eq!(play.controller.pods["c"].due, Some(Time::ZERO));
    assert!(play.at(10, RepairEvent::Tick).contains(&"Delete c".to_owned()));
}

#[test]
fn other_rules_count_at_once() {
    let mut play = Play::new(&[]);
    play.at(0, event(&pod("a", 1)));
    assert_eq!(play.at(0, RepairEvent::Rules(changed(&[RepairPolicy::Delete], |_| {}))), ["Delete a"]);
}

#[test]
fn what_was_done_is_done_again_only_if_the_rules_ask_for_something_else() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    assert_eq!(play.at(0, event(&pod("a", 1))), ["Repair a"]);
    assert_eq!(play.done(0, "a", proven(Written::Created)).len(), 3);
    let other = || excluding(&[RepairPolicy::Repair]);
    assert_eq!(play.at(1, RepairEvent::Rules(other())), NOTHING, "its container has not run since");
    assert_eq!(play.at(1, event(&pod("b", 1))), ["Repair b"]);
    play.done(1, "b", no_namespace());
    assert_eq!(play.at(1, RepairEvent::Rules(Box::new(rules(&[RepairPolicy::Repair])))), NOTHING);
    assert_eq!(play.at(2, RepairEvent::Tick), ["Repair b", "look at b"], "it waits as long as before");
    play.done(2, "b", no_namespace());
    assert_eq!(play.at(3, RepairEvent::Rules(Box::new(rules(&[RepairPolicy::Delete])))), ["Delete a"]);
}

#[test]
fn a_repaired_pod_is_not_deleted_for_a_run_before_its_repair_because_the_policy_changed() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(10, event(&begun(pod("a", 1), 2)));
    assert_eq!(play.done(12, "a", proven(Written::Created)).len(), 3);
    assert_eq!(play.acts(13, RepairEvent::Rules(changed(&[RepairPolicy::Delete], |_| {}))), NOTHING);
    assert_eq!(play.acts(41, event(&begun(pod("a", 2), 33))), ["Delete a"]);
}

#[test]
fn a_pod_that_was_there_before_a_deletion_says_nothing_of_it_after_other_rules_either() {
    let mut play = Play::new(&[RepairPolicy::Delete]);
    let mut up = owned("b", 1);
    up["status"]["initContainerStatuses"][0]["state"] =
        json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    play.at(0, event(&up));
    assert_eq!(play.acts(1, event(&owned("a", 1))), ["Delete a"]);
    play.done(1, "a", ActionResult::Accepted);
    play.at(1, RepairEvent::Gone("a".into()));
    let other = excluding(&[RepairPolicy::Delete]);
    play.at(2, RepairEvent::Rules(other));
    assert_eq!(play.acts(2, event(&owned("c", 1))), NOTHING, "the next generation waits");
}

#[test]
fn a_name_that_is_used_again_is_another_pod() {
    let mut play = Play::new(&[RepairPolicy::Repair]);
    play.at(0, event(&pod("a", 1)));
    play.done(0, "a", no_namespace());
    assert_eq!(play.at(0, RepairEvent::Gone("a".into())), NOTHING);
    assert_eq!(play.at(0, event(&pod("b", 1))), ["Repair b"], "without the former one's waiting");
}
