// SPDX-License-Identifier: Apache-2.0
//! The aggregator with times that it is told, and the writer against a scripted API server in process, in paused time.

use std::convert::Infallible;
use std::sync::Mutex;

use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use serde_json::Value;

use super::aggregator::{FORGET, MOST, WINDOW};
use super::*;
use crate::metrics::Exposition;

fn pod(name: &str) -> About {
    About::Pod { namespace: "shop".to_owned(), name: name.to_owned(), uid: format!("u-{name}") }
}

fn note(name: &str, message: &str) -> Note {
    Note { about: pod(name), reason: EventReason::RepairFailed, message: message.to_owned() }
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(1_772_000_000 + second).unwrap()
}

#[test]
fn a_crash_loop_is_one_event_and_a_write_a_window() {
    let (mut aggregator, start) = (Aggregator::default(), Instant::now());
    let mut writes = Vec::new();
    for second in 0..60 {
        let now = start + Duration::from_secs(second);
        writes.extend(aggregator.note(
            note("cart", &format!("try {second}")),
            now,
            wall(second.cast_signed()),
        ));
    }
    assert_eq!(writes.len(), 6, "one new, then one a window: {writes:#?}");
    let PendingWrite::New(first) = &writes[0] else { panic!("{writes:?}") };
    let PendingWrite::Count(last) = &writes[5] else { panic!("{writes:?}") };
    assert_eq!((first.count, last.count), (1, 51));
    assert_eq!(first.name, last.name);
    assert_eq!((last.first, last.last), (wall(0), wall(50)));
    assert_eq!(last.note.message, "try 50");
    let due = aggregator.due().unwrap();
    assert_eq!(due, start + Duration::from_secs(60));
    assert!(aggregator.flush(due - Duration::from_millis(1)).is_empty());
    assert_eq!(aggregator.flush(due)[0].entry().count, 60, "nothing is forgotten at the end");
    assert_eq!(aggregator.due(), None);
}

#[test]
fn each_setting_that_is_refused_has_an_event_of_its_own() {
    let (mut aggregator, start) = (Aggregator::default(), Instant::now());
    let about = About::Node("n".to_owned());
    let refused = |message: &str| Note {
        about: about.clone(),
        reason: EventReason::SettingRefused,
        message: message.to_owned(),
    };
    for (second, message) in (0..).zip(["LOG_AS_JSON=\"x\" is wrong", "MONITORING_PORT=\"x\" is wrong"]) {
        let write = aggregator.note(refused(message), start, wall(second));
        assert!(matches!(write, Some(PendingWrite::New(entry)) if entry.note.message == message));
    }
    assert_eq!(aggregator.note(refused("LOG_AS_JSON=\"y\" is wrong"), start, wall(2)), None, "it counts");
}

#[test]
fn other_pods_reasons_and_hours_are_other_events() {
    let (mut aggregator, start) = (Aggregator::default(), Instant::now());
    let other = Note { reason: EventReason::UnredirectedPod, ..note("cart", "m") };
    let mut same_name = note("cart", "m");
    same_name.about =
        About::Pod { namespace: "shop".to_owned(), name: "cart".to_owned(), uid: "u-2".to_owned() };
    let mut names = std::collections::BTreeSet::new();
    for (index, note) in [note("cart", "m"), note("till", "m"), other, same_name].into_iter().enumerate() {
        let write = aggregator.note(note, start, wall(index as i64)).unwrap();
        assert!(
            matches!(write, PendingWrite::New(_)) && names.insert(write.entry().name.clone()),
            "{write:?}"
        );
    }
    let later = aggregator.note(note("cart", "m"), start + FORGET, wall(3600)).unwrap();
    assert!(matches!(later, PendingWrite::New(_)) && names.insert(later.entry().name.clone()), "{later:?}");
}

#[test]
fn a_clock_set_back_ends_no_event_before_it_began_and_memory_is_bounded() {
    let (mut aggregator, start) = (Aggregator::default(), Instant::now());
    aggregator.note(note("cart", "m"), start, wall(100));
    let write = aggregator.note(note("cart", "m"), start + WINDOW, wall(0)).unwrap();
    assert_eq!(write.entry().last, wall(100));
    for index in 0..2 * MOST {
        aggregator.note(note(&format!("p{index}"), "m"), start + WINDOW * 2, wall(200));
    }
    let again = aggregator.note(note("cart", "m"), start + WINDOW * 3, wall(300)).unwrap();
    assert!(matches!(again, PendingWrite::New(_)), "the oldest made place");
}

/// Recorded requests, and scripted responses; then 201.
#[derive(Clone, Default)]
struct Script {
    asked: Arc<Mutex<Vec<(String, String, Value)>>>,
    answers: Arc<Mutex<Vec<u16>>>,
}

