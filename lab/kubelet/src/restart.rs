// SPDX-License-Identifier: Apache-2.0
//! The node's runtime and its kubelet start anew while pods run.

use crate::error::Error;
use crate::node::NetnsNode;

impl NetnsNode {
    /// Restarts the runtime: it reads its configuration and calls what its profile calls then. Pods' processes are not its children.
    ///
    /// # Errors
    /// The harness failed.
    pub async fn restart_runtime(&self) -> Result<(), Error> {
        self.chain.restart()?;
        self.chain.start_beside(&self.attachments().await).await
    }

    /// Restarts the kubelet: it knows nothing of the network until it has asked, and reports every pod again.
    ///
    /// # Errors
    /// Never yet.
    pub async fn restart_kubelet(&self) -> Result<(), Error> {
        self.forget_network();
        self.look_at_network().await;
        for slot in self.slots().iter().filter(|slot| !slot.is_ending()) {
            let mut parts = slot.parts.lock().await;
            self.report(slot, &mut parts).await;
        }
        Ok(())
    }
}
