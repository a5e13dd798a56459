// SPDX-License-Identifier: Apache-2.0
//! Termination of pods: one after the other, in order, until DEL succeeds for each; or all at once, with the machine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cluster::{Actor, AgentStandIn, Configuration, Leftovers, PodStart};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use serde_json::json;

use crate::cni::chain::ChainError;
use crate::containers::{self, Ending};
use crate::controllers::actions::write_status;
use crate::error::Error;
use crate::life;
use crate::node::NetnsNode;
use crate::pace;
use crate::pod::Plan;
use crate::sandbox::Sandbox;
use crate::slot::{Parts, Slot, Stage};
use crate::volumes;

/// Reason and message of a pod that a graceful shutdown ended, and of one that came too late (`pkg/kubelet/nodeshutdown/nodeshutdown_manager.go`).
const TERMINATED: (&str, &str) = ("Terminated", "Pod was terminated in response to imminent node shutdown.");
const REJECTED: (&str, &str) = ("NodeShutdown", "Pod was rejected as the node is shutting down.");

impl NetnsNode {
    /// Ends a pod: containers, chain, namespace; then its object goes. A chain that fails is asked again, and the pod stays as long, if
    /// the kubelet is one that tries again and nobody is in a hurry.
    pub async fn stop(&self, slot: &Arc<Slot>, ending: Ending) {
        slot.end();
        if ending != Ending::Kill {
            pace::late(&self.options.chaos, Actor::Kubelet).await;
        }
        let mut tries = 0;
        while let Some(failure) = self.try_stop(slot, ending).await {
            let uid = &slot.plan.uid;
            let message = format!(
                "error killing pod: failed to \"KillPodSandbox\" for {uid:?} with KillPodSandboxError: {failure:?}"
            );
            self.tell(&slot.plan, "FailedKillPod", &message).await;
            tries += 1;
            life::backed_off(life::nth(self.options.back_off.unwrap_or_default(), tries)).await;
        }
    }

    /// `Some` is the reason to retry.
    async fn try_stop(&self, slot: &Arc<Slot>, ending: Ending) -> Option<String> {
        let mut parts = slot.parts.lock().await;
        if slot.is_gone() {
            return None;
        }
        containers::end(parts.containers.iter(), ending).await;
        if ending != Ending::Kill && !parts.containers.is_empty() {
            // The last phase, which a Job counts: a pod that is deleted ends as one that ran to its end.
            self.report_last(slot, &mut parts).await;
        }
        parts.containers.clear();
        let removed = match &parts.sandbox {
            Some(sandbox) => sandbox.remove(&self.chain).await,
            None => Ok(()),
        };
        if let Err(error) = removed {
            let failure =
                format!("failed to destroy network for sandbox of pod {}: {error}", slot.plan.pod.name);
            if ending != Ending::Kill && self.options.back_off.is_some() {
                return Some(failure);
            }
            self.leave(failure, &error);
        }
        (parts.sandbox, parts.credentials) = (None, None);
        let _ = self.agent.forget(&slot.plan.pod);
        if !self.chain.ends_with_node() {
            self.delete_object(&slot.plan).await;
        }
        self.dismiss(slot);
        slot.reach(Stage::Gone);
        None
    }

    async fn delete_object(&self, plan: &Plan) {
        let pods: Api<Pod> = Api::namespaced(self.access.client.clone(), &plan.pod.namespace);
        let own = Preconditions { uid: Some(plan.uid.clone()), resource_version: None };
        let now = DeleteParams { preconditions: Some(own), ..DeleteParams::default().grace_period(0) };
        // Gone already if its deletion had no grace.
        let _ = pods.delete(&plan.pod.name, &now).await;
    }

    /// Remembers a sandbox that was not taken down.
    pub(crate) fn leave(&self, failure: String, error: &ChainError) {
        let mut left = self.leftovers.lock();
        match error {
            ChainError::Chain(_) => left.networks.push(failure),
            ChainError::Lab(_) => left.faults.push(failure),
        }
    }

    /// Leftovers of pods that were ended nevertheless, and failures of the plugin under test that the runtime only logged.
    #[must_use]
    pub fn leftovers(&self) -> Leftovers {
        let mut left = self.leftovers.lock().clone();
        left.networks.extend(self.chain.logged.failures());
        left
    }

