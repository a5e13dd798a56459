// SPDX-License-Identifier: Apache-2.0
//! A node whose memory is short: its kubelet says so, and evicts pods.
//!
//! As the eviction manager of the real one with a threshold that is always met: whatever is not critical goes, without grace
//! (`evictPod` and `IsCriticalPod`), and stays in the API as a pod that failed. The real one evicts one pod at a look, every 10 s, in an order of
//! its own; here all go at once.

use std::sync::atomic::Ordering;

use cluster::Memory;
use serde_json::{Value, json};

use crate::containers::Ending;
use crate::controllers::actions::write_status;
use crate::error::Error;
use crate::node::NetnsNode;

const EVICTED: &str = "Evicted";
const WHY: &str = "The node was low on resource: memory. Threshold quantity: 1Pi, available: 4Gi. ";

impl NetnsNode {
    /// Sets what the node's kubelet takes its memory to be.
    ///
    /// # Errors
    /// The API server refuses the node's conditions, or a pod's status.
    pub async fn set_memory(&self, memory: Memory) -> Result<(), Error> {
        self.is_short_of_memory.store(memory == Memory::Short, Ordering::Relaxed);
        self.report_conditions().await?;
        if memory == Memory::Short {
            for slot in self.slots().iter().filter(|slot| !slot.plan.is_critical) {
                self.tell(&slot.plan, EVICTED, WHY).await;
                self.fail(slot, Ending::Kill, (EVICTED, WHY)).await?;
            }
        }
        Ok(())
    }

    /// Tells the API server of the node's conditions.
    pub(crate) async fn report_conditions(&self) -> Result<(), Error> {
        let patch = json!({ "status": { "conditions": self.conditions() } });
        write_status(&self.access.client, ("Node", "", &self.name), patch).await
    }

    /// Conditions of the node, as far as anybody looks at them.
    pub(crate) fn conditions(&self) -> Value {
        let (status, reason, message) = match self.is_short_of_memory.load(Ordering::Relaxed) {
            true => ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
            false => ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        };
        let memory =
            json!({ "type": "MemoryPressure", "status": status, "reason": reason, "message": message });
        json!([memory, self.network().condition()])
    }
}
