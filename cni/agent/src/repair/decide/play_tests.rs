// SPDX-License-Identifier: Apache-2.0
//! A controller with a textual interface, and the pods that tests send it.

use serde_json::{Value, json};

use super::super::super::ask::{Evidence, OpenConnections, Proven, Written};
use super::super::super::find::NotFound;
use super::super::*;
use crate::settings::{RepairSettings, Settings};

pub(super) fn settings(policies: &[RepairPolicy]) -> Settings {
    let is_on = |policy| if policies.contains(&policy) { "true" } else { "false" };
    let environment = [
        ("REPAIR_NODE_NAME", "n-1"),
        ("REPAIR_INIT_CONTAINER_EXIT_CODE", "126"),
        ("EXCLUDE_NAMESPACES", "kube-system"),
        ("REPAIR_REPAIR_PODS", is_on(RepairPolicy::Repair)),
        ("REPAIR_DELETE_PODS", is_on(RepairPolicy::Delete)),
        ("REPAIR_LABEL_PODS", is_on(RepairPolicy::Label)),
    ];
    let environment: BTreeMap<String, String> =
        environment.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    crate::settings::load(BTreeMap::new(), &environment, |_| false).settings
}

pub(super) fn changed(policies: &[RepairPolicy], change: impl FnOnce(&mut RepairSettings)) -> Box<Rules> {
    let mut settings = settings(policies);
    change(&mut settings.repair);
    Box::new(Rules::of(&settings, None))
}

pub(super) fn rules(policies: &[RepairPolicy]) -> Rules {
    *changed(policies, |_| {})
}

/// Rules that differ in what no pod here depends on.
pub(super) fn excluding(policies: &[RepairPolicy]) -> Box<Rules> {
    let mut rules = rules(policies);
    rules.plugin.as_mut().unwrap().excluded.push("other".to_owned());
    Box::new(rules)
}

/// A pod whose validation failed `restarts` times before the present run.
pub(super) fn pod(uid: &str, restarts: i32) -> Value {
    let ended =
        json!({"terminated": {"exitCode": 126, "reason": "Error", "finishedAt": format!("t{restarts}")}});
    let (state, last) = match restarts {
        0 => (ended, json!({})),
        _ => (json!({"waiting": {"reason": "CrashLoopBackOff"}}), ended),
    };
    json!({
        "metadata": {
            "name": uid, "namespace": "shop", "uid": uid, "resourceVersion": "7",
            "annotations": {"sidecar.istio.io/status": "{}"}, "labels": {},
        },
        "spec": {
            "nodeName": "n-1", "restartPolicy": "Always", "initContainers": [{"name": "istio-validation"}],
            "containers": [{"name": "istio-proxy", "args": ["proxy", "sidecar"]}, {"name": "app"}],
        },
        "status": {
            "phase": "Pending", "podIP": "10.9.0.2",
            "initContainerStatuses": [
                {"name": "istio-validation", "restartCount": restarts, "state": state, "lastState": last},
            ],
        },
    })
}

pub(super) fn event(pod: &Value) -> RepairEvent {
    RepairEvent::Pod(Arc::new(serde_json::from_value(pod.clone()).unwrap()))
}

/// Controller with a textual interface.
pub(super) struct Play {
    pub(super) controller: Controller,
    /// Answer to each verification before a deletion, an eviction or a label; `None`: the test answers.
    pub(super) verified: Option<PodOutcome>,
}

impl Play {
    pub(super) fn new(policies: &[RepairPolicy]) -> Self {
        Self::with(rules(policies))
    }

    pub(super) fn with(rules: Rules) -> Self {
        let verified = Some(PodOutcome::Unredirected(vec!["no rules".into()]));
        Self { controller: Controller::new(rules, Pace::default()), verified }
    }

    pub(super) fn decide(&mut self, event: RepairEvent, now: Time) -> Vec<RepairAction> {
        let mut actions = Vec::new();
        for action in self.controller.decide(event, now) {
            match (&action, self.verified.clone()) {
                (RepairAction::Verify(one), Some(outcome)) => {
                    let uid = name(&one.pod).to_owned();
                    let done = ActionResult::Repaired(outcome);
                    actions.extend(self.decide(RepairEvent::Done(uid, done, clock(now.as_secs())), now));
                }
                _ => actions.push(action),
            }
        }
        actions
    }

    pub(super) fn at(&mut self, seconds: u64, event: RepairEvent) -> Vec<String> {
        self.decide(event, Time::from_secs(seconds)).iter().map(words).collect()
    }

    /// The same without surveys.
    pub(super) fn acts(&mut self, seconds: u64, event: RepairEvent) -> Vec<String> {
        self.at(seconds, event).into_iter().filter(|one| !one.starts_with("look at ")).collect()
    }

    pub(super) fn done(&mut self, seconds: u64, uid: &str, done: ActionResult) -> Vec<String> {
        self.at(seconds, RepairEvent::Done(uid.to_owned(), done, clock(seconds)))
    }
}

/// The node's clock, so many seconds after the agent's start.
pub(super) fn clock(seconds: u64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + i64::try_from(seconds).unwrap()).unwrap()
}

/// With the start time of the run that failed last.
pub(super) fn begun(mut pod: Value, seconds: u64) -> Value {
    let status = &mut pod["status"]["initContainerStatuses"][0];
    status["lastState"]["terminated"]["startedAt"] = json!(clock(seconds).to_string());
    pod
}

/// One of the pods of a controller.
pub(super) fn owned(uid: &str, restarts: i32) -> Value {
    let mut pod = pod(uid, restarts);
    pod["metadata"]["ownerReferences"] = json!([{"uid": "rs", "controller": true}]);
    pod
}

pub(super) fn name(pod: &NodePod) -> &str {
    &pod.metadata.facts.uid
}

pub(super) fn words(action: &RepairAction) -> String {
    match action {
        RepairAction::Repair(one) => format!("Repair {}", name(&one.pod)),
        RepairAction::Verify(one) => format!("verify {}", name(&one.pod)),
        RepairAction::Delete(pod) => format!("Delete {}", name(pod)),
        RepairAction::Evict(pod) => format!("Evict {}", name(pod)),
        RepairAction::Label(pod) => format!("Label {}", name(pod)),
        RepairAction::Look(pods) => {
            format!("look at {}", pods.iter().map(|one| name(&one.pod)).collect::<Vec<_>>().join(" "))
        }
        RepairAction::Tell(pod, news) => format!("tell {}: {news:?}", name(pod)),
        RepairAction::Ended(policy, result, took) => {
            format!("{policy:?} {} after {}s", result.name(), took.as_secs())
        }
        RepairAction::Exposed(pod) => format!("{} redirects", name(pod)),
        RepairAction::Unrepairable(reason) => format!("unrepairable: {}", reason.name()),
        RepairAction::Unredirected(pods) => format!("unredirected: {pods}"),
        RepairAction::Sandboxed(pods) => format!("sandboxed: {pods}"),
    }
}

pub(super) fn proven(written: Written) -> ActionResult {
    let evidence = Evidence::Packet { to: "192.0.2.2:80".into(), port: 15001 };
    let families = vec![Proven { family: "IPv4".into(), evidence }];
    ActionResult::Repaired(PodOutcome::Proven {
        written,
        backend: "nft-compat".into(),
        families,
        open: OpenConnections::default(),
    })
}

pub(super) fn no_namespace() -> ActionResult {
    ActionResult::Repaired(PodOutcome::NotFound(NotFound::NoCandidate))
}

pub(super) const NOTHING: [&str; 0] = [];
