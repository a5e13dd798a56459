// SPDX-License-Identifier: Apache-2.0
//! The processes of a pod: started in order, each awaited as its part in the pod asks for.

use std::path::PathBuf;
use std::time::Duration;

use cluster::PodStart;

use crate::error::Error;
use crate::pod::{Plan, Planned, Role};
use crate::process::{Process, Program};

/// A container that was started, or could not be.
#[derive(Debug)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Its part.
    pub role: Role,
    /// Its process.
    pub process: Process,
}

/// What all containers of a pod share.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Their network namespace.
    pub netns: PathBuf,
    /// Their `/etc/resolv.conf`.
    pub resolv_conf: PathBuf,
    /// How long one may take to come up, or to end.
    pub deadline: Duration,
}

/// Starts all containers of a pod in order, leaves them in `started` and shows them each time that there is one more. `Some` says
/// which of them did not come up.
///
/// # Errors
/// The harness failed.
pub async fn start(
    plan: &Plan,
    surroundings: &Surroundings,
    started: &mut Vec<Container>,
    show: impl Fn(&[Container]),
) -> Result<Option<PodStart>, Error> {
    for planned in &plan.containers {
        let resolv_conf = Some(surroundings.resolv_conf.clone());
        let program = Program { resolv_conf, ..planned.program.clone() };
        let process = match Process::start(&program, &surroundings.netns).await {
            Ok(process) => process,
            Err(Error::Process { why, .. }) => return Ok(Some(failed(planned, None, why))),
            Err(error) => return Err(error),
        };
        let (name, role) = (planned.name.clone(), planned.role);
        started.push(Container { name, role, process });
        show(started);
        let Some(container) = started.last() else { continue };
        if let Some(failure) = up(planned, &container.process, surroundings.deadline).await? {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

async fn up(planned: &Planned, process: &Process, deadline: Duration) -> Result<Option<PodStart>, Error> {
    let ended = match planned.role {
        Role::Init => process.ended(deadline).await.map(Some),
        Role::Sidecar | Role::Main => process.ready(deadline).await,
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

/// Kills all of them, the last one first, and waits until they are gone.
pub async fn stop(containers: &mut Vec<Container>) {
    for container in containers.iter().rev() {
        container.process.kill().await;
    }
    containers.clear();
}