    /// Ends a pod, whose object stays as that of a pod that failed, with this reason and message.
    ///
    /// # Errors
    /// The API server refuses its status.
    pub(crate) async fn fail(
        &self,
        slot: &Arc<Slot>,
        ending: Ending,
        (reason, message): (&str, &str),
    ) -> Result<(), Error> {
        slot.end();
        let mut parts = slot.parts.lock().await;
        containers::end(parts.containers.iter(), ending).await;
        let mut last = self.last_status(slot, &mut parts);
        parts.containers.clear();
        if let Some(sandbox) = parts.sandbox.take()
            && let Err(error) = sandbox.remove(&self.chain).await
        {
            self.leave(
                format!("failed to remove the sandbox of pod {}: {error}", slot.plan.pod.name),
                &error,
            );
        }
        parts.credentials = None;
        (last["status"]["phase"], last["status"]["reason"]) = (json!("Failed"), json!(reason));
        last["status"]["message"] = json!(message);
        self.tell_status(&slot.plan.pod, last).await
    }

    /// Ends all pods as a kubelet does before its machine is turned off (`pkg/kubelet/nodeshutdown`): those that are not critical, then the others, each
    /// within its own grace period. They have failed for good; their controllers make others, which the kubelet rejects until the node has rebooted. Here it
    /// does so when it has.
    ///
    /// # Errors
    /// The API server refuses a pod's status.
    pub async fn shut_down(&self) -> Result<(), Error> {
        self.is_down.send_replace(true);
        let (critical, others): (Vec<_>, Vec<_>) =
            self.slots().into_iter().partition(|slot| slot.plan.is_critical);
        for pods in [others, critical] {
            let all = pods.iter().map(|slot| self.fail(slot, Ending::Graceful(slot.plan.grace), TERMINATED));
            join_all(all).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Rejects a pod that came while the node was shutting down, once it is up again. True if it did.
    pub(crate) async fn rejects(&self, slot: &Arc<Slot>) -> bool {
        let mut is_down = self.is_down.subscribe();
        if !*is_down.borrow_and_update() {
            return false;
        }
        // The sender lives in `self`.
        let _ = is_down.wait_for(|is_down| !is_down).await;
        // Whoever deleted it meanwhile wants no status of it.
        let _ = self.fail(slot, Ending::Kill, REJECTED).await;
        true
    }

    /// Ends everything that runs at once, and forgets what was in memory: namespaces, what is below `/run`, and the configuration if it
    /// is lost. Plugins and the runtime's cache stay. Then the runtime starts, the kubelet tells of another boot, and starts its pods
    /// again.
    ///
    /// # Errors
    /// The harness failed.
    pub async fn reboot(&self, configuration: Configuration) -> Result<(), Error> {
        let slots = self.slots();
        // Nothing is started until all is gone.
        let mut all = join_all(slots.iter().map(|slot| slot.parts.lock())).await;
        for (slot, parts) in slots.iter().zip(&mut all) {
            containers::stop(&mut parts.containers, Ending::Kill).await;
            parts.lost = parts.sandbox.take().and_then(Sandbox::lose).or(parts.lost.take());
            (parts.credentials, parts.start) = (None, None);
            slot.begin_anew();
        }
        self.agent.become_(AgentStandIn::Absent, self.options.deadlines.process).await?;
        self.chain.multus.stop().await;
        self.let_hand_go().await;
        self.host.forget()?;
        if configuration == Configuration::IsLost {
            volumes::empty(&self.paths.conf_dir, &[])?;
        }
        self.view.replace(self.look().await?);
        self.chain.restart()?;
        self.chain.start_beside(&[]).await?;
        self.forget_network();
        self.learn_network().await;
        self.boots.fetch_add(1, Ordering::Relaxed);
        self.is_down.send_replace(false);
        let status = json!({ "status": self.machine_status() });
        write_status(&self.access.client, ("Node", "", &self.name), status).await
    }

    /// Takes from the network what a reboot left of a pod, as a runtime does before it makes another sandbox.
    pub(crate) async fn clear(&self, plan: &Plan, parts: &mut Parts) -> Result<Option<PodStart>, Error> {
        let Some(lost) = &parts.lost else { return Ok(None) };
        match self.chain.del(lost).await {
            Ok(()) => parts.lost = None,
            Err(ChainError::Lab(error)) => return Err(error),
            Err(ChainError::Chain(failure)) => {
                let (code, name) = (failure.code, &plan.pod.name);
                let message = format!("failed to destroy network for sandbox of pod {name}: {failure}");
                return Ok(Some(PodStart::SandboxFailed { code, message }));
            }
        }
        Ok(None)
    }
}
