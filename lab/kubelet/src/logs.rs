// SPDX-License-Identifier: Apache-2.0
//! `kubectl logs`: lines of a container's present or former process, now and as they come.
//!
//! As with a real kubelet, the log is one process' and ends with it, and of former processes the last one is kept. Unlike there, the
//! last 1000 lines of a container are all that is kept.

use std::sync::{Arc, Weak};

use apiserver::kubelets::{ContainerRef, Exec, ExecRequest, KubeletError, Kubelets, LogRequest};
use bytes::Bytes;
use cluster::PodName;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;
use tokio::sync::watch;

use crate::exec;
use crate::node::NetnsNode;
use crate::output::{Line, Output, Printed};
use crate::slot::Slot;

/// The kubelets of a cluster, for its API server. They do not keep the nodes.
#[derive(Debug)]
pub struct NodeKubelets(Vec<Weak<NetnsNode>>);

impl NodeKubelets {
    #[must_use]
    pub fn new(nodes: &[Arc<NetnsNode>]) -> Self {
        Self(nodes.iter().map(Arc::downgrade).collect())
    }

    fn find(&self, of: &ContainerRef) -> Result<(Arc<NetnsNode>, Arc<Slot>), KubeletError> {
        let mut nodes = self.0.iter().filter_map(Weak::upgrade);
        let node = nodes.find(|node| node.name == of.node);
        let pod = PodName::new(&of.namespace, &of.pod);
        let found = node.and_then(|node| Some((node.slot(&pod)?, node)));
        let found = found.filter(|(slot, _)| slot.plan.uid == of.uid);
        found
            .map(|(slot, node)| (node, slot))
            .ok_or_else(|| KubeletError(format!("pod \"{}/{}\" not found", of.namespace, of.pod)))
    }
}

impl Kubelets for NodeKubelets {
    fn logs(
        &self,
        wanted: LogRequest,
    ) -> BoxFuture<'static, Result<BoxStream<'static, Bytes>, KubeletError>> {
        let found = self.find(&wanted.of);
        async move {
            let (node, slot) = found?;
            let outputs = slot.shown().outputs;
            let output = outputs.into_iter().find(|(name, _)| *name == wanted.of.container);
            let Some((_, output)) = output else {
                let own = node.access.own.as_ref();
                let pod =
                    own.and_then(|api| api.pod(&wanted.of.namespace, &wanted.of.pod)).unwrap_or_default();
                return Err(waiting(&pod, &wanted.of));
            };
            follow(&output, wanted)
        }
        .boxed()
    }

    fn exec(&self, wanted: ExecRequest) -> BoxFuture<'static, Result<Exec, KubeletError>> {
        let found = self.find(&wanted.of);
        async move {
            let (node, slot) = found?;
            exec::start(&node, &slot, wanted).await
        }
        .boxed()
    }
}

/// Error of the log of a container that never ran.
fn waiting(pod: &Value, of: &ContainerRef) -> KubeletError {
    let lists = ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array());
    let mut statuses = lists.into_iter().flatten().flatten();
    let status = statuses.find(|status| status["name"] == of.container.as_str());
    let reason = status.and_then(|status| status["state"]["waiting"]["reason"].as_str());
    let why = match reason.unwrap_or("ContainerCreating") {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        other => other,
    };
    KubeletError(format!("container {:?} in pod {:?} is waiting to start: {why}", of.container, of.pod))
}

/// Lines of a log, from a place on, until the process prints no more.
struct Follower {
    printed: watch::Receiver<Printed>,
    /// Holds the sender.
    #[expect(dead_code, reason = "held for its drop")]
    output: Output,
    wanted: LogRequest,
    run: u32,
    place: usize,
    /// Bytes that may still be sent.
    left: usize,
    is_over: bool,
}

fn follow(output: &Output, wanted: LogRequest) -> Result<BoxStream<'static, Bytes>, KubeletError> {
    let printed = output.subscribe();
    let (run, place) = {
        let now = printed.borrow();
        let run = if wanted.previous { now.runs() - 1 } else { now.runs() };
        if run == 0 {
            let (container, pod) = (&wanted.of.container, &wanted.of.pod);
            let why = format!("previous terminated container {container:?} in pod {pod:?} not found");
            return Err(KubeletError(why));
        }
        (run, start(&now, run, &wanted))
    };
    let left = wanted.limit.unwrap_or(usize::MAX);
    let follower = Follower { printed, output: output.clone(), wanted, run, place, left, is_over: false };
    Ok(stream::unfold(follower, Follower::next).boxed())
}

/// Place of the first line: the last ones of those that are recent enough, if only some are wanted.
fn start(printed: &Printed, run: u32, wanted: &LogRequest) -> usize {
    let (lines, end) = printed.since(0);
    let lines: Vec<&Line> = lines.collect();
    let first = end - lines.len();
    let matching = (first..).zip(&lines).filter(|(_, line)| is_wanted(line, run, wanted));
    let places: Vec<usize> = matching.map(|(place, _)| place).collect();
    let skipped = wanted.tail.map_or(0, |tail| places.len().saturating_sub(tail));
    places.get(skipped).copied().unwrap_or(end)
}

