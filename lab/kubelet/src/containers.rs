// SPDX-License-Identifier: Apache-2.0
//! The processes of a pod: started in order, each awaited as its part in the pod asks for, and started again.

use std::time::Duration;

use apiserver::Timestamp;
use cluster::PodStart;
use tokio::sync::watch;

use crate::error::Error;
use crate::furnish::Shared;
use crate::node::NetnsNode;
use crate::pod::{Plan, Planned, Restart, Role};
use crate::probe::Seen;
use crate::process::{Exit, Process};

/// Why a container is not ready that no probe was at.
pub const NOT_PROBED: &str = "not probed yet";

/// A container that was started.
#[derive(Debug)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its part.
    pub role: Role,
    /// Its process.
    pub process: Process,
    /// When that was started.
    pub since: Timestamp,
    /// How many processes it had before.
    pub restarts: u32,
    /// How the process before this one ended.
    pub last: Option<Ended>,
    /// Whether its next process has to wait.
    pub backs_off: bool,
    /// Whether the end of its process was reported.
    pub end_told: bool,
    /// What its readiness probe saw last; nothing for one without a probe.
    pub seen: Option<Seen>,
}

/// How a process of a container ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How.
    pub exit: Exit,
    /// When it was started.
    pub since: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// What it printed last.
    pub message: String,
}

impl Container {
    /// How its process ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        let (exit, at) = self.process.exit_at()?;
        let message = self.process.output().lines().pop().unwrap_or_default();
        Some(Ended { exit, since: self.since, at, message })
    }

    /// Whether it has done all that it has to.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.role == Role::Init && self.process.exit().is_some_and(|exit| exit.code() == 0)
    }

    /// Whether its process runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.process.exit().is_none()
    }

    /// Whether a policy has it started again.
    #[must_use]
    pub fn is_wanted(&self, policy: Restart) -> bool {
        let Some(exit) = self.process.exit() else { return false };
        match (self.role, policy) {
            // A native sidecar has a policy of its own.
            (Role::Sidecar, _) | (Role::Main, Restart::Always) => true,
            (Role::Init, Restart::Always | Restart::OnFailure) | (Role::Main, Restart::OnFailure) => {
                exit.code() != 0
            }
            (Role::Init | Role::Main, Restart::Never) => false,
        }
    }
}

/// What all containers of a pod share.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// Their node, which starts them.
    pub node: &'a NetnsNode,
    /// What they find.
    pub shared: Shared,
    /// How long one may take to come up, or to end.
    pub deadline: Duration,
    /// Whether the pod is to end.
    pub ending: watch::Receiver<bool>,
}

/// Starts the containers of a pod in order, those left out that run, or that have done their part; shows them each time that one
/// was started. `Some` says which of them did not come up.
///
/// # Errors
/// The harness failed.
pub async fn start(
    plan: &Plan,
    surroundings: &Surroundings<'_>,
    started: &mut Vec<Container>,
    show: impl Fn(&[Container]),
) -> Result<Option<PodStart>, Error> {
    for planned in &plan.containers {
        let at = started.iter().position(|container| container.name == planned.name);
        if at.and_then(|at| started.get(at)).is_some_and(|there| !there.is_wanted(plan.restart)) {
            continue;
        }
        let former = at.map(|at| started.remove(at));
        let output = former.as_ref().map(|former| former.process.output().clone()).unwrap_or_default();
        let Surroundings { node, shared, .. } = surroundings;
        let process = match node.launch(plan, planned, shared, output).await {
            Ok(process) => process,
            Err(error @ (Error::Process { .. } | Error::Missing(_) | Error::NotShared { .. })) => {
                started.extend(former);
                return Ok(Some(failed(planned, None, error.to_string())));
            }
            Err(error) => return Err(error),
        };
        started.push(Container {
            name: planned.name.clone(),
            role: planned.role,
            process,
            since: Timestamp::now(),
            restarts: former.as_ref().map_or(0, |former| former.restarts + 1),
            last: former.and_then(|former| former.ended()),
            backs_off: false,
            end_told: false,
            seen: planned.probe.as_ref().map(|_| Seen::NotReady(NOT_PROBED.to_owned())),
        });
        show(started);
        let Some(container) = started.last() else { continue };
        if let Some(failure) = up(planned, &container.process, surroundings).await? {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

async fn up(
    planned: &Planned,
    process: &Process,
    surroundings: &Surroundings<'_>,
) -> Result<Option<PodStart>, Error> {
    let deadline = surroundings.deadline;
    let mut ending = surroundings.ending.clone();
    let up = async {
        match planned.role {
            Role::Init => process.ended(deadline).await.map(Some),
            // Its probe says when it is up.
            Role::Sidecar | Role::Main if planned.probe.is_some() => Ok(None),
            Role::Sidecar | Role::Main => process.ready(deadline).await,
        }
    };
    let ended = tokio::select! {
        ended = up => ended,
        _ = ending.wait_for(|ending| *ending) => {
            return Ok(Some(failed(planned, None, "the pod is to end".to_owned())));
        }
    };
    let ended = match ended {
        Ok(ended) => ended,
        Err(error @ Error::Deadline { .. }) => return Ok(Some(failed(planned, None, error.to_string()))),
        Err(error) => return Err(error),
    };
    let bad = match (planned.role, ended) {
        (Role::Init, Some(exit)) => (exit.code() != 0).then_some(exit),
        (_, exit) => exit,
    };
    Ok(bad.map(|exit| {
        let lines = process.output().lines();
        failed(planned, Some(exit.code()), lines.last().cloned().unwrap_or_default())
    }))
}

fn failed(planned: &Planned, exit: Option<i32>, message: String) -> PodStart {
    PodStart::ContainerFailed { container: planned.name.clone(), exit, message }
}

/// How the processes of a pod are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// They are asked, and killed if they have not ended after this long.
    Graceful(Duration),
    /// At once.
    Kill,
}

/// Ends all of them, and waits until they are gone: they are asked together, and killed the last one first.
pub async fn stop(containers: &mut Vec<Container>, ending: Ending) {
    if let Ending::Graceful(grace) = ending {
        let all = containers.iter().map(|container| container.process.terminate(grace));
        futures::future::join_all(all).await;
    }
    for container in containers.iter().rev() {
        container.process.kill().await;
    }
    containers.clear();
}
