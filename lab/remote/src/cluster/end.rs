// SPDX-License-Identifier: Apache-2.0
//! The end of a scenario and of a run, and what the next one does about a former end that left something. Every step is tried whatever became of the others.

use std::sync::Arc;

use cluster::{Cluster as _, Disk, LabError, Leftovers, Machines as _, Memory, SYSTEM_NAMESPACE};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::Value;

use super::RemoteCluster;
use crate::baseline::Condition;
use crate::error::Error;
use crate::objects::{self, unless_gone};
use crate::restore::{give_back, restore};
use crate::session::{LABEL, Session, gone, of_run, own_namespace, remove, remove_labelled};

/// Bytes that a disk takes while what a scenario made goes.
const ROOM: u32 = 1 << 20;

impl Session {
    /// Makes the nodes what they were if the run has the cluster to itself: a scenario that was interrupted has had no end. Then removes every namespace of the run,
    /// its pods in others, what it made beside namespaces, and its cordons, and waits until the namespaces are gone.
    ///
    /// # Errors
    /// Something is left; the error names all of it.
    pub async fn end(&self) -> Result<(), LabError> {
        let tidied = RemoteCluster::of(self, self.nodes()).tidy().await;
        let removed = remove(&self.client, &of_run(&self.options.run), self.options.deadline).await;
        // A node's files have no namespace to go with.
        tidied.and(removed.map(drop).map_err(LabError::from))
    }
}

impl RemoteCluster {
    /// Removes what the scenario made, and these objects, which it applied itself. A guest's namespaces are asked to go, and waited for at the end
    /// of the run; others have names that the next scenario wants. Returns what is left.
    pub async fn end(&self, applied: &[Value]) -> Leftovers {
        let mut left = Leftovers::default();
        self.make_room(&mut left).await;
        let used = std::mem::take(&mut *self.used.lock().await);
        let (system, of_pods): (Vec<_>, Vec<_>) =
            used.made.iter().partition(|name| self.is_whole() && *name == SYSTEM_NAMESPACE);
        self.begin_to_go(&of_pods, &mut left).await;
        if !self.is_whole() {
            return left;
        }
        let (client, run, deadline) =
            (self.client(), &self.session().options.run, self.session().options.deadline);
        left.extend(objects::remove_nodes(&client, applied).await);
        for name in &used.found {
            left.extend(objects::remove_pods(&client, name, &format!("{LABEL}={run}"), deadline).await);
        }
        // The plugin takes part in the end of pods, and a namespace controller looks at what is in a namespace only five seconds after it was deleted.
        for name in &of_pods {
            left.extend(objects::remove_pods(&client, name, "", deadline).await);
        }
        // Before the namespace, whose end takes roles away from pods that are still there.
        left.extend(objects::remove(&client, applied, deadline).await);
        self.begin_to_go(&system, &mut left).await;
        // One does not go before its pods.
        if left.networks.is_empty() {
            self.all_gone(&[of_pods, system].concat(), &mut left).await;
        }
        self.put_back(&mut left).await;
        if left.is_empty() {
            self.session().baseline().condition = Condition::Same;
        }
        left
    }

    /// Undoes what the former scenarios left.
    ///
    /// # Errors
    /// Something is left.
    pub(super) async fn tidy(&self) -> Result<(), LabError> {
        let session = self.session();
        let Some(deadline) = session.baseline().condition.deadline(session.options.deadline) else {
            return Ok(());
        };
        let (mut left, run) = (Leftovers::default(), &session.options.run);
        self.make_room(&mut left).await;
        let (label, own) = (of_run(run), own_namespace(run));
        remove_labelled(&self.client(), &label, Some(&own), deadline, &mut left).await;
        self.put_back(&mut left).await;
        if left.is_empty() {
            return Ok(());
        }
        session.baseline().condition = Condition::Wrecked;
        let why = [left.networks, left.faults].concat().join("; ");
        Err(LabError::harness("make the cluster what it was before an earlier scenario", why))
    }

    /// Undoes what stands in the way of an end: a full disk, too little memory, a closed directory, a node without a network or with a runtime that does
    /// not see it.
    async fn make_room(&self, left: &mut Leftovers) {
        let changes = self.session().baseline().changes.clone();
        if let Some((node, directory)) = changes.disk {
            left.note(self.turn_disk(&node, &directory, Disk::Room(ROOM)).await);
        }
        if let Some(node) = changes.short {
            left.note(self.set_memory(&node, Memory::Enough).await);
        }
        let baseline = Arc::clone(&self.session().baseline().nodes);
        let given_back = self.nodes.iter().zip(baseline.iter()).map(async |(node, before)| {
            let mut left = give_back(node, before, &changes.closed).await;
            if !left.is_empty() {
                left = Leftovers::default();
                if left.note(self.session().lay_hand_again(&node.name).await) {
                    left = give_back(node, before, &changes.closed).await;
                }
            }
            left
        });
        let given_back = join_all(given_back).await;
        if given_back.iter().all(Leftovers::is_empty) {
            self.session().baseline().changes.closed.clear();
        }
        for its in given_back {
            left.extend(its);
        }
        if let Some(node) = changes.blind {
            left.note(self.restart_runtime(&node).await);
        }
    }

    /// Makes the nodes what they were. Not before the pods are gone: DEL of these calls plugins that are on a disk, or come with the node agent.
    async fn put_back(&self, left: &mut Leftovers) {
        let changes = self.session().baseline().changes.clone();
        if let Some((node, directory)) = changes.disk {
            left.note(self.lift_disk(&node, &directory).await);
        }
        let baseline = Arc::clone(&self.session().baseline().nodes);
        let nodes = self.nodes.iter().zip(baseline.iter());
        let restored = join_all(nodes.map(|(node, before)| restore(node, before, &changes.made))).await;
        if restored.iter().all(Leftovers::is_empty) {
            self.session().baseline().changes.made.clear();
        }
        for its in restored {
            left.extend(its);
        }
        if changes.trusts_others && left.note(self.trust_its_own().await) {
            self.session().baseline().changes.trusts_others = false;
        }
    }

    async fn trust_its_own(&self) -> Result<(), LabError> {
        self.owned_machines()?.trust(&self.issuer()?.ca()).await
    }

    /// Deletes namespaces: from then on nobody makes a pod there.
    async fn begin_to_go(&self, names: &[&String], left: &mut Leftovers) {
        let namespaces: Api<Namespace> = Api::all(self.client());
        for name in names {
            let deleted = unless_gone(namespaces.delete(name, &DeleteParams::default()).await);
            left.note(deleted.map_err(Error::api(format!("delete namespace {name}"))));
        }
    }

    async fn all_gone(&self, names: &[&String], left: &mut Leftovers) {
        let (client, deadline) = (self.client(), self.session().options.deadline);
        for ended in join_all(names.iter().map(|name| gone(&client, name, deadline))).await {
            left.note(ended);
        }
    }
}
