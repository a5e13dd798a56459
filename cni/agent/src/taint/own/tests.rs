// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::api::testing::{Script, Scripted};
use crate::readiness::Part;
use crate::settings::load;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

const TAINTED_RIGHT: Seen = Seen { tainted: true, right: true, settings: 0 };
const TAINTED_WRONG: Seen = Seen { tainted: true, right: false, settings: 0 };
const CLEAN_RIGHT: Seen = Seen { tainted: false, right: true, settings: 0 };
const CLEAN_WRONG: Seen = Seen { tainted: false, right: false, settings: 0 };

#[test]
fn what_a_setting_breaks_on_all_nodes_at_once_taints_none() {
    let other = |seen: Seen| Seen { settings: 1, ..seen };
    let mut course = TaintSchedule::default();
    assert_eq!(course.decide(CLEAN_RIGHT, seconds(0)), Next::Wait(None));
    assert_eq!(course.decide(other(CLEAN_RIGHT), seconds(9)), Next::Wait(None), "nobody has looked yet");
    assert_eq!(course.decide(other(CLEAN_WRONG), seconds(10)), Next::Wait(None));
    assert_eq!(course.decide(other(CLEAN_WRONG), seconds(3600)), Next::Wait(None), "for as long as it lasts");
    assert_eq!(course.decide(CLEAN_RIGHT, seconds(3700)), Next::Wait(None), "the setting is taken back");
    assert_eq!(
        course.decide(CLEAN_WRONG, seconds(3800)),
        Next::Wait(Some(seconds(3830))),
        "this node's own loss"
    );
    assert_eq!(
        course.decide(other(CLEAN_WRONG), seconds(3830)),
        Next::Do(Deed::Add),
        "which no later setting excuses"
    );
}

#[test]
fn a_changed_setting_with_which_all_is_right_is_none_that_broke_anything() {
    let mut course = TaintSchedule::default();
    course.decide(CLEAN_RIGHT, seconds(0));
    assert_eq!(course.decide(Seen { settings: 1, ..CLEAN_RIGHT }, seconds(1)), Next::Wait(None));
    let lost = Seen { settings: 1, ..CLEAN_WRONG };
    assert_eq!(course.decide(lost, seconds(40)), Next::Wait(Some(seconds(70))));
    assert_eq!(course.decide(lost, seconds(70)), Next::Do(Deed::Add));
}

#[test]
fn the_taint_goes_when_all_is_right_and_comes_back_after_the_grace() {
    let mut course = TaintSchedule::default();
    assert_eq!(course.decide(TAINTED_WRONG, seconds(0)), Next::Wait(None));
    assert_eq!(course.decide(TAINTED_RIGHT, seconds(50)), Next::Do(Deed::Remove));
    course.ended(&PatchOutcome::Gone, seconds(50));
    let due = seconds(50) + Duration::from_millis(100);
    assert_eq!(course.decide(TAINTED_RIGHT, seconds(50)), Next::Wait(Some(due)), "not heard of yet");
    assert_eq!(course.decide(CLEAN_RIGHT, seconds(51)), Next::Wait(None));
    assert_eq!(course.decide(CLEAN_WRONG, seconds(60)), Next::Wait(Some(seconds(90))));
    assert_eq!(course.decide(CLEAN_RIGHT, seconds(80)), Next::Wait(None), "healed in time");
    assert_eq!(course.decide(CLEAN_WRONG, seconds(81)), Next::Wait(Some(seconds(111))));
    assert_eq!(course.decide(CLEAN_WRONG, seconds(111)), Next::Do(Deed::Add));
}

#[test]
fn a_start_without_a_taint_has_the_grace_to_become_right() {
    let mut course = TaintSchedule::default();
    assert_eq!(course.decide(CLEAN_WRONG, seconds(0)), Next::Wait(Some(GRACE)));
    assert_eq!(course.decide(CLEAN_WRONG, GRACE), Next::Do(Deed::Add));
}

#[test]
fn what_failed_is_tried_again_later_unless_it_is_not_needed_any_more() {
    let mut course = TaintSchedule::default();
    assert_eq!(course.decide(TAINTED_RIGHT, seconds(0)), Next::Do(Deed::Remove));
    course.ended(&PatchOutcome::Failed, seconds(1));
    let due = seconds(1) + Duration::from_millis(100);
    assert_eq!(course.decide(TAINTED_RIGHT, seconds(1)), Next::Wait(Some(due)));
    assert_eq!(course.decide(TAINTED_RIGHT, due), Next::Do(Deed::Remove));
    course.ended(&PatchOutcome::Failed, due);
    assert_eq!(course.decide(CLEAN_RIGHT, due), Next::Wait(None));
    assert_eq!(course.decide(TAINTED_RIGHT, due), Next::Do(Deed::Remove), "and then it begins anew");
}

/// Own taint with a server of these responses.
fn own(answers: Vec<Scripted>) -> (OwnTaint, Script) {
    let (script, metrics) = (Script::new(answers), Metrics::default());
    let (recorder, _) = crate::events::channel(metrics.clone(), "n");
    let settings = load(BTreeMap::new(), &BTreeMap::new(), |_| false).settings;
    let own = OwnTaint {
        key: "ours".to_owned(),
        node: "n".to_owned(),
        client: script.client(),
        runtime: Runtime::new(Readiness::default()),
        readiness: Readiness::default(),
        settings: watch::channel(Arc::new(settings)).1,
        metrics,
        recorder,
        installs: watch::channel(true).1,
    };
    (own, script)
}

