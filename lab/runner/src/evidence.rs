// SPDX-License-Identifier: Apache-2.0
//! Evidence of a failed scenario: rules, CNI calls, API requests, traffic and objects. And the end of every scenario's world.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use cluster::{Cluster, LabError, Leftovers, PodName, SYSTEM_NAMESPACE};
use cucumber::gherkin;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;
use tokio::time::timeout;

use crate::ledger::Extra;
use crate::steps::backend::taken;
use crate::steps::faults::described;
use crate::steps::world::{Lab, LabWorld};
use crate::{directory, errors, redact};

/// Deadline of an end: each of its steps has one of its own, of two minutes at most.
const END: Duration = Duration::from_secs(600);

/// Ends a scenario: gathers evidence if it failed, takes its world down unless it is to be kept, and notes the rest.
pub async fn conclude(
    lab: &Lab,
    feature: &gherkin::Feature,
    scenario: &gherkin::Scenario,
    failed: bool,
    world: Option<&mut LabWorld>,
) {
    let Some(entry) = lab.catalogue.find(feature, scenario) else { return };
    let Some(world) = world else { return };
    let mut extra = Extra { notes: std::mem::take(&mut world.notes), ..Extra::default() };
    extra.back_ends = back_ends(world);
    judge_denied(&mut extra, denied(world));
    // Of one that ended early, what its remaining steps would have expected is no surprise either.
    let announced = if failed { errors::announced(&entry.scenario) } else { Vec::new() };
    if let Err(why) = judge_logs(&mut extra, lab, world, announced).await {
        extra.fault(why);
    }
    match crashed(world).await {
        Ok(crash) => extra.wrong = extra.wrong.or(crash),
        Err(why) => extra.fault(format!("nobody knows what crashed: {why}")),
    }
    let failed = failed || extra.wrong.is_some();
    // With a defect a scenario has to fail: its reason is all that anyone looks for.
    if failed && entry.mutant.is_none() {
        let name = format!("evidence/{}", entry.id);
        let (written, lost) = gather(&lab.plan.report_dir, name, world).await;
        extra.evidence = written;
        extra.notes.extend(lost.into_iter().map(|why| format!("evidence is missing: {why}")));
    }
    if let Err(why) = lab.sealed.look_at_processes(&lab.plan.workload) {
        extra.fault(format!("the lab's processes cannot be looked at: {why}"));
    }
    if !lab.plan.args.keep {
        let late = || Err(format!("it did not end within {END:?}"));
        match timeout(END, world.end()).await.unwrap_or_else(|_| late()) {
            Ok(left) => judge_end(&mut extra, &left, &world.left_networks),
            Err(why) => extra.fault(format!("its world was not taken down completely: {why}")),
        }
    }
    if let Some(broken) = lab.sealed.touched() {
        extra.fault(broken);
    }
    lab.ledger.note(&entry.id, extra);
}

/// A DEL that fails at the end leaves a pod that cannot be deleted. A real kubelet quotes what its runtime said.
fn judge_end(extra: &mut Extra, left: &Leftovers, expected: &[String]) {
    let is_expected = |why: &str| expected.iter().any(|fragment| why.contains(fragment));
    let failed = left.networks.iter().find(|why| !is_expected(&why.replace('\\', "")));
    extra.left = failed.map(|why| format!("at its end: {why}"));
    left.faults.iter().for_each(|why| extra.fault(why));
}

/// Denied requests of the agent, or of a taint controller. Every scenario checks it: a chart that lacks a right is wrong in all of them.
fn denied(world: &LabWorld) -> Result<Vec<String>, LabError> {
    let Some(tier) = world.cluster.as_deref() else { return Ok(Vec::new()) };
    let mut denied = world.agent.account.denied(tier)?;
    denied.extend(world.taints.controllers.account.denied(tier)?);
    Ok(denied)
}

/// Nobody stands before the API server of somebody's cluster: there the record says so.
fn judge_denied(extra: &mut Extra, denied: Result<Vec<String>, LabError>) {
    match denied {
        Ok(denied) => {
            let told = |one: &String| format!("who runs with the chart's rights was denied something: {one}");
            extra.wrong = denied.first().map(told);
        }
        Err(LabError::Unsupported { .. }) => {
            extra.notes.push("nobody looked at denied requests: there is no front".to_owned());
        }
        Err(why) => extra.fault(format!("denied requests cannot be read: {why}")),
    }
}

