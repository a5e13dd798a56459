// SPDX-License-Identifier: Apache-2.0
//! A follower against a scripted server, in the test's own time.

use futures::channel::mpsc::UnboundedSender;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::super::testing::{Script, Scripted};
use super::*;

type Piece = Result<bytes::Bytes, std::io::Error>;

fn list(version: &str, names: &[&str], next: &str) -> Scripted {
    let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    let metadata = json!({"resourceVersion": version, "continue": next});
    Scripted::new(200, json!({"kind": "PodList", "metadata": metadata, "items": items}).to_string())
}

fn event(kind: &str, version: &str, name: &str) -> String {
    let object = json!({"metadata": {"name": name, "resourceVersion": version}});
    format!("{}\n", json!({"type": kind, "object": object}))
}

struct Run {
    script: Script,
    changes: UnboundedReceiver<Change<Value>>,
    _stop: tokio_util::sync::DropGuard,
}

fn run(answers: impl IntoIterator<Item = Scripted>) -> Run {
    follow(Script::new(answers))
}

fn follow(script: Script) -> Run {
    let (sender, changes) = unbounded_channel();
    let resource = Resource::pods_of("n").unwrap();
    let following = Following { client: script.client(), resource, seed: 7 };
    let cancel = CancellationToken::new();
    let stop = cancel.clone().drop_guard();
    tokio::spawn(async move { following.run(|change| sender.send(change).unwrap(), &cancel).await });
    Run { script, changes, _stop: stop }
}

impl Run {
    /// Next change, abbreviated.
    async fn next(&mut self) -> String {
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
        match self.changes.recv().await.unwrap() {
            Change::All(all) => format!("all {}", all.iter().map(name).collect::<Vec<_>>().join(",")),
            Change::Set(object) => format!("set {}", name(&object)),
            Change::Removed(object) => format!("removed {}", name(&object)),
            Change::Alive => "alive".to_owned(),
            Change::Lost(lost) => format!("lost: {}", lost.reason.name()),
        }
    }

    async fn expect<const N: usize>(&mut self, expected: [&str; N]) {
        for expected in expected {
            assert_eq!(self.next().await, expected);
        }
    }

    /// Requests, abbreviated: kind and resource version.
    fn asked(&self) -> Vec<String> {
        let short = |uri: &String| {
            let value = |key: &str| {
                let pair = uri.split(['?', '&']).find_map(|pair| pair.strip_prefix(key));
                pair.and_then(|rest| rest.strip_prefix('=')).unwrap_or("-").to_owned()
            };
            let kind = match () {
                () if uri.contains("sendInitialEvents=true") => "stream",
                () if uri.contains("watch=true") => "watch",
                () => "list",
            };
            format!("{kind} {} {}", value("resourceVersion"), value("continue"))
        };
        self.script.asked().iter().map(short).collect()
    }
}

fn send(sender: &UnboundedSender<Piece>, text: impl Into<bytes::Bytes>) {
    sender.unbounded_send(Ok(text.into())).unwrap();
}

#[tokio::test(start_paused = true)]
async fn pages_are_one_list_and_events_follow() {
    let (events, watch) = Scripted::streamed();
    let mut run = run([list("5", &["a", "b"], "more"), list("5", &["c"], ""), watch]);
    run.expect(["all a,b,c", "alive"]).await;
    let text = event("ADDED", "6", "d") + &event("DELETED", "7", "a") + &event("BOOKMARK", "9", "");
    // In pieces that end anywhere.
    for piece in text.as_bytes().chunks(7) {
        send(&events, piece.to_vec());
    }
    run.expect(["set d", "removed a", "alive"]).await;
    // The stream ends: it goes on from the bookmark, at once.
    let (_open, watch) = Scripted::streamed();
    run.script.push(watch);
    let before = Instant::now();
    drop(events);
    run.expect(["lost: ended", "alive"]).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(run.asked(), ["list 0 -", "list - more", "watch 5 -", "watch 9 -"]);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_followed_by_a_list_whichever_way_it_is_said() {
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}});
    let (_open, watch) = Scripted::streamed();
    let mut run = run([
        list("5", &["a"], ""),
        Scripted::new(410, json!({"kind": "Status", "code": 410}).to_string()),
        list("8", &["b"], ""),
        Scripted::new(200, format!("{gone}\n")),
        list("9", &["c"], ""),
        watch,
    ]);
    run.expect(["all a", "lost: expired", "all b", "alive", "lost: expired", "all c", "alive"]).await;
    let expected = ["list 0 -", "watch 5 -", "list 5 -", "watch 8 -", "list 8 -", "watch 9 -"];
    assert_eq!(run.asked(), expected);
}

