// SPDX-License-Identifier: Apache-2.0
//! The runtime of a node, by `status.nodeInfo.containerRuntimeVersion`, and the time it needs to notice a list.

use std::time::Duration;

use serde::Deserialize;

/// Runtime that reads CNI configurations on a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// The node's status is not known, or names another runtime.
    #[default]
    Unknown,
    /// Watches the directory.
    Containerd,
    /// Watches the directory and those of plugins, and asks every plugin for its VERSION each time.
    CriO,
    /// Looks every five seconds.
    CriDockerd,
}

impl RuntimeKind {
    /// Parses `containerRuntimeVersion`: `containerd://2.1.4`.
    #[must_use]
    pub fn of(version: &str) -> Self {
        match version.split_once("://").map(|(name, _)| name) {
            Some("containerd") => Self::Containerd,
            Some("cri-o") => Self::CriO,
            Some("docker") => Self::CriDockerd,
            _ => Self::Unknown,
        }
    }

    /// Time after a write until the runtime has loaded it: twice the longest that was measured (docs/race.md); the one that does not watch has its
    /// interval, and a second.
    #[must_use]
    pub const fn settle(self) -> Duration {
        match self {
            Self::Containerd => Duration::from_millis(200),
            Self::CriO | Self::Unknown => Duration::from_millis(1500),
            Self::CriDockerd => Duration::from_secs(6),
        }
    }
}

/// Subset of a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeOfRuntime {
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    node_info: NodeInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    container_runtime_version: String,
}

impl NodeOfRuntime {
    pub(super) fn kind(&self) -> RuntimeKind {
        RuntimeKind::of(&self.status.node_info.container_runtime_version)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_nodes_status_names_its_runtime() {
        for (version, kind) in [
            ("containerd://1.6.20", RuntimeKind::Containerd),
            ("containerd://2.1.4-k3s1", RuntimeKind::Containerd),
            ("cri-o://1.36.1", RuntimeKind::CriO),
            ("docker://25.0.14", RuntimeKind::CriDockerd),
            ("containerd", RuntimeKind::Unknown),
            ("", RuntimeKind::Unknown),
            ("frakti://1", RuntimeKind::Unknown),
        ] {
            let node = json!({ "status": { "nodeInfo": { "containerRuntimeVersion": version } } });
            let node: NodeOfRuntime = serde_json::from_value(node).unwrap();
            assert_eq!(node.kind(), kind, "{version}");
        }
        assert_eq!(NodeOfRuntime::default().kind(), RuntimeKind::Unknown);
    }

    #[test]
    fn an_unknown_runtime_gets_as_long_as_any_that_watches() {
        let unknown = RuntimeKind::Unknown.settle();
        assert!(unknown >= RuntimeKind::Containerd.settle() && unknown >= RuntimeKind::CriO.settle());
        assert!(RuntimeKind::CriDockerd.settle() > Duration::from_secs(5), "it looks every five seconds");
    }
}
