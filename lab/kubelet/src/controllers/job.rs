// SPDX-License-Identifier: Apache-2.0
//! Pods that run to their end, as often as a Job wants, and their count.
//!
//! A pod is counted once, while its finalizer keeps it: its UID is put into `uncountedTerminatedPods`, then the finalizer goes, then the
//! counter moves. One whose deletion has begun counts as failed at once, whatever it does until it is gone, unless it succeeded or
//! `podReplacementPolicy` is `Failed` (`isPodFailed` in pkg/controller/job/job_controller.go).
//!
//! Not here: indexed Jobs, `podFailurePolicy`, `successPolicy`, `suspend`, `ttlSecondsAfterFinished`.

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver::Timestamp;
use cluster::condition::is_ready;
use serde_json::{Value, json};

use super::actions::{Action, Decision, ObjectId};
use super::owned::{self, text, with_condition};

const API_VERSION: &str = "batch/v1";
const KIND: &str = "Job";
/// Finalizer of pods that are not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Longest backoff before another pod (`MaxJobPodFailureBackOff`).
const LONGEST: Duration = Duration::from_secs(600);

/// Failures of a Job since its last success; kept in memory, as in a real controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    count: u32,
    last: Option<Timestamp>,
}

impl Failures {
    /// With the failures among these pods that are not counted yet.
    #[must_use]
    pub fn and_of(self, job: &Value, pods: &[&Value], now: Timestamp) -> Self {
        let counts = Counts::of(job, pods, false);
        let new = |list: &BTreeSet<String>, field: &str| {
            let known = counts.known(field);
            list.iter().filter(|uid| !known.contains(*uid)).count()
        };
        let failed = u32::try_from(new(&counts.failed, "failed")).unwrap_or(u32::MAX);
        match (failed, new(&counts.succeeded, "succeeded")) {
            (0, 0) => self,
            (0, _) => Self::default(),
            (failed, _) => Self { count: self.count.saturating_add(failed), last: Some(now) },
        }
    }

    /// Rest of the backoff before another pod.
    fn wait(self, base: Duration, now: Timestamp) -> Duration {
        let Some(last) = self.last else { return Duration::ZERO };
        let whole = base.saturating_mul(1 << self.count.saturating_sub(1).min(16)).min(LONGEST);
        let passed = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        whole.saturating_sub(passed)
    }
}

/// Pods that ended and are not in the counters yet, by UID.
struct Counts<'a> {
    job: &'a Value,
    succeeded: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// Additions to the counters: succeeded, failed.
    moved: (i64, i64),
}

impl<'a> Counts<'a> {
    fn of(job: &'a Value, pods: &[&Value], all_fail: bool) -> Self {
        let mut counts = Self { job, succeeded: BTreeSet::new(), failed: BTreeSet::new(), moved: (0, 0) };
        let held = |uid: &str| pods.iter().any(|pod| text(pod, "uid") == uid && is_tracked(pod));
        let split = |field: &str| -> (BTreeSet<String>, BTreeSet<String>) {
            counts.known(field).into_iter().partition(|uid| held(uid))
        };
        let (succeeded, failed) = (split("succeeded"), split("failed"));
        let length = |set: &BTreeSet<String>| i64::try_from(set.len()).unwrap_or(i64::MAX);
        counts.moved = (length(&succeeded.1), length(&failed.1));
        (counts.succeeded, counts.failed) = (succeeded.0, failed.0);
        for pod in pods.iter().filter(|pod| is_tracked(pod)) {
            let uid = text(pod, "uid").to_owned();
            if counts.succeeded.contains(&uid) || counts.failed.contains(&uid) {
                continue;
            }
            if pod["status"]["phase"] == "Succeeded" {
                counts.succeeded.insert(uid);
            } else if all_fail || has_failed(job, pod) {
                counts.failed.insert(uid);
            }
        }
        counts
    }

    fn known(&self, field: &str) -> BTreeSet<String> {
        let known = self.job["status"]["uncountedTerminatedPods"][field].as_array();
        known.into_iter().flatten().filter_map(|uid| uid.as_str().map(str::to_owned)).collect()
    }

