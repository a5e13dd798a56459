// SPDX-License-Identifier: Apache-2.0
//! One pod on a node, from the moment it is seen until it is gone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use apiserver::Timestamp;
use cluster::{LabError, PodStart};
use tokio::sync::{Mutex as AsyncMutex, watch};

use crate::account::Kept;
use crate::cni::chain::Attachment;
use crate::containers::Container;
use crate::error::Error;
use crate::output::Output;
use crate::pod::Plan;
use crate::process::ExitWatch;
use crate::sandbox::Sandbox;

/// Progress of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// Its start has not ended.
    Starting,
    /// Its start ended so.
    Started(PodStart),
    /// Its sandbox is deleted.
    Gone,
}

/// Parts of a live pod.
#[derive(Debug, Default)]
pub struct Parts {
    /// Number of its sandboxes so far.
    pub attempts: u32,
    pub sandbox: Option<Sandbox>,
    /// Attachment of a sandbox that a reboot took.
    pub lost: Option<Attachment>,
    pub containers: Vec<Container>,
    /// Credentials of its containers.
    pub credentials: Option<Kept>,
    /// Result of its last start.
    pub start: Option<PodStart>,
    /// It is not started for want of a network.
    pub lacks_network: bool,
    /// A container whose image cannot be pulled, and why.
    pub unpulled: Option<Unpulled>,
    /// Conditions, with their last transition.
    pub conditions: BTreeMap<&'static str, (bool, Timestamp)>,
}

/// A container whose image cannot be pulled.
#[derive(Debug, Clone)]
pub struct Unpulled {
    pub container: String,
    pub why: String,
    /// The next pull is in backoff.
    pub backs_off: bool,
}

#[derive(Debug)]
pub struct Slot {
    /// Its plan.
    pub plan: Plan,
    /// Its parts; locked for as long as a start or an end takes.
    pub parts: AsyncMutex<Parts>,
    stage: watch::Sender<Stage>,
    ending: watch::Sender<bool>,
    held: watch::Sender<bool>,
    shown: watch::Sender<Shown>,
}

/// State that is readable during a start or an end.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    pub netns: PathBuf,
    pub addresses: Vec<IpAddr>,
    /// Addresses on other interfaces, with the interfaces' names.
    pub further: Vec<(String, IpAddr)>,
    /// Output of each container.
    pub outputs: Vec<(String, Output)>,
    /// Pids of running containers.
    pub pids: Vec<(String, u32)>,
    /// Ends of containers' processes.
    pub exits: Vec<(String, ExitWatch)>,
}