#[tokio::test(start_paused = true)]
async fn only_a_second_refusal_leads_to_a_read_of_what_is_true_now() {
    let gone = || Scripted::new(410, json!({"kind": "Status", "code": 410}).to_string());
    let (_open, watch) = Scripted::streamed();
    let mut run = run([list("5", &["a"], ""), gone(), gone(), list("8", &["b"], ""), watch]);
    run.expect(["all a", "lost: expired", "lost: expired", "all b", "alive"]).await;
    assert_eq!(run.asked(), ["list 0 -", "watch 5 -", "list 5 -", "list - -", "watch 8 -"]);
}

fn initial_end(version: &str) -> String {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let object = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
    format!("{}\n", json!({"type": "BOOKMARK", "object": object}))
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_one_request_and_told_as_a_whole() {
    let (events, watch) = Scripted::streamed();
    let mut run = follow(Script::streaming([watch]));
    // Objects have the versions of their last change, and changes may come in between.
    let text = event("ADDED", "3", "a") + &event("ADDED", "2", "b") + &event("ADDED", "4", "c");
    send(&events, text + &event("DELETED", "6", "b") + &event("MODIFIED", "7", "c"));
    assert!(
        tokio::time::timeout(Duration::from_secs(1), run.next()).await.is_err(),
        "nothing is told by halves"
    );
    send(&events, initial_end("7") + &event("ADDED", "8", "d"));
    run.expect(["all a,c", "set d"]).await;
    // It expires: what is not older than the last event is streamed.
    let (second, watch) = Scripted::streamed();
    run.script.push(watch);
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}});
    send(&events, format!("{gone}\n"));
    send(&second, event("ADDED", "3", "a") + &initial_end("9"));
    run.expect(["lost: expired", "all a"]).await;
    assert_eq!(run.asked(), ["stream 0 -", "stream 8 -"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_never_ends_is_given_up_for_an_ordinary_one() {
    let (events, endless) = Scripted::streamed();
    let (_open, watch) = Scripted::streamed();
    let mut run = follow(Script::streaming([endless, list("5", &["a"], ""), watch]));
    send(&events, event("ADDED", "3", "a"));
    let before = Instant::now();
    run.expect(["lost: stalled"]).await;
    assert_eq!(before.elapsed(), LIST_LIMIT);
    run.expect(["all a", "alive"]).await;
    assert_eq!(run.asked(), ["stream 0 -", "list 0 -", "watch 5 -"]);
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_breaks_off_is_not_believed() {
    let (events, broken) = Scripted::streamed();
    let (_open, watch) = Scripted::streamed();
    let mut run = follow(Script::streaming([broken, list("5", &["b"], ""), watch]));
    send(&events, event("ADDED", "3", "a"));
    drop(events);
    run.expect(["lost: ended", "all b", "alive"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_renewed_and_bookmarks_keep_it() {
    let (events, watch) = Scripted::streamed();
    let (_open, second) = Scripted::streamed();
    let mut run = run([list("5", &[], ""), watch, second]);
    run.expect(["all ", "alive"]).await;
    for version in 6..9 {
        tokio::time::advance(STALL_LIMIT - Duration::from_secs(1)).await;
        send(&events, event("BOOKMARK", &version.to_string(), ""));
        run.expect(["alive"]).await;
    }
    let before = Instant::now();
    run.expect(["lost: stalled"]).await;
    assert_eq!(before.elapsed(), STALL_LIMIT);
    run.expect(["alive"]).await;
    assert_eq!(run.asked()[2], "watch 8 -");
}

#[tokio::test(start_paused = true)]
async fn bytes_that_drip_in_are_no_sign_of_life() {
    let (events, watch) = Scripted::streamed();
    let mut run = run([list("5", &[], ""), watch]);
    run.expect(["all ", "alive"]).await;
    let before = Instant::now();
    let dripping = async {
        let mut every = tokio::time::interval(Duration::from_secs(20));
        for byte in event("ADDED", "6", "a").bytes() {
            every.tick().await;
            let _ = events.unbounded_send(Ok(vec![byte].into()));
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = dripping => {}
        changes = run.next() => assert_eq!(changes, "lost: stalled"),
    }
    assert_eq!(before.elapsed(), STALL_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn a_dripping_list_and_a_silent_server_are_given_up() {
    let (drip, slow) = Scripted::streamed();
    send(&drip, r#"{"items":[{"metadata":"#);
    let mut run = run([slow]);
    let before = Instant::now();
    run.expect(["lost: disconnected"]).await;
    assert_eq!(before.elapsed(), LIST_LIMIT);
    // Nobody answers the next one at all.
    run.expect(["lost: disconnected"]).await;
    assert_eq!(run.asked(), ["list 0 -", "list 0 -"]);
}

#[tokio::test(start_paused = true)]
async fn what_breaks_off_goes_on_from_the_last_whole_event() {
    let (events, watch) = Scripted::streamed();
    let (broken, second) = Scripted::streamed();
    let (_open, third) = Scripted::streamed();
    let mut run = run([list("5", &[], ""), watch, second, third]);
    send(&events, event("ADDED", "6", "a") + "{\"type\":\"ADDED\",\"obj");
    drop(events);
    run.expect(["all ", "alive", "set a", "lost: disconnected", "alive"]).await;
    broken.unbounded_send(Err(std::io::Error::other("reset"))).unwrap();
    run.expect(["lost: disconnected", "alive"]).await;
    assert_eq!(run.asked()[1..], ["watch 5 -", "watch 6 -", "watch 6 -"]);
}

#[tokio::test(start_paused = true)]
async fn a_truncated_list_is_not_believed() {
    let (_open, watch) = Scripted::streamed();
    let whole =
        json!({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"name": "a"}}]}).to_string();
    let cut = whole[..whole.len() - 1].to_owned();
    let mut run = run([Scripted::new(200, cut), list("6", &["b"], ""), watch]);
    run.expect(["lost: malformed", "all b", "alive"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_left_alone_for_as_long_as_it_says() {
    let mut run = run([
        Scripted::new(429, "").with("retry-after", "9"),
        list("5", &[], ""),
        Scripted::new(503, "").with("retry-after", "3"),
    ]);
    let before = Instant::now();
    run.expect(["lost: throttled", "all "]).await;
    assert!((9..10).contains(&before.elapsed().as_secs()), "{:?}", before.elapsed());
    run.expect(["lost: server_error"]).await;
    assert_eq!(run.asked(), ["list 0 -", "list 0 -", "watch 5 -"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_requests() {
    let mut run = run((0..200).map(|_| Scripted::new(500, "")));
    let failing = async {
        loop {
            assert_eq!(run.next().await, "lost: server_error");
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(3600), failing).await.is_err());
    let asked = run.asked().len();
    assert!((120..200).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_does_not_stop_the_others() {
    let items = json!({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": 7}, {"metadata": {"name": "a"}}]});
    let (events, watch) = Scripted::streamed();
    let script = Script::new([Scripted::new(200, items.to_string()), watch]);
    let (sender, mut changes) = unbounded_channel();
    let following = Following { client: script.client(), resource: Resource::pods_of("n").unwrap(), seed: 1 };
    let cancel = CancellationToken::new();
    let _stop = cancel.clone().drop_guard();
    tokio::spawn(async move {
        following.run(|change: Change<crate::pods::NodePod>| sender.send(change).unwrap(), &cancel).await;
    });
    let Some(Change::All(all)) = changes.recv().await else { panic!() };
    assert_eq!(all.iter().map(|pod| pod.metadata.facts.name.as_str()).collect::<Vec<_>>(), ["a"]);
    let bad = json!({"type": "ADDED", "object": {"metadata": {"resourceVersion": "6"}, "spec": 7}});
    send(&events, format!("{bad}\n") + &event("ADDED", "7", "b"));
    assert_eq!(changes.recv().await, Some(Change::Alive));
    let Some(Change::Set(pod)) = changes.recv().await else { panic!() };
    assert_eq!(pod.metadata.facts.name, "b");
}
