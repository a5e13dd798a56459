// SPDX-License-Identifier: Apache-2.0
//! The hands of a run: a DaemonSet in the run's own namespace, and in each of its pods the program `workload hand`, at the far end of an exec
//! stream.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::PodStart;
use futures::TryStreamExt as _;
use futures::future::join_all;
use hand::Client as Hand;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{AttachParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::interval;

use crate::error::{Error, TIER};
use crate::objects::from;
use crate::options::SessionOptions;
use crate::start::{Progress, progress};
use crate::watch::{FROM_NOW, objects};

/// The DaemonSet, its label and its container.
const HAND: &str = "hand";
/// Root directory of the node: that of its first process. The pod sees the files of its image.
const ROOT: &str = "/proc/1/root";

/// Interval of attempts.
const LOOK: Duration = Duration::from_millis(500);

/// Hands by the name of their node.
pub(crate) type Hands = BTreeMap<String, Hand>;

/// Puts a hand on each of these nodes. Critical ones are never evicted.
///
/// # Errors
/// The API server rejects the DaemonSet, or a hand is not there before the deadline; the error names its node.
pub(crate) async fn place(
    client: &Client,
    namespace: &str,
    nodes: &[String],
    options: &SessionOptions,
    are_critical: bool,
) -> Result<Hands, Error> {
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
    let set = from(daemon_set(nodes, &options.image, are_critical))?;
    sets.create(&PostParams::default(), &set).await.map_err(Error::api("make the hands' DaemonSet"))?;
    let placed = join_all(nodes.iter().map(|node| on_node(client, namespace, node, options))).await;
    let mut hands = Hands::new();
    let mut lacking: Vec<(&str, Error)> = Vec::new();
    for (node, hand) in nodes.iter().zip(placed) {
        match hand {
            Ok(hand) => drop(hands.insert(node.clone(), hand)),
            Err(error) => lacking.push((node, error)),
        }
    }
    let names = lacking.iter().map(|(node, _)| *node).collect::<Vec<_>>().join(", ");
    match lacking.into_iter().next() {
        // The first says why; of the others the names are enough.
        Some((_, Error::Hand { why, .. })) => Err(Error::Hand { node: names, why }),
        Some((_, error)) => Err(Error::Hand { node: names, why: error.to_string() }),
        None => Ok(hands),
    }
}

/// The hand of a node whose kubelet or runtime has started again: the stream to the former one went through both.
///
/// # Errors
/// It is not there before the deadline.
pub(crate) async fn again(
    client: &Client,
    namespace: &str,
    node: &str,
    options: &SessionOptions,
) -> Result<Hand, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut last = "no attempt has ended".to_owned();
    let there = async {
        let mut due = interval(LOOK);
        loop {
            due.tick().await;
            let found = pods.list(&of_node).await.map_err(Error::api("list the hands' pods"))?.items;
            let pod = found.first().map(ResourceExt::name_any).unwrap_or_default();
            // Until the kubelet has looked, the pod's status is that of before the restart.
            match start(&pods, &pod, node, options).await {
                Err(error) => last = error.to_string(),
                started => return started,
            }
        }
    };
    // A stream that nobody answers on ends no attempt.
    match tokio::time::timeout(options.deadline, there).await {
        Ok(hand) => hand,
        Err(_) => {
            let why = format!("it is not back within {:?}: {last}", options.deadline);
            Err(Error::Hand { node: node.to_owned(), why })
        }
    }
}

/// Their DaemonSet: on exactly these nodes, whatever taints they have.
fn daemon_set(nodes: &[String], image: &str, is_critical: bool) -> Value {
    // A requirement on a field may have one value only.
    let on = |node: &String| json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] });
    let terms: Vec<_> = nodes.iter().map(on).collect();
    let required =
        json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } });
    let labels = json!({ "app": HAND });
    json!({
        "metadata": { "name": HAND },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "affinity": { "nodeAffinity": required },
                    "hostNetwork": true,
                    "hostPID": true,
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 0,
                    "priorityClassName": is_critical.then_some("system-node-critical"),
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [{
                        "name": HAND,
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["workload", "pause"],
                        "securityContext": { "privileged": true, "runAsUser": 0 },
                    }],
                },
            },
        },
    })
}

