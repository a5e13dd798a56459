// SPDX-License-Identifier: Apache-2.0
//! Result of a pod's start, from its status and its events.

use std::net::IpAddr;

use cluster::PodStart;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Event, Pod};

/// Reason of the event of a sandbox that could not be made (kubelet, `FailedCreatePodSandBox`).
const NO_SANDBOX: &str = "FailedCreatePodSandBox";

/// Reason of the event of a pod that waits for the node's network (kubelet, `NetworkNotReady`): no sandbox is tried meanwhile.
const NO_NETWORK: &str = "NetworkNotReady";

/// In the message of a Multus that could not ask for the pod within its own deadline: no plugin was called, and the kubelet tries again.
pub(crate) const NOT_ASKED: &str = "error waiting for pod";

/// Reasons of a container that waits because its image is not there.
const NO_IMAGE: [&str; 4] = ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"];

/// Reasons of a container that waits because it could not be started.
const NOT_STARTED: [&str; 4] =
    ["CreateContainerError", "CreateContainerConfigError", "RunContainerError", "CrashLoopBackOff"];

/// State of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It goes on.
    Starting,
    /// It has ended.
    Ended(PodStart),
    /// An image of the lab's cannot be had: nothing is known about the system under test.
    NoImage(String),
}

/// Progress of a pod, by its object.
pub(crate) fn progress(pod: &Pod) -> Progress {
    let Some(status) = &pod.status else { return Progress::Starting };
    let all = |list: &Option<Vec<ContainerStatus>>| list.clone().unwrap_or_default();
    let (init, main) = (all(&status.init_container_statuses), all(&status.container_statuses));
    for container in init.iter().chain(&main) {
        let waits = container.state.as_ref().and_then(|state| state.waiting.as_ref());
        let reason = waits.and_then(|waits| waits.reason.as_deref()).unwrap_or_default();
        let message = waits.and_then(|waits| waits.message.clone()).unwrap_or_default();
        if NO_IMAGE.contains(&reason) {
            return Progress::NoImage(format!("{}: {reason}: {message}", container.image));
        }
        if let Some(failed) = failure(container, NOT_STARTED.contains(&reason), message) {
            return Progress::Ended(failed);
        }
    }
    // One that has ended without an error has run.
    let runs = |container: &ContainerStatus| {
        state(container).is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    let wanted = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
    if main.len() == wanted && main.iter().all(runs) {
        let addresses = status.pod_ips.iter().flatten().filter_map(|one| one.ip.parse().ok());
        return Progress::Ended(PodStart::Running { addresses: addresses.collect() });
    }
    Progress::Starting
}

fn state(container: &ContainerStatus) -> Option<&ContainerState> {
    container.state.as_ref()
}

/// Failure of a container: its process ended with an error, or could not be started.
fn failure(container: &ContainerStatus, not_started: bool, message: String) -> Option<PodStart> {
    let ended = |state: &Option<ContainerState>| state.as_ref().and_then(|state| state.terminated.clone());
    let failed =
        |exit, message| Some(PodStart::ContainerFailed { container: container.name.clone(), exit, message });
    let now = ended(&container.state).filter(|ended| ended.exit_code != 0);
    match now.or_else(|| ended(&container.last_state).filter(|_| not_started)) {
        Some(ended) => failed(Some(ended.exit_code), ended.message.unwrap_or(message)),
        None if not_started => failed(None, message),
        None => None,
    }
}

/// Failure of a pod's sandbox, by an event. One of a former pod of that name says nothing about this one. The runtime's message does not have
/// the plugin's code.
pub(crate) fn sandbox_failure(event: &Event, pod: &Pod) -> Option<PodStart> {
    let message = event.message.clone().unwrap_or_default();
    let tells = [NO_SANDBOX, NO_NETWORK].iter().any(|reason| event.reason.as_deref() == Some(reason));
    let is_its = event.involved_object.uid == pod.metadata.uid && tells;
    (is_its && !message.contains(NOT_ASKED)).then_some(PodStart::SandboxFailed { code: None, message })
}

/// Reason of the scheduler or the kubelet not to start a pod: no room on any node, a refusal. `None` if it is being started.
pub(crate) fn untried(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let conditions = status.conditions.iter().flatten();
    let unscheduled = conditions.into_iter().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    let said = |reason: &Option<String>, message: &Option<String>| {
        [reason, message].into_iter().flatten().cloned().collect::<Vec<_>>().join(": ")
    };
    if let Some(condition) = unscheduled {
        return Some(said(&condition.reason, &condition.message));
    }
    let containers = [&status.init_container_statuses, &status.container_statuses];
    let is_known = containers.into_iter().flatten().any(|all| !all.is_empty());
    let is_refused = status.phase.as_deref() == Some("Failed") && !is_known;
    is_refused.then(|| said(&status.reason, &status.message))
}

/// Addresses of a pod, as its status has them.
pub(crate) fn addresses(pod: &Pod) -> Vec<IpAddr> {
    let all = pod.status.as_ref().and_then(|status| status.pod_ips.as_ref());
    all.into_iter().flatten().filter_map(|one| one.ip.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(status: &Value) -> Progress {
        let spec = json!({ "containers": [{ "name": "app" }] });
        progress(&serde_json::from_value(json!({ "spec": spec, "status": status })).unwrap())
    }

    #[test]
    fn a_pod_runs_when_every_container_does() {
        let waits = json!({ "name": "app", "state": { "waiting": { "reason": "ContainerCreating" } } });
        assert_eq!(of(&json!({ "containerStatuses": [waits] })), Progress::Starting);
        assert_eq!(of(&json!({})), Progress::Starting, "no container is known yet");
        let runs = json!({ "name": "app", "state": { "running": {} } });
        let ips = json!([{ "ip": "10.0.0.2" }, { "ip": "fd00::2" }]);
        let addresses = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        assert_eq!(
            of(&json!({ "containerStatuses": [runs], "podIPs": ips })),
            Progress::Ended(PodStart::Running { addresses })
        );
    }

    #[test]
    fn an_init_container_that_failed_ends_the_start() {
        let ended = json!({ "terminated": { "exitCode": 126, "message": "not redirected" } });
        let failed = |exit, message: &str| {
            let (container, message) = ("istio-validation".to_owned(), message.to_owned());
            Progress::Ended(PodStart::ContainerFailed { container, exit, message })
        };
        let status = json!({ "name": "istio-validation", "state": ended });
        assert_eq!(of(&json!({ "initContainerStatuses": [status] })), failed(Some(126), "not redirected"));
        let again = json!({
            "name": "istio-validation", "lastState": ended,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        });
        assert_eq!(of(&json!({ "initContainerStatuses": [again] })), failed(Some(126), "not redirected"));
        let done = json!({ "name": "istio-validation", "state": { "terminated": { "exitCode": 0 } } });
        assert_eq!(of(&json!({ "initContainerStatuses": [done] })), Progress::Starting);
    }

    #[test]
    fn an_image_that_is_not_there_says_nothing_about_the_system_under_test() {
        let waits = json!({ "reason": "ErrImagePull", "message": "not found" });
        let status = json!({ "name": "app", "image": "lab:1", "state": { "waiting": waits } });
        let found = of(&json!({ "containerStatuses": [status] }));
        assert_eq!(found, Progress::NoImage("lab:1: ErrImagePull: not found".to_owned()));
    }

    #[test]
    fn a_pod_that_nobody_tries_to_start_says_nothing_about_the_system_under_test() {
        let of = |status: &Value| untried(&serde_json::from_value(json!({ "status": status })).unwrap());
        let scheduled = |status: &str| json!({ "type": "PodScheduled", "status": status, "reason": "Unschedulable", "message": "0/1 nodes are available" });
        let unschedulable = Some("Unschedulable: 0/1 nodes are available".to_owned());
        assert_eq!(of(&json!({ "phase": "Pending", "conditions": [scheduled("False")] })), unschedulable);
        assert_eq!(of(&json!({ "phase": "Pending", "conditions": [scheduled("True")] })), None);
        let refused = json!({ "phase": "Failed", "reason": "OutOfpods", "message": "too many pods" });
        assert_eq!(of(&refused), Some("OutOfpods: too many pods".to_owned()));
        let ended = json!({ "name": "app", "state": { "terminated": { "exitCode": 1 } } });
        assert_eq!(of(&json!({ "phase": "Failed", "containerStatuses": [ended] })), None);
        assert_eq!(of(&json!({})), None);
    }

    /// Result of a failed sandbox of the pod with uid 1, as far as the pod with this one goes.
    fn failed(reason: &str, message: &str, uid: &str) -> Option<PodStart> {
        let event = json!({
            "metadata": {}, "reason": reason, "message": message,
            "involvedObject": { "uid": "1" },
        });
        let pod = json!({ "metadata": { "uid": uid } });
        sandbox_failure(&serde_json::from_value(event).unwrap(), &serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn an_event_of_a_former_pod_of_that_name_is_no_failure() {
        assert_eq!(failed(NO_SANDBOX, "no", "2"), None);
        let no = PodStart::SandboxFailed { code: None, message: "no".to_owned() };
        assert_eq!(failed(NO_SANDBOX, "no", "1"), Some(no));
        assert_eq!(failed("Pulled", "no", "1"), None);
    }

    #[test]
    fn a_pod_that_waits_for_the_nodes_network_does_not_start() {
        let waits = PodStart::SandboxFailed { code: None, message: "network is not ready".to_owned() };
        assert_eq!(failed(NO_NETWORK, "network is not ready", "1"), Some(waits));
    }

    #[test]
    fn a_multus_that_could_not_ask_is_asked_again() {
        assert_eq!(
            failed(NO_SANDBOX, "Multus: [a/b]: error waiting for pod: context deadline exceeded", "1"),
            None
        );
    }
}
