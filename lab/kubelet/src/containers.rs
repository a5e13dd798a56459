// SPDX-License-Identifier: Apache-2.0
//! The processes of a pod: started in order, each awaited as its part in the pod asks for, and started again.

use std::time::Duration;

use apiserver::Timestamp;
use cluster::PodStart;
use futures::future::BoxFuture;
use tokio::sync::watch;

use crate::error::Error;
use crate::output::Output;
use crate::pod::{ContainerRole, Plan, Planned, Restart};
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

/// Bounds of a start.
#[derive(Debug)]
pub struct Bounds {
    /// Deadline of a start or an end.
    pub deadline: Duration,
    /// The pod is terminating.
    pub ending: watch::Receiver<bool>,
}

/// Starts the containers of a pod in order, those left out that run, or that have done their part; shows them each time that one
/// was started. `launch` starts a process. `Some` says which of them did not come up.
///
/// # Errors
/// The harness failed.
pub async fn start<'a>(
    plan: &'a Plan,
    bounds: &Bounds,
    started: &mut Vec<Container>,
    launch: impl Fn(&'a Planned, Output) -> BoxFuture<'a, Result<Process, Error>>,
    show: impl Fn(&[Container]),
) -> Result<Option<PodStart>, Error> {
    for planned in &plan.containers {
        let at = started.iter().position(|container| container.name == planned.name);
        if at.and_then(|at| started.get(at)).is_some_and(|there| !there.is_wanted(plan.restart)) {
            continue;
        }
        let former = at.map(|at| started.remove(at));
        let output = former.as_ref().map(|former| former.process.output().clone()).unwrap_or_default();
        let process = match launch(planned, output).await {
            Ok(process) => process,
            Err(
                error @ (Error::Process { .. }
                | Error::Missing(_)
                | Error::NotShared { .. }
                | Error::NoImage(_)),
            ) => {
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
        if let Some(failure) = up(planned, &container.process, bounds).await? {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

async fn up(planned: &Planned, process: &Process, bounds: &Bounds) -> Result<Option<PodStart>, Error> {
    let deadline = bounds.deadline;
    let mut ending = bounds.ending.clone();
    let up = async {
        match planned.role {
            ContainerRole::Init => process.ended(deadline).await.map(Some),
            // Its probe says when it is up.
            ContainerRole::Sidecar | ContainerRole::Main if planned.probe.is_some() => Ok(None),
            ContainerRole::Sidecar | ContainerRole::Main => process.ready(deadline).await,
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
        (ContainerRole::Init, Some(exit)) => (exit.code() != 0).then_some(exit),
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
