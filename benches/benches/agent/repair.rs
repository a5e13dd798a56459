// SPDX-License-Identifier: Apache-2.0
//! A pod whose validation failed, in a real namespace without rules: from the status that says so to rules that are proven.

use std::time::Instant;

use anyhow::{Context, Result};
use benches::pod::PodNamespace;
use benches::report::Effort;
use serde_json::json;

use crate::node::{Agent, Binaries, Node, PATIENCE, metric, until};
use crate::{Figures, Goal, pods};

const REPAIRED: &str = "istio_cni_repair_pods_repaired_total";

pub(crate) fn measure(effort: Effort, binaries: &Binaries, figures: &mut Figures) -> Result<()> {
    let mut samples = Vec::new();
    for _ in 0..effort.pick(1, 10) {
        let node = Node::create(binaries)?;
        node.api.create_namespace(pods::NAMESPACE, &[].into())?;
        let mut agent =
            node.start(&binaries.agent, &[("REPAIR_ENABLED", "true"), ("REPAIR_REPAIR_PODS", "true")])?;
        agent.ready()?;
        samples.push(repair(&node, &agent)?);
    }
    figures.samples(
        "repair, from the pod's status to proven",
        samples,
        1.0,
        Goal { most: 1000.0, unit: "ms" },
    );
    Ok(())
}

/// Duration of a repair in milliseconds.
fn repair(node: &Node, _: &Agent) -> Result<f64> {
    let namespace = PodNamespace::create()?;
    let mut pod = pods::realistic("broken")?;
    pod["status"] = json!({"phase": "Pending"});
    let key = pods::put(node, pod.clone())?;
    pods::place(node, &key, &namespace)?;
    let ended = json!({"exitCode": 126, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z", "message": ""});
    pod["status"] = json!({"phase": "Pending", "podIP": "10.9.0.2", "podIPs": [{"ip": "10.9.0.2"}],
        "initContainerStatuses": [{"name": "istio-validation", "restartCount": 1, "ready": false, "image": "i", "imageID": "i",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}]});
    let start = Instant::now();
    node.api.upsert(pod)?;
    let proven = || Ok((metric(REPAIRED, "result=\"success\"")? > 0.0).then(|| start.elapsed()));
    let took = until(PATIENCE, proven).context("wait until the metric says that the pod is repaired")?;
    let held = namespace.inside(netfilter::read)??;
    anyhow::ensure!(
        netfilter::has_rules_of_ours(&held),
        "the agent says that it repaired the pod, and there are no rules"
    );
    Ok(took.as_secs_f64() * 1e3)
}
