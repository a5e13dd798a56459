// SPDX-License-Identifier: Apache-2.0

use super::*;

const BASE: Duration = Duration::from_secs(10);

fn job(spec: &Value) -> Value {
    let mut job = json!({
        "metadata": { "name": "sum", "namespace": "shop", "uid": "j" },
        "spec": { "completions": 1, "parallelism": 1, "backoffLimit": 1, "template": { "metadata": { "labels": { "job-name": "sum" } }, "spec": { "restartPolicy": "Never" } } },
        "status": { "startTime": "1970-01-01T00:00:00Z" },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

fn pod(uid: &str, phase: &str) -> Value {
    json!({ "metadata": { "name": uid, "uid": uid, "finalizers": [TRACKING] }, "status": { "phase": phase } })
}

fn leaving(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
    pod
}

/// A cluster that obeys: the statuses and deletions of decisions come true.
struct Played {
    job: Value,
    pods: Vec<Value>,
    failures: Failures,
    now: Timestamp,
    made: usize,
}

impl Played {
    fn of(spec: &Value) -> Self {
        Self {
            job: job(spec),
            pods: Vec::new(),
            failures: Failures::default(),
            now: Timestamp::UNIX_EPOCH,
            made: 0,
        }
    }

    /// Runs the controller until it has nothing to do; time passes if it waits.
    fn settle(&mut self) {
        for _ in 0..50 {
            let pods: Vec<_> = self.pods.iter().collect();
            self.failures = self.failures.and_of(&self.job, &pods, self.now);
            let decision = decide(&self.job, &pods, self.failures, BASE, self.now);
            if let (true, Some(again)) = (decision.actions.is_empty(), decision.again) {
                self.now = self.now.checked_add(again).unwrap();
                continue;
            }
            if decision.actions.is_empty() {
                return;
            }
            decision.actions.into_iter().for_each(|action| self.obey(action));
        }
        panic!("it never rests: {}", self.job);
    }

    fn obey(&mut self, action: Action) {
        match action {
            Action::Create(..) => {
                self.made += 1;
                self.pods.push(pod(&format!("p{}", self.made), "Running"));
            }
            Action::Delete(id) => self.delete(&id.uid),
            Action::Merge(id, patch) => {
                let pod = self.pods.iter_mut().find(|pod| text(pod, "uid") == id.uid).unwrap();
                pod["metadata"]["finalizers"] = patch["metadata"]["finalizers"].clone();
                // Its kubelet has ended it meanwhile.
                self.pods.retain(|pod| is_tracked(pod) || !owned::is_ending(pod));
            }
            Action::Status(_, status) => {
                for (field, value) in status.as_object().unwrap() {
                    self.job["status"][field] = value.clone();
                }
            }
        }
    }

    fn delete(&mut self, uid: &str) {
        let pod = self.pods.iter_mut().find(|pod| text(pod, "uid") == uid).unwrap();
        // Its kubelet ends it, and says so, before it goes.
        *pod = leaving(pod.clone());
        pod["status"]["phase"] = json!("Failed");
    }

    fn end(&mut self, phase: &str) {
        let pod = self.pods.iter_mut().find(|pod| owned::is_active(pod)).unwrap();
        pod["status"]["phase"] = json!(phase);
    }

    fn counts(&self) -> (i64, i64) {
        (self.job["status"]["succeeded"].as_i64().unwrap(), self.job["status"]["failed"].as_i64().unwrap())
    }
}

#[test]
fn a_job_completes_when_enough_pods_succeeded() {
    let mut played = Played::of(&json!({ "completions": 2 }));
    played.settle();
    assert_eq!(played.made, 1, "one at a time");
    played.end("Succeeded");
    played.settle();
    assert_eq!((played.made, played.counts()), (2, (1, 0)));
    played.end("Succeeded");
    played.settle();
    assert_eq!(played.counts(), (2, 0));
    assert!(condition(&played.job, "Complete"));
    assert!(played.pods.iter().all(|pod| !is_tracked(pod)), "nothing keeps its pods");
}

#[test]
fn a_job_fails_when_too_many_pods_failed() {
    let mut played = Played::of(&json!({ "backoffLimit": 1 }));
    for made in 1..=2 {
        played.settle();
        assert_eq!(played.made, made);
        played.end("Failed");
    }
    played.settle();
    assert_eq!((played.made, played.counts()), (2, (0, 2)));
    assert!(condition(&played.job, "Failed"));
    let reasons = played.job["status"]["conditions"].to_string();
    assert!(reasons.contains("BackoffLimitExceeded"), "{reasons}");
}

#[test]
fn a_deleted_pod_counts_as_failed_before_it_is_gone() {
    let mut played = Played::of(&json!({}));
    played.settle();
    let running = leaving(played.pods[0].clone());
    played.pods[0] = running;
    played.settle();
    assert_eq!((played.made, played.counts()), (2, (0, 1)), "replaced while the first one still runs");
}

#[test]
fn with_the_policy_failed_a_deleted_pod_counts_once_it_has_ended() {
    let mut played = Played::of(&json!({ "podReplacementPolicy": "Failed" }));
    played.settle();
    let running = leaving(played.pods[0].clone());
    played.pods[0] = running;
    played.settle();
    assert_eq!((played.made, played.counts()), (1, (0, 0)));
    played.pods[0]["status"]["phase"] = json!("Failed");
    played.settle();
    assert_eq!((played.made, played.counts()), (2, (0, 1)));
}

#[test]
fn a_deleted_pod_that_succeeded_did_succeed() {
    let mut played = Played::of(&json!({}));
    played.settle();
    played.end("Succeeded");
    played.pods[0] = leaving(played.pods[0].clone());
    played.settle();
    assert_eq!(played.counts(), (1, 0));
}

#[test]
fn each_failure_doubles_the_wait_for_the_next_pod() {
    let mut played = Played::of(&json!({ "backoffLimit": 6 }));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let before = played.now;
        played.settle();
        waits.push(played.now.as_second() - before.as_second());
        played.end("Failed");
    }
    assert_eq!(waits, [0, 10, 20, 40]);
}

#[test]
fn on_failure_restarts_count() {
    let template = json!({ "metadata": {}, "spec": { "restartPolicy": "OnFailure" } });
    let job = job(&json!({ "backoffLimit": 2, "template": template }));
    let mut running = pod("p1", "Running");
    let failed = |running: &Value| {
        let decision = decide(&job, &[running], Failures::default(), BASE, Timestamp::UNIX_EPOCH);
        decision.actions.iter().any(|action| matches!(action, Action::Delete(_)))
    };
    running["status"]["containerStatuses"] = json!([{ "restartCount": 1 }]);
    assert!(!failed(&running));
    running["status"]["containerStatuses"] = json!([{ "restartCount": 2 }]);
    assert!(failed(&running));
}
