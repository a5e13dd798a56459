// SPDX-License-Identifier: Apache-2.0
//! Start of a pod: sandbox, chain, containers in order, each awaited as its part in the pod asks for.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Timestamp;
use cluster::{Installed, LabError, PodStart};
use tokio::sync::watch;

use crate::cni::chain::ChainError;
use crate::containers::{self, Container, Ending, NOT_PROBED};
use crate::error::Error;
use crate::furnish::Shared;
use crate::node::{ASIDE, NetnsNode};
use crate::options::scaled;
use crate::pod::{ContainerRole, Plan, Planned};
use crate::probe::Seen;
use crate::process::Process;
use crate::sandbox::{Sandbox, SandboxPaths};
use crate::slot::{Parts, Slot, Stage, Unpulled};

/// Directory of namespaces, as a node's runtime tells plugins.
const NETNS_DIRECTORY: &str = "/var/run/netns";

/// Period in which a kubelet looks at what containers do, and reports it (`genericPlegRelistPeriod`, 1 s).
const RELIST: Duration = scaled(1);

/// Bounds of a start.
#[derive(Debug)]
struct Bounds {
    /// Deadline of a start or an end.
    deadline: Duration,
    /// The pod is terminating.
    ending: watch::Receiver<bool>,
}

impl NetnsNode {
    /// Starts a pod, or what of it does not run: sandbox, chain, containers; reports its status.
    pub async fn start(&self, slot: &Arc<Slot>) -> PodStart {
        let mut parts = slot.parts.lock().await;
        self.go_on(slot, &mut parts).await
    }

    /// Restarts stopped containers of a pod, once it is released.
    pub async fn start_again(&self, slot: &Arc<Slot>) {
        loop {
            let mut parts = slot.parts.lock().await;
            if !slot.is_held() || slot.is_ending() {
                return drop(self.go_on(slot, &mut parts).await);
            }
            drop(parts);
            slot.released().await;
        }
    }

    /// Starts a pod whose containers begin anew, in its sandbox if that is there.
    pub async fn start_anew(&self, slot: &Arc<Slot>) -> PodStart {
        let mut parts = slot.parts.lock().await;
        containers::stop(&mut parts.containers, Ending::Kill).await;
        self.go_on(slot, &mut parts).await
    }

    async fn go_on(&self, slot: &Arc<Slot>, parts: &mut Parts) -> PodStart {
        if slot.is_ending() {
            return PodStart::SandboxFailed {
                code: None,
                message: "the pod was deleted before it started".to_owned(),
            };
        }
        if let Some(why) = self.lacks_network(&slot.plan).await {
            return self.hold_back(slot, parts, &why).await;
        }
        parts.lacks_network = false;
        let start = match self.try_start(slot, parts).await {
            Ok(start) => start,
            Err(error) => lab_failure(&error),
        };
        slot.show(parts);
        parts.unpulled = self.unpulled(&slot.plan, &start);
        if let Some(unpulled) = &parts.unpulled {
            self.tell(&slot.plan, "Failed", &unpulled.why).await;
        }
        parts.start = Some(start.clone());
        self.report(slot, parts).await;
        slot.reach(Stage::Started(start.clone()));
        start
    }

    /// The container, if what kept the pod from starting is an image.
    fn unpulled(&self, plan: &Plan, start: &PodStart) -> Option<Unpulled> {
        let PodStart::ContainerFailed { container, exit: None, .. } = start else { return None };
        let planned = plan.containers.iter().find(|planned| planned.name == *container)?;
        let why = self.options.images.refusal(&planned.image)?;
        Some(Unpulled { container: container.clone(), why, backs_off: false })
    }

    async fn try_start(&self, slot: &Slot, parts: &mut Parts) -> Result<PodStart, Error> {
        let plan = &slot.plan;
        if let Some(what) = &plan.unplayed {
            return Err(LabError::unsupported(crate::TIER, what).into());
        }
        self.agent.learn(&plan.facts)?;
        if let Some(failed) = self.clear(plan, parts).await? {
            return Ok(failed);
        }
        if parts.sandbox.is_none() {
            let attempt = parts.attempts;
            parts.attempts += 1;
            let netns_dir = &self.paths.netns_dir;
            let seen_as = match self.options.node.installed {
                Installed::ByLab => netns_dir,
                Installed::ByAgent => Path::new(NETNS_DIRECTORY),
            };
            let place = SandboxPaths {
                node: self.netns.path(),
                netns_dir,
                seen_as,
                aside: &self.directory.join(ASIDE),
                view: self.view.now(),
                deadline: self.options.deadlines.process,
                addresses: &self.addresses(),
                rp_filter: self.options.rp_filter(),
            };
            match Sandbox::create(plan, attempt, &place, &self.chain).await {
                Ok(sandbox) => parts.sandbox = Some(sandbox),
                Err(ChainError::Lab(error)) => return Err(error),
                Err(ChainError::Chain(failure)) => {
                    let (code, message) = (failure.code, failure.message);
                    let message =
                        format!("failed to setup network for sandbox of pod {}: {message}", plan.pod.name);
                    return Ok(PodStart::SandboxFailed { code, message });
                }
            }
            slot.show(parts);
            self.report(slot, parts).await;
        }
        let Some(sandbox) = &parts.sandbox else { return Err(Error::Missing("sandbox".to_owned())) };
        let addresses = sandbox.addresses().to_vec();
        let shared = self.furnish(plan, sandbox, &mut parts.credentials).await?;
        let deadline = self.options.deadlines.process;
        let bounds = Bounds { deadline, ending: slot.ending() };
        let failed = self.start_containers(slot, parts, &shared, &bounds).await?;
        Ok(failed.unwrap_or(PodStart::Running { addresses }))
    }

    /// Starts the containers in order, those left out that run, or that have done their part; shows each that was started, and reports one that is
    /// waited for. `Some` says which of them did not come up.
    async fn start_containers(
        &self,
        slot: &Slot,
        parts: &mut Parts,
        shared: &Shared,
        bounds: &Bounds,
    ) -> Result<Option<PodStart>, Error> {
        let plan = &slot.plan;
        for planned in &plan.containers {
            let started = &mut parts.containers;
            let at = started.iter().position(|container| container.name == planned.name);
            if at.and_then(|at| started.get(at)).is_some_and(|there| !there.is_wanted(plan.restart)) {
                continue;
            }
            let former = at.map(|at| started.remove(at));
            let output = former.as_ref().map(|former| former.process.output().clone()).unwrap_or_default();
            let process = match self.launch(plan, planned, shared, output).await {
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
            slot.show_containers(started);
            let Some(container) = started.last() else { continue };
            let at_once = tokio::time::timeout(RELIST, up(planned, &container.process, bounds)).await;
            let failure = match at_once {
                Ok(up) => up?,
                Err(_) => {
                    self.report(slot, parts).await;
                    let Some(container) = parts.containers.last() else { continue };
                    up(planned, &container.process, bounds).await?
                }
            };
            if failure.is_some() {
                return Ok(failure);
            }
        }
        Ok(None)
    }
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
        // It may have waited for the system under test.
        Err(error @ Error::Late { .. }) if planned.role == ContainerRole::Init => {
            return Ok(Some(failed(planned, None, error.to_string())));
        }
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

fn lab_failure(error: &Error) -> PodStart {
    PodStart::LabFailed { why: error.to_string() }
}