fn answer(taints: &serde_json::Value) -> Scripted {
    Scripted::new(200, json!({"metadata": {"name": "n"}, "spec": {"taints": taints}}).to_string())
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_leaves_the_node_to_another_leaves_its_taint() {
    let (mut own, script) = own(vec![answer(&json!([]))]);
    let (role, installs) = watch::channel(false);
    own.installs = installs;
    Part::ALL.into_iter().for_each(|part| own.readiness.set_ready(part));
    let taints = Some(vec![json!({"key": "ours"})]);
    let node = Some(Node { taints, ..Node::default() });
    let (_told, watched) = watch::channel(Report { node, number: 1 });
    for (is_installer, requests) in [(false, 0), (true, 1)] {
        role.send_replace(is_installer);
        let minded = timeout(GRACE * 2, own.mind(watched.clone())).await;
        assert_eq!((minded.is_err(), script.asked().len()), (true, requests), "{is_installer}");
    }
}

/// The node as the watch reports it.
fn reported(version: Option<u64>, taints: &serde_json::Value) -> Option<Node> {
    let taints = taints.as_array().cloned();
    Some(Node { name: "n".to_owned(), version, taints, ..Node::default() })
}

fn answer_at(version: Option<u64>, taints: &serde_json::Value) -> Scripted {
    let version = version.map(|version| version.to_string());
    let metadata = json!({"name": "n", "resourceVersion": version.unwrap_or_default()});
    Scripted::new(200, json!({"metadata": metadata, "spec": {"taints": taints}}).to_string())
}

/// Requests after each report of a watch that lags behind the response to the agent's own patch.
async fn requests_of(versions: [Option<u64>; 4]) -> Vec<usize> {
    let (tainted, free) = (json!([{"key": "ours"}]), json!([]));
    let [before, patched, heard, back] = versions;
    let (own, script) = own(vec![answer_at(patched, &free), answer_at(Some(99), &free)]);
    Part::ALL.into_iter().for_each(|part| own.readiness.set_ready(part));
    let (watch, watched) = watch::channel(Report { node: reported(before, &tainted), number: 1 });
    let minding = tokio::spawn(async move { own.mind(watched).await });
    let mut requests = Vec::new();
    for (version, taints) in [(None, None), (heard, Some(&free)), (back, Some(&tainted))] {
        if let Some(taints) = taints {
            watch.send_modify(|report| report.report(reported(version, taints)));
        }
        // Less than any backoff, and more than a request takes: the time stands still while one is answered.
        pause(Duration::from_millis(1)).await;
        requests.push(script.asked().len());
    }
    minding.abort();
    requests
}

#[tokio::test(start_paused = true)]
async fn a_taint_that_comes_back_after_the_agent_s_own_patch_is_removed_however_late_the_watch_is() {
    for versions in [
        [Some(5), Some(7), Some(7), Some(8)],
        // The report of the agent's own patch is skipped: a watch channel keeps the last report alone.
        [Some(5), Some(7), Some(6), Some(8)],
        // Versions that cannot be compared.
        [None, None, None, None],
    ] {
        assert_eq!(requests_of(versions).await, [1, 1, 2], "{versions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_from_before_the_patch_counts_no_longer_than_a_watch_can_lag() {
    let (tainted, free) = (json!([{"key": "ours"}]), json!([]));
    let (own, script) = own(vec![answer_at(Some(7), &free), answer_at(Some(4), &free)]);
    Part::ALL.into_iter().for_each(|part| own.readiness.set_ready(part));
    let (watch, watched) = watch::channel(Report { node: reported(Some(5), &tainted), number: 1 });
    let minding = tokio::spawn(async move { own.mind(watched).await });
    pause(Duration::from_millis(1)).await;
    watch.send_modify(|report| report.report(reported(Some(3), &tainted)));
    pause(Duration::from_secs(9)).await;
    assert_eq!(script.asked().len(), 1, "a slow watch");
    pause(Duration::from_secs(2)).await;
    assert_eq!(script.asked().len(), 2, "a restored etcd");
    minding.abort();
}

#[tokio::test(start_paused = true)]
async fn restoring_goes_on_after_failures_until_it_is_done() {
    let (free, tainted) = (|| answer(&json!([])), || answer(&json!([{"key": "ours"}])));
    let failure = |code| Scripted::new(code, "{}");
    let (_open, hanging) = Scripted::streamed();
    for (answers, requests) in [
        (vec![failure(503), free(), failure(429), free(), tainted()], 5),
        (vec![failure(404), free(), failure(404), free(), tainted()], 5),
        (vec![hanging, free(), failure(500), tainted()], 4),
        (vec![free(), failure(409), free(), free(), tainted()], 5),
    ] {
        let (own, script) = own(answers);
        let start = Instant::now();
        own.restore().await;
        assert_eq!(script.asked().len(), requests);
        assert!(start.elapsed() < RESTORE_LIMIT, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn restoring_ends_when_it_is_denied_or_the_node_is_gone_or_time_is_up() {
    let free = || answer(&json!([]));
    for refusal in [|| Scripted::new(403, "{}"), || Scripted::absent("nodes", "n")] {
        for answers in [vec![refusal(), free()], vec![free(), refusal(), free()]] {
            let requests = answers.len() - 1;
            let (own, script) = own(answers);
            own.restore().await;
            assert_eq!(script.asked().len(), requests);
        }
    }
    let (own, script) = own((0..99).map(|_| Scripted::new(503, "{}")).collect());
    let start = Instant::now();
    own.restore().await;
    assert_eq!((start.elapsed(), script.asked().len()), (RESTORE_LIMIT, 6), "0, 0.1, 0.3, 0.7, 1.5, 3.1 s");
}
