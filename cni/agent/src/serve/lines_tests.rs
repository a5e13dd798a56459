// SPDX-License-Identifier: Apache-2.0
//! The server on a real socket.

use std::path::PathBuf;

use protocol::log::AddEnd;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::DropGuard;

use super::*;
use crate::metrics::Exposition;
use crate::pods::Pods;
use crate::serve::socket::{self, SocketFile};

struct Node {
    path: PathBuf,
    log: Log,
    metrics: Metrics,
    _dir: tempfile::TempDir,
    _file: SocketFile,
    _stop: DropGuard,
}

fn node() -> Node {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(LOG_SOCKET);
    let (listener, file) = socket::open(&path, 0o666).unwrap();
    let (log, metrics, cancel) = (Log::in_memory(), Metrics::default(), CancellationToken::new());
    let stop = cancel.clone().drop_guard();
    let lookup = Lookup::new(Pods::default(), None, metrics.clone());
    tokio::spawn(take_lines(listener, log.clone(), lookup, cancel));
    Node { path, log, metrics, _dir: dir, _file: file, _stop: stop }
}

impl Node {
    async fn send(&self, text: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.path).await.unwrap();
        let _ = stream.write_all(text).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn post(&self, body: &str) -> String {
        let head = format!("POST /log HTTP/1.1\r\nHost: unix\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = self.send(&[head.as_bytes(), body.as_bytes()].concat()).await;
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// Asserts a metric's sample.
    #[track_caller]
    fn counts(&self, series: &str, count: u64) {
        let text = self.metrics.scrape(Exposition::Prometheus).unwrap();
        let line = format!("{series} {count}");
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }

    #[track_caller]
    fn skipped(&self, reason: &str, count: u64) {
        self.counts(&format!("millrace_log_lines_skipped_total{{reason=\"{reason}\"}}"), count);
    }
}

const OK: &str = "HTTP/1.1 200 OK";

fn last_line(end: AddEnd) -> String {
    json!({"level": "info", "msg": "end", "facts_us": "10", "apply_us": "20", "add_us": "40", "result": end.name()})
        .to_string()
}

#[tokio::test]
async fn lines_are_logged_and_an_add_s_phases_counted() {
    let node = node();
    let upstreams =
        json!({"level": "warn", "msg": "of upstream's plugin", "scope": "cni-plugin"}).to_string();
    let body = json!([upstreams, last_line(AddEnd::Redirected), last_line(AddEnd::Skipped)]).to_string();
    assert_eq!(node.post(&body).await, OK);
    assert!(node.log.said().contains("\twarn\tcni-plugin\tof upstream's plugin\n"));
    for (phase, result, count) in [
        ("facts", "redirected", 1),
        ("apply", "redirected", 1),
        ("whole", "redirected", 1),
        ("facts", "skipped", 1),
        ("whole", "skipped", 1),
        ("whole", "failed", 0),
    ] {
        node.counts(&format!("millrace_add_seconds_count{{phase=\"{phase}\",result=\"{result}\"}}"), count);
    }
    for reason in ["malformed", "too_long", "too_many"] {
        node.skipped(reason, 0);
    }
}

#[tokio::test]
async fn what_is_no_line_is_counted_and_does_not_hold_up_the_others() {
    let node = node();
    for body in ["", "no json", "{}", "[1]", "[\"no json\"]", "[\"[]\"]"] {
        assert_eq!(node.post(body).await, OK, "{body}");
    }
    node.skipped("malformed", 6);
    let long = json!({"msg": "x".repeat(LINE_LIMIT)}).to_string();
    assert_eq!(
        node.post(&json!([long, "no json", json!({"msg": "fine"}).to_string()]).to_string()).await,
        OK
    );
    node.skipped("malformed", 7);
    node.skipped("too_long", 1);
    assert!(node.log.said().contains("\tfine\n"));
}

#[tokio::test]
async fn what_is_too_much_is_not_read() {
    let node = node();
    node.post(&json!(["x".repeat(BODY_LIMIT)]).to_string()).await;
    node.skipped("too_long", 1);
    let line = json!({"msg": "again"}).to_string();
    assert_eq!(node.post(&json!(vec![line; LINES_LIMIT + 5]).to_string()).await, OK);
    node.skipped("too_long", 2);
    assert_eq!(node.log.said().matches("\tagain\n").count(), LINES_LIMIT);
}

#[tokio::test]
async fn other_requests_are_answered_too() {
    let node = node();
    assert!(node.send(b"GET / HTTP/1.1\r\nHost: unix\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
    assert!(node.send(b"\0\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    assert_eq!(node.post("[]").await, OK);
}

#[tokio::test(start_paused = true)]
async fn who_sends_nothing_is_sent_away_and_others_get_their_place() {
    let node = node();
    let mut silent = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = UnixStream::connect(&node.path).await.unwrap();
        stream.write_all(b"POST /log HTTP/1.1\r\nContent-Length: 9\r\n\r\n").await.unwrap();
        silent.push(stream);
    }
    let before = Instant::now();
    assert_eq!(node.post("[]").await, OK);
    assert!(before.elapsed() <= TIME_LIMIT + Duration::from_millis(50), "{:?}", before.elapsed());
    for mut stream in silent {
        assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap_or(0), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_are_turned_away_until_there_was_a_pause() {
    let node = node();
    let mut refused = 0;
    for _ in 0..1100 {
        refused += u64::from(node.post("[]").await.is_empty());
    }
    assert!(refused > 0, "nobody was turned away");
    node.skipped("too_many", refused);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(node.post("[]").await, OK);
}

#[test]
fn a_stranger_s_line_is_logged_but_not_counted() {
    let (log, metrics) = (Log::in_memory(), Metrics::default());
    let lookup = Lookup::new(Pods::default(), None, metrics.clone());
    let sink = Sink { log: log.clone(), metrics: metrics.clone(), lookup };
    let series = "millrace_add_seconds_count{phase=\"whole\",result=\"failed\"}";
    let body = json!([last_line(AddEnd::Failed)]).to_string();
    for (speaker, count) in [(Speaker::Stranger, 0), (Speaker::Own, 1)] {
        sink.relay(body.as_bytes(), speaker);
        let text = metrics.scrape(Exposition::Prometheus).unwrap();
        assert!(text.contains(&format!("{series} {count}\n")), "{speaker:?}");
    }
    assert_eq!(log.said().matches("\tend\t").count(), 2);
}