/// An error in a log that nobody expects is wrong; each that the product's description excuses is counted, and the first of its kind named.
async fn judge_logs(
    extra: &mut Extra,
    lab: &Lab,
    world: &LabWorld,
    announced: Vec<String>,
) -> Result<(), LabError> {
    let Some(tier) = world.cluster.as_deref() else { return Ok(()) };
    let lines = tier.logs().await?;
    let reasons = &lab.plan.sut.product.errors;
    let excuses: Vec<String> = reasons.keys().cloned().collect();
    let expected = [world.errors.clone(), announced].concat();
    let judged = errors::judge(&lines, &expected, &excuses);
    let told = |error: &str| format!("nobody expects this error in a log: {error}");
    extra.wrong = extra.wrong.take().or(judged.unexpected.map(told));
    for (text, lines) in judged.excused {
        let why = reasons.get(text).map_or("", String::as_str);
        let count = lines.len();
        extra.notes.push(format!("errors of the product that its description excuses: {count} with {text:?} ({why}), the first: {}", lines[0]));
        extra.excused.insert(text.to_owned(), count);
    }
    Ok(())
}

/// A crash of the node agent or of a taint controller, where the run deploys them.
async fn crashed(world: &LabWorld) -> Result<Option<String>, kube::Error> {
    let is_deployed = world.agent.account.is_there() || world.taints.controllers.account.is_there();
    let Some(tier) = world.cluster.as_deref().filter(|_| is_deployed) else { return Ok(None) };
    let pods: Api<Pod> = Api::namespaced(tier.client(), SYSTEM_NAMESPACE);
    let pods = pods.list(&ListParams::default()).await?;
    Ok(errors::crashed(&pods.items))
}

/// Back ends of the plugin's ADDs with their reasons, once each, in order.
fn back_ends(world: &LabWorld) -> Vec<String> {
    let Some(tier) = world.cluster.as_deref() else { return Vec::new() };
    let calls = (**tier).nodes().into_iter().flat_map(calls_of);
    let mut all: Vec<String> = Vec::new();
    for taken in calls.filter_map(|(_, answer)| taken(&answer)) {
        if !all.contains(&taken) {
            all.push(taken);
        }
    }
    all
}

/// Plugin calls of a node, where they are seen.
fn calls_of(node: &dyn cluster::Node) -> Vec<(cluster::CniCall, cluster::CniAnswer)> {
    node.cni_calls().unwrap_or_default()
}

/// Writes everything that is known of a world. Returns the files, and why some could not be written; the verdict stays.
async fn gather(report_dir: &Path, name: String, world: &LabWorld) -> (Vec<String>, Vec<String>) {
    let mut files = vec![("traffic.json", json(&world.traffic)), ("objects.json", json(&world.objects))];
    if let Some(tier) = world.cluster.as_deref() {
        let cluster: &dyn Cluster = &**tier;
        let requests = cluster.front().map(cluster::Front::requests).unwrap_or_default();
        files.push(("api.log", requests.iter().map(|one| described(one) + "\n").collect()));
        let calls: Vec<_> = cluster.nodes().into_iter().flat_map(calls_of).collect();
        files.push(("cni-calls.txt", calls_text(&calls)));
        let asked: Vec<_> = cluster.nodes().into_iter().flat_map(cluster::Node::agent_requests).collect();
        files.push(("agent-requests.json", json(&asked)));
        files.push(("rules.txt", insides(world, cluster).await));
        files.push(("logs.txt", tier.logs().await.unwrap_or_default().join("\n") + "\n"));
        files.push(("node.txt", node_files(cluster).await));
    }
    files.retain(|(_, text)| !text.trim().is_empty());
    let dir = report_dir.to_owned();
    // The disk may keep a thread waiting.
    let written = tokio::task::spawn_blocking(move || write(&dir, &name, &files)).await;
    written.unwrap_or_else(|error| (Vec::new(), vec![error.to_string()]))
}

/// Writes files, and returns them, and why some could not be written.
fn write(report_dir: &Path, name: &str, files: &[(&str, String)]) -> (Vec<String>, Vec<String>) {
    let (mut written, mut lost) = (Vec::new(), Vec::new());
    for (file, text) in files {
        let path = format!("{name}/{file}");
        match directory::write(report_dir, &path, redact::evidence(text).as_bytes()) {
            Ok(()) => written.push(path),
            Err(why) => lost.push(format!("{why:#}")),
        }
    }
    (written, lost)
}

fn json(value: &(impl Serialize + ?Sized)) -> String {
    match serde_json::to_string_pretty(value) {
        Ok(text) if text == "[]" => String::new(),
        Ok(text) => text + "\n",
        Err(error) => format!("{error}\n"),
    }
}

