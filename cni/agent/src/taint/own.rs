// SPDX-License-Identifier: Apache-2.0
//! The variant without anything central: the agent minds the taint of its own node. It takes the taint away when everything is installed
//! and right, and puts it back when that has not been so for a while, or when it uninstalls. An agent that stops and leaves what is
//! installed leaves the taint as it is, too: pods of the node go on getting their rules.
//!
//! One mistake must not close a cluster. A setting reaches all agents at once, so what is lost by a change of settings brings no taint back: the
//! agents are not ready, and say why. What goes by the pod's template (as `CNI_CONF_NAME`) reaches them by a rollout, which ends at the first
//! nodes whose agents do not get ready: `maxUnavailable` is the bound there. A loss that no setting explains is this node's own.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::actions::{Ended, Retries, TaintChange};
use super::decide::{PatchOutcome, wait};
use super::model::Node;
use super::newest::{Report, Response};
use super::taints::{has, patch};
use crate::api::{ApiError, Change, Client, Following, One, REQUEST_LIMIT, Resource};
use crate::events::Recorder;
use crate::metrics::{Deed, Metrics, Watched};
use crate::readiness::Readiness;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::time::pause;

/// Grace period of a missing part before the taint comes back: a blip of seconds is no reason to repel pods.
const GRACE: Duration = Duration::from_secs(30);
/// Deadline of restoring it at the end, with all retries.
const RESTORE_LIMIT: Duration = Duration::from_secs(4);
/// Deadline of a request then: one that hangs leaves time for others.
const RESTORE_REQUEST_LIMIT: Duration = Duration::from_secs(1);

/// Next action on the agent's own node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Do(Deed),
    /// Waits for a change, or until then.
    Wait(Option<Duration>),
}

/// Observed state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    tainted: bool,
    /// Everything is installed.
    right: bool,
    /// Generation of the settings.
    settings: u64,
}

/// Schedule of the taint. Pure: the time is an argument.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct TaintSchedule {
    wrong_since: Option<Duration>,
    settings: Option<u64>,
    /// Last change of the settings.
    changed: Option<Duration>,
    /// The installation was lost by that change.
    by_setting: bool,
    failures: u32,
    due: Option<Duration>,
}

impl TaintSchedule {
    fn decide(&mut self, Seen { tainted, right, settings }: Seen, now: Duration) -> Next {
        if self.settings.replace(settings).is_some_and(|before| before != settings) {
            self.changed = Some(now);
        }
        if right {
            (self.wrong_since, self.by_setting) = (None, false);
        } else if self.wrong_since.is_none() {
            self.wrong_since = Some(now);
            // A setting takes effect with the next passes of the installation.
            self.by_setting = self.changed.is_some_and(|at| now < at + GRACE);
        }
        if self.by_setting {
            return self.rest(None);
        }
        let lost = self.wrong_since.map(|since| since + GRACE);
        let deed = match (tainted, lost) {
            (true, None) => Deed::Remove,
            (false, Some(at)) if at <= now => Deed::Add,
            (false, Some(at)) => return self.rest(Some(at)),
            _ => return self.rest(None),
        };
        match self.due {
            Some(due) if due > now => Next::Wait(Some(due)),
            _ => Next::Do(deed),
        }
    }

    fn rest(&mut self, until: Option<Duration>) -> Next {
        (self.failures, self.due) = (0, None);
        Next::Wait(until)
    }

    fn ended(&mut self, outcome: &PatchOutcome, now: Duration) {
        // That a node is gone is for its watch to tell; until it does, the next attempt waits.
        let failed = !matches!(outcome, PatchOutcome::Done(_));
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        self.due = wait(self.failures).filter(|_| failed).map(|wait| now.saturating_add(wait));
    }
}

/// Controller of the agent's own node's taint.
#[derive(Debug, Clone)]
pub struct OwnTaint {
    pub key: String,
    pub node: String,
    pub client: Client,
    /// Readiness.
    pub readiness: Readiness,
    /// Told which one the node names, before anything is decided on that node.
    pub runtime: Runtime,
    /// Desired settings.
    pub settings: watch::Receiver<Arc<Settings>>,
    pub metrics: Metrics,
    pub recorder: Recorder,
    /// This agent installs; otherwise another one of the node does, whose the taint is.
    pub installs: watch::Receiver<bool>,
}

impl OwnTaint {
    pub async fn run(self, stop: CancellationToken) {
        let (sender, node) = watch::channel(Report::default());
        let following = Following::new(self.client.clone(), Resource::node(&self.node));
        let (metrics, runtime) = (self.metrics.clone(), self.runtime.clone());
        let sink = move |change: Change<Node>| match change.one() {
            One::Now(node) => {
                if let Some(node) = &node {
                    runtime.is(node.runtime);
                }
                sender.send_modify(|report| report.report(node));
            }
            One::Alive => {}
            One::Lost(lost) => metrics.watch_restarted(Watched::Nodes, lost.reason),
        };
        tokio::join!(following.run(sink, &stop), stop.run_until_cancelled(self.mind(node)));
    }

