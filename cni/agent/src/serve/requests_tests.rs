// SPDX-License-Identifier: Apache-2.0
//! The server on a real socket, over a cache and a scripted API server.

use std::path::Path;

use protocol::agent::PodKey;
use serde_json::{Value, json};

use super::super::socket::{self, SocketFile};
use super::*;
use crate::api::{Change, testing::Script, testing::Scripted};
use crate::metrics::{Exposition, Metrics};
use crate::pods::Pods;

struct Node {
    dir: tempfile::TempDir,
    pods: Pods,
    script: Script,
    metrics: Metrics,
    _file: SocketFile,
    _stop: tokio_util::sync::DropGuard,
}

fn pod(name: &str, uid: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": uid}})
}

fn node(limits: Limits, answers: impl IntoIterator<Item = Scripted>) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let (listener, file) = socket::open(&dir.path().join("agent.sock"), 0o600).unwrap();
    let (pods, script, cancel) = (Pods::default(), Script::new(answers), CancellationToken::new());
    let metrics = Metrics::default();
    let lookup = Lookup::new(pods.clone(), Some(script.client()), metrics.clone());
    let stop = cancel.clone().drop_guard();
    tokio::spawn(answer(listener, lookup, limits, cancel));
    Node { dir, pods, script, metrics, _file: file, _stop: stop }
}

async fn send(dir: &Path, text: impl AsRef<[u8]>) -> Option<Value> {
    let mut stream = UnixStream::connect(dir.join("agent.sock")).await.unwrap();
    let _ = stream.write_all(text.as_ref()).await;
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply).await;
    (!reply.is_empty()).then(|| serde_json::from_slice(&reply).unwrap())
}

impl Node {
    async fn ask(&self, name: &str, uid: &str) -> Value {
        let key = PodKey {
            network: String::new(),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..PodKey::default()
        };
        let request = Request { version: VERSION, kind: RequestKind::Pod(key) };
        send(self.dir.path(), encode_line(&request).unwrap()).await.unwrap()
    }

    fn lists(&self, pods: &[Value]) {
        let read = |pod: &Value| serde_json::from_value(pod.clone()).unwrap();
        self.pods.hear(Change::All(pods.iter().map(read).collect()));
    }
}

fn uid(reply: &Value) -> &str {
    reply["pod"]["metadata"]["uid"].as_str().unwrap_or("-")
}

#[tokio::test]
async fn a_synced_cache_answers_a_storm_without_a_request() {
    let node = node(Limits::default(), []);
    let pods: Vec<Value> = (0..110).map(|n| pod(&format!("p{n}"), &format!("u{n}"))).collect();
    node.lists(&pods);
    let names: Vec<String> = (0..110).map(|n| n.to_string()).collect();
    let replies = futures::future::join_all(
        names.iter().map(async |n| node.ask(&format!("p{n}"), &format!("u{n}")).await),
    )
    .await;
    for (n, reply) in replies.iter().enumerate() {
        assert_eq!((reply["response"].as_str(), uid(reply)), (Some("found"), format!("u{n}").as_str()));
    }
    assert_eq!(node.script.asked(), [""; 0]);
}

#[tokio::test]
async fn a_pod_that_is_missing_or_another_one_is_asked_for_once() {
    let fresh = pod("cart", "u-2").to_string();
    let node = node(Limits::default(), [Scripted::new(200, fresh)]);
    node.lists(&[pod("cart", "u-1")]);
    let all = futures::future::join_all((0..20).map(|_| node.ask("cart", "u-2"))).await;
    assert!(all.iter().all(|reply| uid(reply) == "u-2"), "{all:?}");
    assert_eq!(uid(&node.ask("cart", "u-2").await), "u-2");
    assert_eq!(node.script.asked(), ["/api/v1/namespaces/shop/pods/cart"]);
}

