// SPDX-License-Identifier: Apache-2.0
//! Pod Security admission: what a namespace's labels `pod-security.kubernetes.io/{enforce,warn}` say of a pod, in the words of
//! k8s.io/pod-security-admission. Pure.
//!
//! Pods are judged when they are created; workloads are never refused, only warned about, as their pods come later. Only the latest version of
//! the checks is here; `audit` would annotate an audit log, which there is none of. A namespace without labels is privileged.

mod checks;
mod restricted;

use serde_json::Value;

use self::checks::Violation;
use super::{Operation, Proposal};
use crate::error::ApiError;
use crate::kinds;
use crate::store::{Key, Store};

const LABELS: &str = "pod-security.kubernetes.io";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    /// A level that nobody knows is the strictest one.
    fn of(text: &str) -> Self {
        match text {
            "privileged" => Self::Privileged,
            "baseline" => Self::Baseline,
            _ => Self::Restricted,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// Refuses a pod that its namespace does not allow.
pub(super) fn admit(proposal: &Proposal<'_>, store: &Store) -> Result<(), ApiError> {
    let Some(why) = judged(proposal, store, "enforce").filter(|_| proposal.key.kind.name == "Pod") else {
        return Ok(());
    };
    let (kind, name) = (proposal.key.kind, Some(proposal.key.name.clone()));
    Err(ApiError::Denied { kind, name, why: format!("violates {why}") })
}

/// Warning about a pod, or about those of a workload.
pub(crate) fn warning(proposal: &Proposal<'_>, store: &Store) -> Option<String> {
    judged(proposal, store, "warn").map(|why| format!("would violate {why}"))
}

/// `PodSecurity "restricted:latest": …`
fn judged(proposal: &Proposal<'_>, store: &Store, mode: &str) -> Option<String> {
    let object = proposal.object?;
    let spec = match proposal.key.kind.name {
        "Pod" => &object["spec"],
        "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet" | "Job" => {
            &object["spec"]["template"]["spec"]
        }
        _ => return None,
    };
    let template = proposal.key.kind.name != "Pod" && proposal.operation == Operation::Update;
    if proposal.subresource.is_some() || !(proposal.operation == Operation::Create || template) {
        return None;
    }
    let name = proposal.key.namespace.clone();
    let namespace = store.get(&Key { kind: &kinds::NAMESPACE, namespace: String::new(), name }).ok()?;
    let labels = &namespace["metadata"]["labels"];
    let level = Level::of(labels[format!("{LABELS}/{mode}")].as_str()?);
    let version = labels[format!("{LABELS}/{mode}-version")].as_str().unwrap_or("latest");
    let violations = violations(level, spec);
    let texts: Vec<_> = violations.iter().map(Violation::text).collect();
    (!texts.is_empty()).then(|| format!("PodSecurity \"{}:{version}\": {}", level.name(), texts.join(", ")))
}

/// Violations, in the order in which the real one lists them: those of `baseline`, then those of `restricted`.
fn violations(level: Level, spec: &Value) -> Vec<Violation> {
    let baseline = checks::BASELINE
        .iter()
        .filter(|check| level >= Level::Baseline && !(level == Level::Restricted && check.replaced));
    let restricted = restricted::RESTRICTED.iter().filter(|_| level == Level::Restricted);
    let first = baseline.filter_map(|check| (check.run)(spec));
    first.chain(restricted.filter_map(|run| run(spec))).collect()
}

#[cfg(test)]
mod tests;