    fn counter(&self, field: &str) -> i64 {
        self.job["status"][field].as_i64().unwrap_or(0)
    }

    /// All that succeeded, and all that failed.
    fn totals(&self) -> (i64, i64) {
        let length = |set: &BTreeSet<String>| i64::try_from(set.len()).unwrap_or(i64::MAX);
        let succeeded = self.counter("succeeded") + self.moved.0 + length(&self.succeeded);
        (succeeded, self.counter("failed") + self.moved.1 + length(&self.failed))
    }
}

/// Decides for a Job, given the pods that it controls. `base` is the first backoff after a failure.
#[must_use]
pub fn decide(job: &Value, pods: &[&Value], failures: Failures, base: Duration, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let is = |kind: &str| condition(job, kind);
    if is("Complete") || is("Failed") || owned::is_ending(job) {
        decision.actions = pods.iter().filter(|pod| is_tracked(pod)).map(|pod| let_go(pod)).collect();
        return decision;
    }
    let active: Vec<_> = pods.iter().copied().filter(|pod| owned::is_active(pod)).collect();
    let (succeeded, failed) = Counts::of(job, pods, false).totals();
    let outcome = outcome(job, pods, succeeded, failed, now);
    let counts = Counts::of(job, pods, matches!(outcome, Some(Outcome::Failed(..))));
    let persisted: BTreeSet<_> = counts.known("succeeded").union(&counts.known("failed")).cloned().collect();
    let counted = pods.iter().filter(|pod| is_tracked(pod) && persisted.contains(text(pod, "uid")));
    let mut actions: Vec<_> = counted.map(|pod| let_go(pod)).collect();
    if outcome.is_some() {
        actions.extend(active.iter().map(|pod| Action::Delete(ObjectId::of("Pod", pod))));
    } else {
        let wait = failures.wait(base, now);
        let changes = managed(job, pods, &active, succeeded);
        let makes = changes.iter().any(|action| matches!(action, Action::Create(..)));
        if wait.is_zero() || !makes {
            actions.extend(changes);
        } else {
            decision.again = Some(wait);
        }
    }
    if let Some(seconds) = job["spec"]["activeDeadlineSeconds"].as_u64() {
        let due = Duration::from_secs(seconds).saturating_sub(running_for(job, now));
        decision.again = Some(decision.again.map_or(due, |again| again.min(due)));
    }
    decision.report(KIND, job, status(&counts, pods, &active, outcome, now));
    decision.actions.extend(actions);
    decision
}

/// Result of a Job that is known, though pods of it may still end.
#[derive(Clone, Copy)]
enum Outcome {
    Complete,
    /// Reason and message.
    Failed(&'static str, &'static str),
}