/// The hand of a node, once its pod runs. An image that cannot be had is not waited for.
async fn on_node(
    client: &Client,
    namespace: &str,
    node: &str,
    options: &SessionOptions,
) -> Result<Hand, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let last = Mutex::new(None);
    let there = async {
        let mut seen = objects(&pods, "spec.nodeName", node, FROM_NOW).await?;
        while let Some(pod) = seen.try_next().await? {
            match progress(&pod) {
                Progress::Ended(PodStart::Running { .. }) => {
                    return start(&pods, &pod.name_any(), node, options).await;
                }
                Progress::NoImage(why) => {
                    let why = format!("its image cannot be had: {why}");
                    return Err(Error::Hand { node: node.to_owned(), why });
                }
                Progress::Starting | Progress::Ended(_) => {}
            }
            *last.lock() = Some(pod);
        }
        Err(Error::Watch { what: "the hands' pods".to_owned(), why: "the server ended the watch".to_owned() })
    };
    match tokio::time::timeout(options.deadline, there).await {
        Ok(hand) => hand,
        Err(_) => {
            let last = last.lock().take();
            let why = match last {
                Some(pod) => waits_for(&pod),
                None => never_made(client, namespace).await,
            };
            let why = format!("its pod does not run within {:?}: {why}", options.deadline);
            Err(Error::Hand { node: node.to_owned(), why })
        }
    }
}

async fn start(pods: &Api<Pod>, pod: &str, node: &str, options: &SessionOptions) -> Result<Hand, Error> {
    let failed = |why: String| Error::Hand { node: node.to_owned(), why };
    let streams = AttachParams::default().stdin(true).stdout(true).stderr(false);
    let attached = pods.exec(pod, ["workload", "hand", "--root", ROOT], &streams).await;
    let mut attached = attached.map_err(Error::api(format!("run a program in pod {pod}")))?;
    let (Some(from), Some(to)) = (attached.stdout(), attached.stdin()) else {
        return Err(failed("its streams are not there".to_owned()));
    };
    let hand = Hand::over(node, from, to, attached).await.map_err(|error| failed(error.to_string()))?;
    Ok(if options.whole.is_some() { hand } else { hand.that_only_looks(TIER) })
}

/// Reason why a pod waits, in the kubelet's words.
fn waits_for(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.into_iter().flatten();
    let waiting = containers.filter_map(|one| one.state?.waiting).find_map(|waiting| {
        let reason = waiting.reason?;
        Some(waiting.message.map_or(reason.clone(), |message| format!("{reason}: {message}")))
    });
    let phase = || format!("it is {}", status.phase.unwrap_or_else(|| "in no phase".to_owned()));
    waiting.or(status.message).unwrap_or_else(phase)
}

/// Why the DaemonSet's controller made no pod, in its words.
async fn never_made(client: &Client, namespace: &str) -> String {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let of_set = ListParams::default().fields(&format!("involvedObject.name={HAND}"));
    let told = events.list(&of_set).await.map(|list| list.items).unwrap_or_default();
    let warning = told.into_iter().rfind(|event| event.type_.as_deref() == Some("Warning"));
    warning.and_then(|event| event.message).unwrap_or_else(|| "its DaemonSet made none".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hands_are_on_the_nodes_that_were_found_and_on_no_others() {
        let set = daemon_set(&["a".to_owned(), "b".to_owned()], "lab:1", false);
        let spec = &set["spec"]["template"]["spec"];
        let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        let names = required["nodeSelectorTerms"].as_array().unwrap().iter();
        let names: Vec<_> = names.map(|term| term["matchFields"][0]["values"].clone()).collect();
        assert_eq!(names, [json!(["a"]), json!(["b"])]);
        assert_eq!(spec["tolerations"], json!([{ "operator": "Exists" }]));
        assert_eq!(spec["priorityClassName"], Value::Null);
    }

    #[test]
    fn a_pod_that_does_not_run_says_what_it_waits_for() {
        let pod = |status: Value| serde_json::from_value::<Pod>(json!({ "status": status })).unwrap();
        let waiting = json!({ "reason": "ErrImagePull", "message": "not found" });
        let status = json!({ "name": HAND, "state": { "waiting": waiting } });
        assert_eq!(waits_for(&pod(json!({ "containerStatuses": [status] }))), "ErrImagePull: not found");
        assert_eq!(waits_for(&pod(json!({ "phase": "Pending" }))), "it is Pending");
    }
}