fn calls_text(calls: &[(cluster::CniCall, cluster::CniAnswer)]) -> String {
    let mut text = String::new();
    for (call, answer) in calls {
        let (plugin, command) = (&call.plugin, call.command());
        let _ = writeln!(text, "== {plugin} {command}: exit {:?} after {:?}", answer.exit, answer.took);
        for (key, value) in &call.env {
            let _ = writeln!(text, "{key}={value}");
        }
        for (name, bytes) in [
            ("stdin", String::from_utf8_lossy(&call.stdin)),
            ("stdout", answer.stdout.as_str().into()),
            ("stderr", answer.stderr.as_str().into()),
        ] {
            let _ = writeln!(text, "-- {name}\n{}", bytes.trim_end());
        }
    }
    text
}

/// Content of the configuration directories, and other files of the nodes.
async fn node_files(cluster: &dyn Cluster) -> String {
    let mut text = String::new();
    for node in cluster.nodes() {
        let Ok(hand) = node.hand().await else { continue };
        let paths = node.directories();
        for directory in [paths.conf_dir, paths.bin_dir, paths.run_dir, paths.cache_dir.join("results")] {
            for entry in hand.list(&directory).await.unwrap_or_default() {
                let path = directory.join(entry.name);
                let _ = writeln!(text, "== {} {}", node.name(), path.display());
                let is_conf = path.extension().is_some_and(|kind| kind.to_string_lossy().starts_with("conf"));
                if is_conf && let Ok(bytes) = hand.read(&path).await {
                    let _ = writeln!(text, "{}", String::from_utf8_lossy(&bytes).trim_end());
                }
            }
        }
    }
    text
}

/// Rules of every running pod.
async fn insides(world: &LabWorld, cluster: &dyn Cluster) -> String {
    let mut rules = String::new();
    for name in world.starts.keys() {
        let Some(pod) = world.pods.get(name) else { continue };
        let Ok(workload) = cluster.workload(&PodName::new(&pod.namespace, name)).await else { continue };
        let _ = writeln!(rules, "== {name} ({})", workload.netns().unwrap_or_default());
        match workload.network().await {
            Ok(all) => all.rules.iter().for_each(|rule| rules.push_str(&rule_line(rule))),
            Err(error) => rules.push_str(&format!("{error}\n")),
        }
    }
    rules
}

fn rule_line(rule: &cluster::LiveRule) -> String {
    let cluster::LiveRule { family, table, chain, position, packets, text, .. } = rule;
    format!("{packets:8} {family} {table} {chain} {position} {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_that_cannot_be_written_is_said_and_what_is_written_has_no_secret_and_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("evidence/g/a/api.log")).unwrap();
        let long = "x".repeat(3 << 20);
        let files =
            [("api.log", "GET".to_owned()), ("cni-calls.txt", format!("token: secretsecret\n{long}"))];
        let (written, lost) = write(dir.path(), "evidence/g/a", &files);
        assert_eq!(written, ["evidence/g/a/cni-calls.txt"]);
        assert!(lost.len() == 1 && lost[0].contains("evidence/g/a/api.log: Is a directory"), "{lost:?}");
        let text = std::fs::read_to_string(dir.path().join(&written[0])).unwrap();
        assert!(text.len() < (1 << 20) + 64 && text.contains(" bytes left out ") && !text.contains("secret"));
    }

    #[test]
    fn denied_requests_that_nobody_can_see_are_noted_and_a_look_that_fails_is_a_fault() {
        let judged = |denied: Result<Vec<String>, LabError>| {
            let mut extra = Extra::default();
            judge_denied(&mut extra, denied);
            (extra.wrong.is_some(), extra.notes.len(), extra.fault.is_some())
        };
        let unsupported = LabError::unsupported("t", "see requests");
        let broken = LabError::harness("read", "EPIPE");
        assert_eq!(judged(Ok(Vec::new())), (false, 0, false));
        assert_eq!(judged(Ok(vec!["get nodes".to_owned()])), (true, 0, false));
        assert_eq!(judged(Err(unsupported)), (false, 1, false));
        assert_eq!(judged(Err(broken)), (false, 0, true));
    }

    #[test]
    fn what_a_cluster_leaves_is_wrong_unless_it_is_expected_and_its_faults_are_the_labs() {
        let strings = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let left =
            Leftovers { networks: strings(&[r#"DEL: no plugin \"x\""#]), faults: strings(&["a", "b"]) };
        let judged = |expected: &[&str]| {
            let mut extra = Extra::default();
            extra.fault("no log");
            judge_end(&mut extra, &left, &strings(expected));
            (extra.left, extra.fault)
        };
        let fault = Some("no log; a; b".to_owned());
        assert_eq!(judged(&[]), (Some(r#"at its end: DEL: no plugin \"x\""#.to_owned()), fault.clone()));
        assert_eq!(judged(&["no plugin \"x\""]), (None, fault));
    }
}
