// SPDX-License-Identifier: Apache-2.0
//! Which scenarios speak of any Istio-compatible node agent, and which of what only Millrace has: front ends, files and names of its own.

/// Tag of a scenario that only Millrace can pass.
pub const MILLRACE: &str = "millrace";

/// Words of steps about what only Millrace has.
const OWN: [&str; 31] = [
    // Settings, metrics and annotations of its own.
    "millrace",
    "MILLRACE_RAISE_CNI_VERSION",
    "MILLRACE_INTERCEPTION_MODE_NONE",
    "EvictUnredirectedPod",
    "SandboxedRuntime",
    "sandboxed runtimes",
    "policy agent",
    // Choice of a back end.
    "back end",
    "--backend",
    "an ADD with nft",
    "programs as",
    // `istio-cni diagnose`, `istio-iptables explain`, `install-cni status`.
    "it is diagnosed",
    "it differs",
    "nobody can tell",
    "explain",
    "the status says",
    "its status finds",
    "token is told nowhere",
    "answers \"/settings\"",
    // `install-cni manifests`, and what these objects allow and mount.
    "manifests are rendered",
    "a mesh's document",
    "values of the chart:",
    "rights are",
    "its mounts are",
    "its process has the capabilities",
    // Protocol of the agent's socket.
    "the agent's socket",
    "agent.sock\" of the node",
    "the node's agent is",
    "the agent was asked",
    // Upstream never evicts.
    "the turn of an eviction",
    // Upstream's is a part of istiod.
    "taint controller",
];

/// True if a step speaks of what only Millrace has.
#[must_use]
pub fn is_own(step: &str) -> bool {
    OWN.iter().any(|word| step.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::cli::Selection;
    use crate::locate::Workspace;

    #[test]
    fn exactly_scenarios_with_steps_of_our_own_have_the_tag() {
        let root = Workspace::find().unwrap().root;
        let catalogue = Catalogue::read(&root, &Selection::default()).unwrap();
        let (mut tagged, mut wrong) = (0, Vec::new());
        for entry in &catalogue.entries {
            let of_file = |feature: &&cucumber::gherkin::Feature| {
                feature.path.as_deref().is_some_and(|path| path.ends_with(&entry.file))
            };
            let feature = catalogue.features.iter().find(of_file).unwrap();
            let background = feature.background.iter().flat_map(|background| &background.steps);
            let own = background.chain(&entry.scenario.steps).any(|step| is_own(&step.value));
            let has_tag = entry.tags.iter().any(|tag| tag == MILLRACE);
            tagged += usize::from(has_tag);
            if own != has_tag {
                wrong.push(&entry.id);
            }
        }
        assert_eq!(wrong, Vec::<&String>::new(), "@{MILLRACE} is missing, or is one too many");
        assert!(tagged > 0 && tagged < catalogue.entries.len(), "{tagged} of {}", catalogue.entries.len());
    }
}
