// SPDX-License-Identifier: Apache-2.0
//! Lists in the CNI directory that no pod is meant to use, although runtimes take one that they find first: podman's networks, and `loopback`
//! alone. A node that has nothing else waits for its primary CNI. Told by their content, as a file of any name may be the primary's.

use super::document::{Document, Members};

/// Prefix of the bridges that podman makes; its default list is `87-podman-bridge.conflist`.
const PODMAN_BRIDGE: &str = "cni-podman";
/// Name of podman's default network.
const PODMAN: &str = "podman";

/// True for a list that is no network of pods. `CNI_CONF_NAME` may name it all the same.
#[must_use]
pub fn is_unused(document: &Document<'_>) -> bool {
    let others = document.others();
    let loopback = !others.is_empty() && others.iter().all(|kind| kind.as_deref() == Some("loopback"));
    loopback || is_podmans(document)
}

fn is_podmans(document: &Document<'_>) -> bool {
    let bridge =
        |members: &Members<'_>| members.text("bridge").is_some_and(|name| name.starts_with(PODMAN_BRIDGE));
    document.network().as_deref() == Some(PODMAN)
        || match document {
            Document::List(list) => list
                .plugins
                .iter()
                .filter_map(|plugin| Members::parse(plugin.text).ok())
                .any(|one| bridge(&one)),
            Document::Single(members) => bridge(members),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn podmans_lists_and_loopback_alone_are_no_network_of_pods() {
        for (text, unused) in [
            (
                r#"{"name":"podman","plugins":[{"type":"bridge","bridge":"cni-podman0"},{"type":"portmap"}]}"#,
                true,
            ),
            (r#"{"name":"podman","plugins":[{"type":"ptp"}]}"#, true),
            (
                r#"{"name":"mine","plugins":[{"type":"bridge","bridge":"cni-podman12"},{"type":"istio-cni"}]}"#,
                true,
            ),
            (r#"{"name":"loopback","plugins":[{"type":"loopback"}]}"#, true),
            (r#"{"name":"loopback","plugins":[{"type":"loopback"},{"type":"istio-cni"}]}"#, true),
            (r#"{"name":"lo","type":"loopback"}"#, true),
            (r#"{"name":"loopback","plugins":[{"type":"loopback"},{"type":"bridge"}]}"#, false),
            (r#"{"name":"loopback","plugins":[{"type":"istio-cni"}]}"#, false),
            (r#"{"name":"crio","plugins":[{"type":"bridge","bridge":"cni0"}]}"#, false),
            (r#"{"name":"podman-like","type":"ptp"}"#, false),
        ] {
            assert_eq!(is_unused(&Document::parse(text).unwrap()), unused, "{text}");
        }
    }
}