#[tokio::test]
async fn what_is_uncertain_is_unknown() {
    let node = node(
        Limits::default(),
        [
            Scripted::new(200, pod("cart", "u-9").to_string()),
            Scripted::new(200, pod("till", "u-2").to_string()),
            Scripted::new(404, r#"pods "cart" not found"#),
            Scripted::new(404, "no such page"),
            Scripted::new(500, ""),
            Scripted::new(200, "garbage"),
        ],
    );
    for _ in 0..6 {
        assert_eq!(node.ask("cart", "u-2").await, json!({"version": 1, "response": "unknown"}));
    }
    assert_eq!(node.script.asked().len(), 6);
    // Nor is anything asked for that is no name.
    for name in ["../../secrets/x", "a?b", "", "A%2f"] {
        assert_eq!(node.ask(name, "u-2").await["response"], "unknown");
    }
    assert_eq!(node.script.asked().len(), 6);
}

#[tokio::test]
async fn a_pod_that_the_watch_tells_of_a_moment_later_costs_no_request() {
    let node = node(Limits::default(), []);
    node.lists(&[]);
    let (reply, ()) = tokio::join!(node.ask("cart", "u-1"), async {
        tokio::task::yield_now().await;
        node.pods.hear(Change::Set(serde_json::from_value(pod("cart", "u-1")).unwrap()));
    });
    assert_eq!(uid(&reply), "u-1");
    assert_eq!(node.script.asked(), [""; 0]);
}

#[tokio::test]
async fn a_silent_api_server_costs_less_than_a_plugin_waits() {
    let node = node(Limits::default(), []);
    node.lists(&[pod("cart", "u-1")]);
    let start = Instant::now();
    let (unknown, known) = tokio::join!(node.ask("cart", "u-2"), node.ask("cart", "u-1"));
    assert_eq!((unknown["response"].as_str(), uid(&known)), (Some("unknown"), "u-1"));
    assert!(start.elapsed() < Duration::from_millis(950), "{:?}", start.elapsed());
    let text = node.metrics.scrape(Exposition::Prometheus).unwrap();
    let failed = text
        .lines()
        .find(|line| line.starts_with("millrace_add_seconds_count{phase=\"api\",result=\"failed\""));
    assert!(failed.is_some_and(|line| line.ends_with(" 1")), "{failed:?} in {text}");
}

#[tokio::test]
async fn another_user_is_not_answered() {
    let node = node(Limits { uid: 4242, ..Limits::default() }, []);
    node.lists(&[pod("cart", "u-1")]);
    let request = json!({"version": 1, "kind": "pod", "namespace": "shop", "name": "cart"});
    assert_eq!(send(node.dir.path(), format!("{request}\n")).await, None);
}

#[tokio::test]
async fn old_and_new_plugins_are_answered_in_their_version() {
    let node = node(Limits::default(), []);
    node.lists(&[pod("cart", "u-1")]);
    let dir = node.dir.path();
    let old = json!({"version": 0, "kind": "pod", "namespace": "shop", "name": "cart"});
    assert_eq!(send(dir, format!("{old}\n")).await.unwrap()["version"], 0);
    let new = json!({"version": 9, "kind": "pod", "namespace": "shop", "name": "cart", "hints": [1]});
    assert_eq!(send(dir, format!("{new}\n")).await.unwrap()["version"], 1);
    for (unreadable, version) in [("{\"version\":9,\"kind\":\"explain\"}\n", 1), ("garbage\n", 0), ("\n", 0)]
    {
        let expected = json!({"version": version, "response": "unsupported"});
        assert_eq!(send(dir, unreadable).await, Some(expected), "{unreadable}");
    }
    let gone = json!({"version": 1, "kind": "deleted", "namespace": "shop", "name": "cart"});
    assert_eq!(send(dir, format!("{gone}\n")).await, Some(json!({"version": 1, "response": "noted"})));
    assert_eq!(uid(&node.ask("cart", "u-1").await), "u-1", "the pod is still there");
}

#[tokio::test]
async fn slow_and_endless_questions_harm_nobody() {
    let node = node(Limits { connections: 8, ..Limits::default() }, []);
    node.lists(&[pod("cart", "u-1")]);
    let dir = node.dir.path();
    let endless = vec![b'x'; 100_000];
    assert_eq!(
        send(dir, &endless).await.unwrap_or_default()["response"].as_str().unwrap_or("-"),
        "unsupported"
    );
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(UnixStream::connect(dir.join("agent.sock")).await.unwrap());
    }
    let start = Instant::now();
    assert_eq!(uid(&node.ask("cart", "u-1").await), "u-1");
    assert!(start.elapsed() < Duration::from_millis(700), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_process_that_asks_without_end_is_turned_away() {
    let share = Share { open: 4, burst: 10.0, rate: 0.0 };
    let node = node(Limits { share, ..Limits::default() }, []);
    node.lists(&[pod("cart", "u-1")]);
    let request = json!({"version": 1, "kind": "pod", "namespace": "shop", "name": "cart"});
    let mut answered = 0;
    for _ in 0..30 {
        answered += usize::from(send(node.dir.path(), format!("{request}\n")).await.is_some());
    }
    assert_eq!(answered, 10);
}