    async fn mind(&self, mut watched: watch::Receiver<Report>) {
        let (start, mut course, mut missing) =
            (Instant::now(), TaintSchedule::default(), self.readiness.changes());
        let mut response = Response::default();
        let mut wanted = Wanted::new(&self.settings);
        let mut installs = self.installs.clone();
        loop {
            if !*installs.borrow() {
                course = TaintSchedule::default();
                if installs.wait_for(|installs| *installs).await.is_err() {
                    return;
                }
            }
            let right = missing.borrow_and_update().is_ready();
            let settings = wanted.number();
            let report = watched.borrow_and_update().clone();
            let Some(node) = response.newest(&report, start.elapsed()) else {
                // Told of nothing yet: readiness counts from now on all the same.
                course.decide(Seen { tainted: right, right, settings }, start.elapsed());
                tokio::select! {
                    changed = watched.changed() => if changed.is_err() { return },
                    Ok(()) = missing.changed() => {}
                    Ok(()) = wanted.settings.changed() => {}
                }
                continue;
            };
            let tainted = has(node.taints.as_deref(), &self.key);
            let was_by_setting = course.by_setting;
            let next = course.decide(Seen { tainted, right, settings }, start.elapsed());
            if course.by_setting && !was_by_setting {
                tracing::warn!(target: "taint", node = self.node, taint = self.key, "the taint is not added: the plugin is not ready since its settings changed");
            }
            let until = match next {
                Next::Do(deed) => {
                    let change = self.change(&node, deed, why(deed), Retries::Endless);
                    let outcome =
                        change.make(&self.client, REQUEST_LIMIT, &self.metrics, &self.recorder).await.outcome;
                    course.ended(&outcome, start.elapsed());
                    if let PatchOutcome::Done(node) | PatchOutcome::Conflict(node) = outcome {
                        response.hold(node, report.number, start.elapsed());
                    }
                    continue;
                }
                Next::Wait(until) => {
                    let until = until.into_iter().chain(response.until(&report)).min();
                    until.map_or(Duration::MAX, |until| until.saturating_sub(start.elapsed()))
                }
            };
            tokio::select! {
                changed = watched.changed() => if changed.is_err() { return },
                Ok(()) = missing.changed() => {}
                Ok(()) = wanted.settings.changed() => {}
                () = pause(until) => {}
            }
        }
    }

    fn change(&self, node: &Node, deed: Deed, why: &str, retries: Retries) -> TaintChange {
        let patch = patch(node.taints.as_deref(), &self.key, deed);
        let (taint, why) = (self.key.clone(), why.to_owned());
        TaintChange { node: self.node.clone(), taint, deed, patch, why, retries }
    }

    /// Puts it back, as everything is about to be uninstalled. It is tried for a few seconds: the process has to end.
    pub async fn restore(&self) {
        if timeout(RESTORE_LIMIT, self.put_back()).await.is_err() {
            tracing::warn!(target: "taint", node = self.node, taint = self.key, "the taint was not added in time");
        }
    }

    /// Until the node has it or is gone, or the API server denies it, also because the account is gone: what is left of the time is the uninstall's.
    async fn put_back(&self) {
        let path = format!("/api/v1/nodes/{}", self.node);
        for failures in 1.. {
            let ended = match self.client.get::<Node>(&path, RESTORE_REQUEST_LIMIT).await {
                Ok(node) if has(node.taints.as_deref(), &self.key) => return,
                Ok(node) => {
                    let change = self.change(&node, Deed::Add, "the plugin is uninstalled", Retries::Bounded);
                    change.make(&self.client, RESTORE_REQUEST_LIMIT, &self.metrics, &self.recorder).await
                }
                Err(error) => {
                    tracing::warn!(target: "taint", node = self.node, taint = self.key, "the taint was not added: {error}");
                    Ended::failed(error)
                }
            };
            let is_final = |error: &ApiError| {
                matches!(error, ApiError::Unauthorized(_) | ApiError::Forbidden(_))
                    || error.is_gone(&self.node)
            };
            if ended.error.as_ref().is_none_or(is_final) {
                return;
            }
            pause(wait(failures).unwrap_or_default()).await;
        }
    }
}

/// Numbers what should be installed: a change of levels of the log, say, is none.
struct Wanted {
    settings: watch::Receiver<Arc<Settings>>,
    last: Arc<Settings>,
    number: u64,
}

impl Wanted {
    fn new(settings: &watch::Receiver<Arc<Settings>>) -> Self {
        let last = settings.borrow().clone();
        Self { settings: settings.clone(), last, number: 0 }
    }

    /// Generation of the present settings.
    fn number(&mut self) -> u64 {
        let now = self.settings.borrow_and_update().clone();
        let installed = |of: &Settings| (of.chain.clone(), of.entry.clone(), of.kubeconfig.clone());
        self.number += u64::from(installed(&now) != installed(&self.last));
        self.last = now;
        self.number
    }
}

fn why(deed: Deed) -> &'static str {
    match deed {
        Deed::Add => "the plugin has not been ready for 30 s",
        Deed::Remove => "the plugin is installed and ready",
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            course.decide(other(CLEAN_WRONG), seconds(3600)),
            Next::Wait(None),
            "for as long as it lasts"
        );
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
        assert_eq!(
            (start.elapsed(), script.asked().len()),
            (RESTORE_LIMIT, 6),
            "0, 0.1, 0.3, 0.7, 1.5, 3.1 s"
        );
    }
}