impl Script {
    fn client(&self) -> kube::Client {
        let script = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let script = script.clone();
            async move {
                let (head, body) = request.into_parts();
                let body: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
                script.asked.lock().unwrap().push((
                    head.method.to_string(),
                    head.uri.path().to_owned(),
                    body,
                ));
                let mut answers = script.answers.lock().unwrap();
                let code = if answers.is_empty() { 201 } else { answers.remove(0) };
                let answer = if code < 300 {
                    json!({"apiVersion": "v1", "kind": "Event", "metadata": {}, "involvedObject": {}})
                } else {
                    json!({"kind": "Status", "status": "Failure", "code": code, "message": "scripted", "reason": "Scripted"})
                };
                let body = Full::new(bytes::Bytes::from(answer.to_string()));
                Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    fn asked(&self) -> Vec<(String, String, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

fn dropped(metrics: &Metrics) -> String {
    let text = metrics.scrape(Exposition::Prometheus).unwrap();
    text.lines().find_map(|line| line.strip_prefix("millrace_events_dropped_total ")).unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_is_written_is_an_event_as_upstreams_about_that_very_pod() {
    let (script, metrics) = (Script::default(), Metrics::default());
    let (recorder, writer) = channel(metrics.clone(), "node-1");
    recorder.record(pod("cart"), EventReason::DeleteBrokenPod, "pod detected as broken, deleted");
    recorder.record(pod("cart"), EventReason::DeleteBrokenPod, "pod detected as broken, deleted");
    let task = tokio::spawn(writer.run(script.client()));
    // Time passes by itself when nothing else is left to do: the window of the second occurrence ends.
    timeout(WINDOW * 2, std::future::pending::<()>()).await.unwrap_err();
    drop(recorder);
    task.await.unwrap();
    let asked = script.asked();
    assert_eq!(asked.len(), 2, "{asked:#?}");
    let (method, path, event) = &asked[0];
    assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/namespaces/shop/events"));
    assert_eq!(event["reason"], "DeleteBrokenPod");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["source"], json!({"component": "cni-repair", "host": "node-1"}));
    assert_eq!(
        event["involvedObject"],
        json!({"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "cart", "uid": "u-cart"})
    );
    assert_eq!(event["count"], 1);
    let (method, path, patch) = &asked[1];
    let name = event["metadata"]["name"].as_str().unwrap();
    assert_eq!((method.as_str(), path.clone()), ("PATCH", format!("/api/v1/namespaces/shop/events/{name}")));
    assert_eq!(patch["count"], 2);
    assert_eq!(dropped(&metrics), "0");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_asked_again_and_one_that_forbids_is_not() {
    for (answers, tries, lost) in
        [(vec![500, 429], 3, "0"), (vec![503; 9], 4, "1"), (vec![403], 1, "1"), (vec![404], 1, "1")]
    {
        let (script, metrics) = (Script::default(), Metrics::default());
        script.answers.lock().unwrap().clone_from(&answers);
        let (recorder, writer) = channel(metrics.clone(), "node-1");
        recorder.record(pod("cart"), EventReason::UnredirectedPod, "m");
        drop(recorder);
        writer.run(script.client()).await;
        assert_eq!((script.asked().len(), dropped(&metrics).as_str()), (tries, lost), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn counts_that_wait_are_written_at_once_when_nobody_records_any_more() {
    let (script, begin) = (Script::default(), Instant::now());
    let (recorder, writer) = channel(Metrics::default(), "node-1");
    for name in ["cart", "cart", "till"] {
        recorder.record(pod(name), EventReason::UnredirectedPod, "m");
    }
    drop(recorder);
    writer.run(script.client()).await;
    let asked: Vec<_> =
        script.asked().into_iter().map(|(method, _, event)| (method, event["count"].clone())).collect();
    assert_eq!(
        asked,
        [("POST", 1), ("POST", 1), ("PATCH", 2)].map(|(method, count)| (method.to_owned(), json!(count)))
    );
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_nobody_waits() {
    let metrics = Metrics::default();
    let (recorder, _writer) = channel(metrics.clone(), "node-1");
    for index in 0..QUEUE + 3 {
        recorder.record(pod(&format!("p{index}")), EventReason::UnredirectedPod, "m");
    }
    assert_eq!(dropped(&metrics), "3");
}

#[test]
fn what_came_of_it_is_told_at_once_after_failures() {
    let (mut aggregator, start) = (Aggregator::default(), Instant::now());
    let failed = Note { reason: EventReason::DeleteFailed, ..note("cart", "failed to delete it") };
    let done = Note { reason: EventReason::DeleteBrokenPod, ..note("cart", "deleted") };
    assert!(aggregator.note(failed.clone(), start, wall(0)).is_some());
    assert!(aggregator.note(failed, start, wall(1)).is_none(), "it counts");
    assert_eq!(aggregator.note(done, start, wall(1)).unwrap().entry().note.message, "deleted");
}

#[test]
fn reasons_have_names_that_differ_and_upstreams_are_upstreams() {
    let names: std::collections::BTreeSet<_> = EventReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), EventReason::ALL.len() - 2, "what failed is called as what did not");
    assert!(names.contains("DeleteBrokenPod") && names.contains("LabelBrokenPod"));
    let node = About::Node("node-1".to_owned());
    assert_eq!((node.namespace(), node.reference().uid.as_deref()), ("default", Some("node-1")));
}