fn is_wanted(line: &Line, run: u32, wanted: &LogRequest) -> bool {
    line.run == run && wanted.since.is_none_or(|since| line.at >= since)
}

fn written(line: &Line, wanted: &LogRequest) -> String {
    if wanted.timestamps { format!("{:.9} {}\n", line.at, line.text) } else { format!("{}\n", line.text) }
}

impl Follower {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        while !self.is_over && self.left > 0 {
            let (mut text, more) = {
                let printed = self.printed.borrow_and_update();
                let (lines, place) = printed.since(self.place);
                let lines = lines.filter(|line| is_wanted(line, self.run, &self.wanted));
                let text: String = lines.map(|line| written(line, &self.wanted)).collect();
                self.place = place;
                (text.into_bytes(), self.wanted.follow && !printed.is_over(self.run))
            };
            self.is_over = !more;
            text.truncate(self.left);
            self.left -= text.len();
            if !text.is_empty() {
                return Some((text.into(), self));
            }
            // The sender lives in `self`.
            if more && self.printed.changed().await.is_err() {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wanted() -> LogRequest {
        let name = str::to_owned;
        let of = ContainerRef {
            node: name("node-1"),
            namespace: name("shop"),
            pod: name("cart"),
            uid: name("u"),
            container: name("app"),
        };
        LogRequest {
            of,
            follow: false,
            previous: false,
            timestamps: false,
            since: None,
            tail: None,
            limit: None,
        }
    }

    fn output(runs: &[&[&str]]) -> Output {
        let output = Output::default();
        for lines in runs {
            let stream = output.stream(output.begin());
            lines.iter().for_each(|line| stream.push((*line).to_owned()));
        }
        output
    }

    async fn text(output: &Output, wanted: LogRequest) -> String {
        let pieces: Vec<Bytes> = follow(output, wanted).unwrap().collect().await;
        String::from_utf8(pieces.concat()).unwrap()
    }

    #[tokio::test]
    async fn a_log_is_of_one_process() {
        let output = output(&[&["one", "two"], &["three"]]);
        assert_eq!(text(&output, wanted()).await, "three\n");
        assert_eq!(text(&output, LogRequest { previous: true, ..wanted() }).await, "one\ntwo\n");
    }

    #[tokio::test]
    async fn a_first_process_has_none_before_it() {
        let refused = follow(&output(&[&["one"]]), LogRequest { previous: true, ..wanted() }).err().unwrap();
        assert_eq!(refused.0, "previous terminated container \"app\" in pod \"cart\" not found");
    }

    #[tokio::test]
    async fn the_last_lines_and_the_first_bytes() {
        let output = output(&[&["before"], &["one", "two", "three"]]);
        assert_eq!(text(&output, LogRequest { tail: Some(2), ..wanted() }).await, "two\nthree\n");
        assert_eq!(text(&output, LogRequest { tail: Some(0), ..wanted() }).await, "");
        assert_eq!(text(&output, LogRequest { limit: Some(5), ..wanted() }).await, "one\nt");
        let later = Some("2999-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(text(&output, LogRequest { since: later, ..wanted() }).await, "");
        let timed = text(&output, LogRequest { timestamps: true, tail: Some(1), ..wanted() }).await;
        let (time, line) = timed.split_once(' ').unwrap();
        assert_eq!(line, "three\n");
        assert!(time.len() == "2026-01-02T03:04:05.123456789Z".len() && time.ends_with('Z'), "{time}");
    }

    #[tokio::test]
    async fn following_ends_with_the_process_and_misses_nothing() {
        let output = Output::default();
        let stream = output.stream(output.begin());
        stream.push("one".to_owned());
        let mut lines = follow(&output, LogRequest { follow: true, ..wanted() }).unwrap();
        assert_eq!(lines.next().await.unwrap(), "one\n");
        stream.push("two".to_owned());
        drop(stream);
        output.stream(output.begin()).push("of the next".to_owned());
        assert_eq!(lines.next().await.unwrap(), "two\n");
        assert_eq!(lines.next().await, None);
    }

    #[test]
    fn a_container_that_waits_says_for_what() {
        let status = |reason: &str| {
            let waiting = json!({ "name": "app", "state": { "waiting": { "reason": reason } } });
            json!({ "status": { "containerStatuses": [waiting] } })
        };
        for (reason, why) in [
            ("PodInitializing", "PodInitializing"),
            ("ErrImagePull", "image can't be pulled"),
            ("ImagePullBackOff", "trying and failing to pull image"),
        ] {
            let expected = format!("container \"app\" in pod \"cart\" is waiting to start: {why}");
            assert_eq!(waiting(&status(reason), &wanted().of).0, expected);
        }
    }
}
