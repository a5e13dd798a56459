// SPDX-License-Identifier: Apache-2.0
//! Readiness of the followers against a scripted server, in the test's own time.

use futures::channel::mpsc::UnboundedSender;
use serde_json::{Value, json};

use super::super::decide::{TaintPolicy, TaintState};
use super::*;
use crate::api::REQUEST_LIMIT;
use crate::api::testing::{Script, Scripted};
use crate::events;
use crate::metrics::Metrics;
use crate::readiness::Missing;

type Stream = UnboundedSender<Result<bytes::Bytes, std::io::Error>>;

/// Followers of these needs, at a server of this script.
struct Run {
    script: Script,
    readiness: Readiness,
    _failures: mpsc::Receiver<RunError>,
    _stop: tokio_util::sync::DropGuard,
}

fn run(needs: &Needs, answers: impl IntoIterator<Item = Scripted>) -> Run {
    let script = Script::new(answers);
    let (readiness, metrics) = (Readiness::of(&Part::CONTROLLER), Metrics::of_controller());
    let (recorder, _) = events::channel(metrics.clone(), "controller");
    let state = TaintState::new(TaintPolicy::Both, "ours");
    let told = (metrics, recorder);
    let controller = TaintController::new(state, "ours", script.client(), REQUEST_LIMIT, told);
    let (failed, failures) = mpsc::channel(1);
    let stop = CancellationToken::new();
    let client = script.client();
    Followers { controller, client, readiness: readiness.clone(), failed, stop: stop.clone() }.begin(needs);
    Run { script, readiness, _failures: failures, _stop: stop.drop_guard() }
}

impl Run {
    /// Reason why the part is not right, once it is one that `is_it` takes.
    async fn until(&self, part: Part, is_it: impl Fn(Option<&str>) -> bool) {
        let why =
            |missing: &Missing| missing.iter().find(|(one, _)| *one == part).map(|(_, why)| why.to_owned());
        let mut changes = self.readiness.changes();
        let waited = changes.wait_for(|missing| is_it(why(missing).as_deref()));
        let waited = tokio::time::timeout(std::time::Duration::from_secs(600), waited).await.is_ok();
        assert!(waited, "{:?} {:?}", self.readiness.missing(), self.script.asked());
    }

    async fn until_right(&self, part: Part) {
        self.until(part, |why| why.is_none()).await;
    }

    async fn until_wrong(&self, part: Part, words: &str) {
        self.until(part, |why| why.is_some_and(|why| why.contains(words))).await;
    }
}

fn list(items: &Value) -> Scripted {
    let list = json!({"metadata": {"resourceVersion": "5"}, "items": items});
    Scripted::new(200, list.to_string())
}

fn send(stream: &Stream, kind: &str, object: &Value) {
    let event = format!("{}\n", json!({"type": kind, "object": object}));
    stream.unbounded_send(Ok(event.into())).unwrap();
}

/// A watch, and what ends it.
fn watch(path: &'static str) -> (Stream, Scripted) {
    let (stream, watch) = Scripted::streamed();
    (stream, watch.to(path))
}

fn map(rules: &str) -> Value {
    json!({"metadata": {"name": "needs", "resourceVersion": "6"}, "data": {"config": rules}})
}

const MAP: &str = "configmaps";
const GOOD: &str = "- {name: a, namespace: a, selector: app=a}";

fn of_map() -> Needs {
    Needs::Map(NamespacedName { namespace: "mesh".to_owned(), name: "needs".to_owned() })
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_is_over_leaves_what_the_map_said_last() {
    for (said, is_good) in [(GOOD, true), ("nonsense", false)] {
        let (first, watching) = watch(MAP);
        let refusal = || Scripted::new(503, "{}").to(MAP);
        let run = run(&of_map(), [list(&json!([map(said)])).to(MAP), watching, refusal()]);
        if is_good {
            run.until_right(Part::Needs).await;
        } else {
            run.until_wrong(Part::Needs, "nonsense").await;
        }
        drop(first);
        run.until_wrong(Part::Needs, "503").await;
        let (_second, watching) = watch(MAP);
        run.script.push(watching);
        if is_good {
            run.until_right(Part::Needs).await;
        } else {
            run.until_wrong(Part::Needs, "nonsense").await;
        }
    }
}

fn rule(name: &str) -> Rule {
    let (name, namespace) = (name.to_owned(), name.to_owned());
    Rule { name, namespace, labels: "app=a".to_owned(), fields: String::new() }
}

const A: &str = "namespaces/a/pods";
const B: &str = "namespaces/b/pods";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": "7"}})
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_rule_do_not_excuse_those_of_another() {
    let ((of_a, watching_a), (of_b, watching_b)) = (watch(A), watch(B));
    let none = || list(&json!([]));
    let lists = [none().to(A), none().to(B)];
    let run =
        run(&Needs::Fixed(vec![rule("a"), rule("b")]), lists.into_iter().chain([watching_a, watching_b]));
    run.until_right(Part::Pods).await;
    run.script.push(Scripted::new(403, "{}").to(B));
    drop(of_b);
    run.until_wrong(Part::Pods, "denied").await;
    // The watch of `a` goes on, and tells.
    send(&of_a, "ADDED", &pod("x"));
    send(&of_a, "BOOKMARK", &pod("x"));
    let later = std::time::Duration::from_secs(5);
    let right = tokio::time::timeout(later, run.until_right(Part::Pods)).await;
    assert!(right.is_err(), "nobody follows the pods of b");
    let (_of_b, watching_b) = watch(B);
    run.script.push(watching_b);
    run.until_right(Part::Pods).await;
}