impl Slot {
    /// A pod that was just assigned.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let (stage, _) = watch::channel(Stage::Starting);
        let (ending, held, shown) = Default::default();
        Self { plan, parts: AsyncMutex::default(), stage, ending, held, shown }
    }

    /// Nothing of the pod is started again until it is released. A start that goes on is waited for.
    pub async fn hold(&self) {
        let _no_start_goes_on = self.parts.lock().await;
        self.held.send_replace(true);
    }

    /// Ends [`Self::hold`].
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// True if restarts are held. Called with the parts locked.
    pub(crate) fn is_held(&self) -> bool {
        *self.held.borrow()
    }

    /// Waits until it is released or terminating.
    pub(crate) async fn released(&self) {
        let (mut held, mut ending) = (self.held.subscribe(), self.ending());
        tokio::select! {
            _ = held.wait_for(|held| !held) => {}
            _ = ending.wait_for(|ending| *ending) => {}
        }
    }

    /// Marks the pod as terminating, and wakes its waiters.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// True if the pod is terminating.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Notifies of the pod's termination.
    #[must_use]
    pub fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// Sets the progress.
    pub fn reach(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// True if the sandbox is deleted.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        *self.stage.borrow() == Stage::Gone
    }

    /// Publishes the readable state.
    pub fn show(&self, parts: &Parts) {
        if let Some(sandbox) = &parts.sandbox {
            self.shown.send_modify(|shown| {
                shown.netns = sandbox.netns().to_owned();
                shown.addresses = sandbox.addresses().to_vec();
                shown.further = sandbox.further().to_vec();
            });
        }
        self.show_containers(&parts.containers);
    }

    /// Shows which containers there are. An ended pod's output is kept: it is evidence.
    pub fn show_containers(&self, containers: &[Container]) {
        if containers.is_empty() {
            return;
        }
        self.shown.send_modify(|shown| {
            let outputs = containers.iter().map(|c| (c.name.clone(), c.process.output().clone()));
            shown.outputs = outputs.collect();
            let pids = containers.iter().filter_map(|c| Some((c.name.clone(), c.process.pid()?)));
            shown.pids = pids.collect();
            shown.exits = containers.iter().map(|c| (c.name.clone(), c.process.exits())).collect();
        });
    }

    /// Waits until what is shown is as wanted.
    ///
    /// # Errors
    /// It is not before the deadline.
    pub async fn until_shown(
        &self,
        what: &str,
        deadline: Duration,
        wanted: impl FnMut(&Shown) -> bool,
    ) -> Result<Shown, Error> {
        let mut shown = self.shown.subscribe();
        let reached = tokio::time::timeout(deadline, shown.wait_for(wanted)).await;
        match reached {
            Ok(Ok(shown)) => Ok(shown.clone()),
            // The sender lives in `self`.
            Ok(Err(_)) | Err(_) => Err(Error::Deadline { what: what.to_owned(), deadline }),
        }
    }

    /// Readable state.
    #[must_use]
    pub fn shown(&self) -> Shown {
        self.shown.borrow().clone()
    }

    /// Waits until the pod's start has ended.
    ///
    /// # Errors
    /// It has not before the deadline, or the pod is gone.
    pub async fn started(&self, deadline: Duration) -> Result<PodStart, Error> {
        let what = || format!("the start of pod {}/{}", self.plan.pod.namespace, self.plan.pod.name);
        match self.wait(deadline, what, |stage| *stage != Stage::Starting).await? {
            Stage::Started(start) => Ok(start),
            Stage::Starting | Stage::Gone => {
                Err(Error::Missing(format!("pod {} any more", self.plan.pod.name)))
            }
        }
    }

    /// Resets parts that a reboot took: the pod has to start.
    pub fn begin_anew(&self) {
        self.stage.send_replace(Stage::Starting);
        self.shown.send_modify(|shown| {
            shown.netns = PathBuf::new();
            shown.addresses.clear();
            shown.further.clear();
            shown.pids.clear();
        });
    }

    /// Waits until the pod runs, however many starts that takes.
    ///
    /// # Errors
    /// It does not before the deadline; a failure of the lab to start it is the lab's.
    pub async fn running(&self, deadline: Duration) -> Result<(), Error> {
        let what = || format!("that pod {}/{} runs", self.plan.pod.namespace, self.plan.pod.name);
        let runs = |stage: &Stage| matches!(stage, Stage::Started(PodStart::Running { .. }));
        let reached = self.wait(deadline, what, runs).await.map(drop);
        match &*self.stage.borrow() {
            Stage::Started(PodStart::LabFailed { why }) => Err(LabError::harness(what(), why).into()),
            _ => reached,
        }
    }

    /// Waits until the pod is gone.
    ///
    /// # Errors
    /// It is not before the deadline.
    pub async fn gone(&self, deadline: Duration) -> Result<(), Error> {
        let what = || format!("the end of pod {}/{}", self.plan.pod.namespace, self.plan.pod.name);
        self.wait(deadline, what, |stage| *stage == Stage::Gone).await.map(drop)
    }

    async fn wait(
        &self,
        deadline: Duration,
        what: impl FnOnce() -> String,
        until: impl FnMut(&Stage) -> bool,
    ) -> Result<Stage, Error> {
        let mut stage = self.stage.subscribe();
        let reached = tokio::time::timeout(deadline, stage.wait_for(until)).await;
        match reached {
            Ok(Ok(stage)) => Ok(stage.clone()),
            // The sender lives in `self`.
            Ok(Err(_)) | Err(_) => Err(Error::Deadline { what: what(), deadline }),
        }
    }
}
