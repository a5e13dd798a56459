// SPDX-License-Identifier: Apache-2.0
//! Findings with their remedies. Pure.

use super::{Agent, Content, Finding, NodeStatus, Use};

/// A token that expires this soon should have been renewed: the kubelet does that when a fifth of its hour is left.
const SOON: u64 = 300;

pub(super) fn decide(seen: &NodeStatus, now: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |what: String, remedy: &str| findings.push(Finding { what, remedy: remedy.to_owned() });
    of_binaries(seen, &mut find);
    let credentials = &seen.credentials;
    if let Some(why) = &credentials.problem {
        find(
            format!("the plugin's credentials at {} cannot be used: {why}", credentials.path),
            "pods start as long as the agent answers; look at the service account's mount and at the run directory",
        );
    }
    if let Some(at) = credentials.token_expires.filter(|at| *at < now + SOON) {
        let when = if at < now { "expired" } else { "is about to expire" };
        find(
            format!("the plugin's token {when}"),
            "the agent copies its own as soon as the kubelet renews it; look at the kubelet's log",
        );
    }
    if let Some(mode) = credentials.mode.filter(|mode| mode & 0o007 != 0) {
        find(
            format!("every user of the node can read the plugin's credentials (mode {mode:04o})"),
            "set KUBECONFIG_MODE to 0600",
        );
    }
    if let Some(why) = &seen.conflist.problem {
        find(
            format!("the configuration of the node's network is not right: {why}"),
            "the agent puts it right unless something keeps it from that: see Agent not ready and Conflist fight in docs/operations.md",
        );
    }
    if let Some(name) = &seen.unknown_name {
        find(
            format!("the plugin does not know the agent's pod by its name ({name})"),
            "call the DaemonSet istio-cni-node, or put it on the node's network: after a reboot its pod waits for an agent otherwise",
        );
    }
    for mistake in &seen.mistakes {
        find(
            format!("a setting is not as somebody wants it: {mistake}"),
            "correct it in the ConfigMap istio-cni-config or the DaemonSet",
        );
    }
    of_sockets(seen, &mut find);
    of_the_agent(&seen.agent, &mut find);
    findings
}

fn of_binaries(seen: &NodeStatus, find: &mut impl FnMut(String, &str)) {
    for binary in &seen.binaries {
        match &binary.content {
            Content::Unreadable(why) => find(
                format!("no plugin at {}: {why}", binary.path),
                "without it runtimes start no pod whose configuration names it; the agent puts it back if the directory can be written",
            ),
            Content::Other(sha256) => find(
                format!("the plugin at {} is not the one of this agent (SHA-256 {sha256})", binary.path),
                "the agent replaces it; if it does not, look at its log for `install`",
            ),
            Content::Shipped | Content::Unjudged(_) => {}
        }
    }
}

fn of_sockets(seen: &NodeStatus, find: &mut impl FnMut(String, &str)) {
    for socket in &seen.sockets {
        if let Some(why) = &socket.problem {
            let remedy = match socket.purpose {
                Use::Questions => "the plugin asks the API server instead; restart the agent if it runs",
                Use::Lines => {
                    "the plugin's lines are in istio-cni.log beside it alone; restart the agent if it runs"
                }
            };
            find(format!("nobody answers at {}: {why}", socket.path), remedy);
        }
    }
}

fn of_the_agent(agent: &Agent, find: &mut impl FnMut(String, &str)) {
    match agent {
        Agent::Ready => {}
        Agent::NotReady(parts) => {
            for (part, why) in parts {
                find(format!("the agent says of {part}: {why}"), "see Agent not ready in docs/operations.md");
            }
        }
        Agent::Silent(why) => find(
            format!("the agent does not answer: {why}"),
            "look whether its pod runs: kubectl get pods --all-namespaces -l k8s-app=istio-cni-node -o wide",
        ),
    }
}