fn outcome(job: &Value, pods: &[&Value], succeeded: i64, failed: i64, now: Timestamp) -> Option<Outcome> {
    const LIMIT: Outcome =
        Outcome::Failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    const LATE: Outcome =
        Outcome::Failed("DeadlineExceeded", "Job was active longer than specified deadline");
    let target = job["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "FailureTarget");
    if let Some(target) = target {
        return Some(if target["reason"] == "DeadlineExceeded" { LATE } else { LIMIT });
    }
    if condition(job, "SuccessCriteriaMet") {
        return Some(Outcome::Complete);
    }
    let limit = owned::number(job, "backoffLimit", 6);
    let on_failure = job["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure";
    let restarts: u64 = pods.iter().filter(|pod| !owned::is_over(pod)).map(|pod| owned::restarts(pod)).sum();
    let restarts = i64::try_from(restarts).unwrap_or(i64::MAX);
    let too_often = on_failure && restarts > 0 && restarts >= limit;
    if failed > limit || too_often {
        return Some(LIMIT);
    }
    let deadline = job["spec"]["activeDeadlineSeconds"].as_u64().map(Duration::from_secs);
    if deadline.is_some_and(|deadline| running_for(job, now) >= deadline) {
        return Some(LATE);
    }
    let active = pods.iter().any(|pod| owned::is_active(pod));
    let complete = match job["spec"]["completions"].as_i64() {
        Some(completions) => succeeded >= completions,
        None => succeeded > 0 && !active,
    };
    complete.then_some(Outcome::Complete)
}

/// Pods to make, or to delete because there are too many.
fn managed(job: &Value, pods: &[&Value], active: &[&Value], succeeded: i64) -> Vec<Action> {
    let parallel = owned::number(job, "parallelism", 1);
    let wanted = match job["spec"]["completions"].as_i64() {
        Some(completions) => (completions - succeeded).clamp(0, parallel),
        None if succeeded > 0 => owned::count(active).min(parallel),
        None => parallel,
    };
    let leaving = pods.iter().filter(|pod| owned::is_ending(pod) && !owned::is_over(pod)).count();
    let leaving = if waits_for_failed(job) { i64::try_from(leaving).unwrap_or(0) } else { 0 };
    let missing = usize::try_from(wanted - owned::count(active) - leaving).unwrap_or(0);
    let surplus = usize::try_from(owned::count(active) - wanted).unwrap_or(0);
    let gone = owned::dispensable(active).into_iter().take(surplus);
    let gone = gone.map(|pod| Action::Delete(ObjectId::of("Pod", pod)));
    gone.chain(std::iter::repeat_with(|| Action::Create("Pod", instance(job))).take(missing)).collect()
}

fn status(
    counts: &Counts<'_>,
    pods: &[&Value],
    active: &[&Value],
    outcome: Option<Outcome>,
    now: Timestamp,
) -> Value {
    let job = counts.job;
    let terminating = pods.iter().filter(|pod| owned::is_ending(pod) && !owned::is_over(pod)).count();
    let time = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let mut status = json!({
        "active": active.len(), "ready": active.iter().filter(|pod| is_ready(pod)).count(),
        "terminating": terminating,
        "succeeded": counts.counter("succeeded") + counts.moved.0,
        "failed": counts.counter("failed") + counts.moved.1,
        "uncountedTerminatedPods": { "succeeded": counts.succeeded, "failed": counts.failed },
    });
    if job["status"]["startTime"].is_null() {
        status["startTime"] = json!(time);
    }
    let Some(outcome) = outcome else { return status };
    let (first, last, why) = match outcome {
        Outcome::Complete => (
            "SuccessCriteriaMet",
            "Complete",
            ("CompletionsReached", "Reached expected number of succeeded pods"),
        ),
        Outcome::Failed(reason, message) => ("FailureTarget", "Failed", (reason, message)),
    };
    let mut conditions = with_condition(&job["status"]["conditions"], (first, true), why, now);
    // Since 1.31 the last word comes only when no pod of it is left that runs, or is not counted.
    let settled =
        active.is_empty() && terminating == 0 && counts.succeeded.is_empty() && counts.failed.is_empty();
    if settled {
        conditions = with_condition(&conditions, (last, true), why, now);
        if last == "Complete" {
            status["completionTime"] = json!(time);
        }
    }
    status["conditions"] = conditions;
    status
}

fn running_for(job: &Value, now: Timestamp) -> Duration {
    let since = job["status"]["startTime"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    since.and_then(|since| Duration::try_from(now.duration_since(since)).ok()).unwrap_or_default()
}

fn condition(job: &Value, kind: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

/// True if nothing replaces a pod that is being deleted before it has failed.
fn waits_for_failed(job: &Value) -> bool {
    job["spec"]["podReplacementPolicy"] == "Failed"
}

fn has_failed(job: &Value, pod: &Value) -> bool {
    let phase = &pod["status"]["phase"];
    *phase == "Failed" || (!waits_for_failed(job) && owned::is_ending(pod) && *phase != "Succeeded")
}

fn is_tracked(pod: &Value) -> bool {
    pod["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|one| one == TRACKING))
}

/// Removes the finalizer.
fn let_go(pod: &Value) -> Action {
    let mut rest = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    rest.retain(|one| one != TRACKING);
    Action::Merge(ObjectId::of("Pod", pod), json!({ "metadata": { "finalizers": rest } }))
}

fn instance(job: &Value) -> Value {
    let mut pod = owned::instance(job, API_VERSION, KIND);
    pod["metadata"]["finalizers"] = json!([TRACKING]);
    pod
}

#[cfg(test)]
mod tests;
