// SPDX-License-Identifier: Apache-2.0
//! Labels and annotations that every injected pod gets: what its workload is called, and which of its containers is the app.

use serde_json::Value;

use crate::containers::PROXY;

/// Longest value of a label.
const LONGEST: usize = 63;

/// Name of the workload: of the controller that generates the pod's name, a Deployment's for one of its ReplicaSets.
fn name(metadata: &Value) -> &str {
    let own = metadata["name"].as_str().unwrap_or_default();
    if metadata["generateName"].as_str().is_none_or(str::is_empty) {
        return own;
    }
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let Some(owner) = owners.find(|owner| owner["controller"] == true) else { return own };
    let controller = owner["name"].as_str().unwrap_or_default();
    let hash = metadata["labels"]["pod-template-hash"].as_str().filter(|hash| !hash.is_empty());
    match hash.filter(|_| owner["kind"] == "ReplicaSet").and_then(|hash| controller.strip_suffix(hash)) {
        Some(deployment) => deployment.strip_suffix('-').unwrap_or(controller),
        None => controller,
    }
}

/// Labels, those that the pod has for the same purpose first.
pub(crate) fn labels(metadata: &Value) -> [(&'static str, String); 3] {
    let own = |names: &[&str]| {
        let mut values = names.iter().filter_map(|name| metadata["labels"][name].as_str());
        values.find(|value| !value.is_empty()).map(str::to_owned)
    };
    let of_app = own(&["service.istio.io/canonical-name", "app.kubernetes.io/name", "app"]);
    let canonical: String =
        of_app.unwrap_or_else(|| name(metadata).to_owned()).chars().take(LONGEST).collect();
    let revision = own(&["service.istio.io/canonical-revision", "app.kubernetes.io/version", "version"]);
    [
        (
            "security.istio.io/tlsMode",
            own(&["security.istio.io/tlsMode"]).unwrap_or_else(|| "istio".to_owned()),
        ),
        ("service.istio.io/canonical-name", canonical.trim_matches(['-', '_', '.']).to_owned()),
        ("service.istio.io/canonical-revision", revision.unwrap_or_else(|| "latest".to_owned())),
    ]
}

/// Annotations that tell kubectl which container is meant.
pub(crate) fn default_container(pod: &Value) -> Vec<(&'static str, String)> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut names = containers.filter_map(|container| container["name"].as_str());
    let Some(app) = names.find(|name| *name != PROXY) else { return Vec::new() };
    let both = ["kubectl.kubernetes.io/default-logs-container", "kubectl.kubernetes.io/default-container"];
    both.map(|name| (name, app.to_owned())).into()
}
