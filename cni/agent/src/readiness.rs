// SPDX-License-Identifier: Apache-2.0
//! Readiness of the process, part by part. Each part reports its own; `/readyz` and the metric read all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// A part that must be right before the agent, or the controller of taints, is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The plugin's binary in every target directory.
    Binaries,
    /// The plugin's credentials.
    Kubeconfig,
    /// Our entry in the configuration that runtimes read first.
    Conflist,
    /// The sockets that the plugin talks to.
    Sockets,
    /// The runtime's loaded configuration, which has our entry.
    Runtime,
    /// ConfigMap of the pods that nodes need, listed.
    Needs,
    /// Nodes, listed.
    Nodes,
    /// Pods of each rule, listed.
    Pods,
}

impl Part {
    /// Parts of the agent, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::Binaries, Self::Kubeconfig, Self::Conflist, Self::Sockets, Self::Runtime];

    /// Parts of the taint controller.
    pub const CONTROLLER: [Self; 3] = [Self::Needs, Self::Nodes, Self::Pods];

    /// Name in reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Binaries => "binaries",
            Self::Kubeconfig => "kubeconfig",
            Self::Conflist => "conflist",
            Self::Sockets => "sockets",
            Self::Runtime => "runtime",
            Self::Needs => "needs",
            Self::Nodes => "nodes",
            Self::Pods => "pods",
        }
    }
}

/// Unready parts with their reasons; a part that never reported is unready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(BTreeMap<Part, String>);

impl Missing {
    fn all(parts: &[Part]) -> Self {
        Self(parts.iter().map(|part| (*part, "not looked at yet".to_owned())).collect())
    }

    /// True if no part is missing.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.is_empty()
    }

    /// Unready parts with their reasons.
    pub fn iter(&self) -> impl Iterator<Item = (Part, &str)> {
        self.0.iter().map(|(part, why)| (*part, why.as_str()))
    }
}

/// Readiness of this process: cheap to clone, clones share it.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<watch::Sender<Missing>>);

impl Default for Readiness {
    fn default() -> Self {
        Self::of(&Part::ALL)
    }
}

impl Readiness {
    /// Readiness of a process with these parts; all begin unready.
    #[must_use]
    pub fn of(parts: &[Part]) -> Self {
        Self(Arc::new(watch::Sender::new(Missing::all(parts))))
    }

    pub fn set_ready(&self, part: Part) {
        self.0.send_if_modified(|missing| missing.0.remove(&part).is_some());
    }

    /// Marks a part as unready; `why` is a fragment that a person can act on.
    pub fn set_unready(&self, part: Part, why: impl Into<String>) {
        let why = why.into();
        self.0.send_if_modified(|missing| {
            let changed = missing.0.get(&part) != Some(&why);
            missing.0.insert(part, why);
            changed
        });
    }

    #[must_use]
    pub fn missing(&self) -> Missing {
        self.0.borrow().clone()
    }

    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Missing> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_when_every_part_said_so() {
        let readiness = Readiness::default();
        for part in Part::ALL {
            assert!(!readiness.missing().is_ready(), "{part:?}");
            readiness.set_ready(part);
        }
        assert!(readiness.missing().is_ready());
        readiness.set_unready(Part::Conflist, "file 10-x.conflist lacks our entry");
        let missing = readiness.missing();
        assert_eq!(
            missing.iter().collect::<Vec<_>>(),
            [(Part::Conflist, "file 10-x.conflist lacks our entry")]
        );
    }

    #[test]
    fn saying_the_same_again_wakes_nobody() {
        let readiness = Readiness::default();
        readiness.set_ready(Part::Sockets);
        let mut changes = readiness.changes();
        changes.borrow_and_update();
        readiness.set_ready(Part::Sockets);
        readiness.set_unready(Part::Binaries, "not looked at yet");
        assert!(!changes.has_changed().unwrap());
        readiness.set_unready(Part::Binaries, "no space left");
        assert!(changes.has_changed().unwrap());
    }
}
