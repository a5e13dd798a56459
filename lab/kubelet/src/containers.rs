// SPDX-License-Identifier: Apache-2.0
//! The processes of a pod, and what its kubelet knows of each.

use std::time::Duration;

use apiserver::Timestamp;

use crate::pod::{ContainerRole, Plan, Restart};
use crate::probe::Seen;
use crate::process::{Exit, Process};

/// Reason of an unready container before its first probe.
pub const NOT_PROBED: &str = "not probed yet";

#[derive(Debug)]
pub struct Container {
    pub name: String,
    pub role: ContainerRole,
    pub process: Process,
    /// Start of the process.
    pub since: Timestamp,
    /// Number of its former processes.
    pub restarts: u32,
    /// End of the former process.
    pub last: Option<Ended>,
    /// Its next process is in backoff.
    pub backs_off: bool,
    /// The end of its process was reported.
    pub end_told: bool,
    /// Last result of its readiness probe; `None` without a probe.
    pub seen: Option<Seen>,
}

/// End of a process.
#[derive(Debug, Clone)]
pub struct Ended {
    pub exit: Exit,
    /// Start.
    pub since: Timestamp,
    /// End.
    pub at: Timestamp,
    /// Last output.
    pub message: String,
}

impl Container {
    /// End of its process, if it has ended.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        let (exit, at) = self.process.exit_at()?;
        let message = self.process.output().lines().pop().unwrap_or_default();
        Some(Ended { exit, since: self.since, at, message })
    }

    /// True if it has completed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.role == ContainerRole::Init && self.process.exit().is_some_and(|exit| exit.code() == 0)
    }

    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.exit().is_none()
    }

    /// True if the policy restarts it.
    #[must_use]
    pub fn is_wanted(&self, policy: Restart) -> bool {
        let Some(exit) = self.process.exit() else { return false };
        match (self.role, policy) {
            // A native sidecar has a policy of its own.
            (ContainerRole::Sidecar, _) | (ContainerRole::Main, Restart::Always) => true,
            (ContainerRole::Init, Restart::Always | Restart::OnFailure)
            | (ContainerRole::Main, Restart::OnFailure) => exit.code() != 0,
            (ContainerRole::Init | ContainerRole::Main, Restart::Never) => false,
        }
    }
}

/// True if all usual containers of a pod have ended, and the policy restarts none: a kubelet then ends its sidecars.
#[must_use]
pub fn are_over(plan: &Plan, containers: &[Container]) -> bool {
    let is_main = |role: ContainerRole| role == ContainerRole::Main;
    let planned = plan.containers.iter().filter(|planned| is_main(planned.role)).count();
    let mut main = containers.iter().filter(|container| is_main(container.role));
    plan.restart != Restart::Always
        && main.clone().count() == planned
        && main.all(|container| !container.runs() && !container.is_wanted(plan.restart))
}

/// Termination of a pod's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// SIGTERM, and SIGKILL after this long.
    Graceful(Duration),
    /// SIGKILL.
    Kill,
}

/// Ends all of them, and forgets them.
pub async fn stop(containers: &mut Vec<Container>, ending: Ending) {
    end(containers.iter(), ending).await;
    containers.clear();
}

/// Ends all of them, and waits until they are gone: they are asked together, and killed the last one first.
pub async fn end<'a>(containers: impl DoubleEndedIterator<Item = &'a Container> + Clone, ending: Ending) {
    if let Ending::Graceful(grace) = ending {
        let all = containers.clone().map(|container| container.process.terminate(grace));
        futures::future::join_all(all).await;
    }
    for container in containers.rev() {
        container.process.kill().await;
    }
}
