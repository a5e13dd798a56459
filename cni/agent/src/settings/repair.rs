// SPDX-License-Identifier: Apache-2.0
//! Repair.

use manifests::table;

use super::build::Reader;
use super::{OwnPod, kind};
use crate::label::label;
use crate::selector::Selectors;

label! {
    /// Policy for a broken pod; the first that is on, in this order. Metrics have upstream's spelling.
    RepairPolicy {
        /// `REPAIR_REPAIR_PODS`
        Repair = "repair",
        /// `REPAIR_DELETE_PODS`
        Delete = "delete",
        /// `REPAIR_LABEL_PODS`
        Label = "label",
    }
}

/// Repair (upstream's keys are in the fields' names).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairSettings {
    /// `REPAIR_ENABLED`; off as well while a selector cannot be read.
    pub enabled: bool,
    /// The policy: of those that are on the first, in the order repair, delete, label.
    pub policy: Option<RepairPolicy>,
    /// Fallback for a pod that cannot be repaired: a policy, or `None` for the event alone (`MILLRACE_REPAIR_FALLBACK`).
    pub fallback: Option<RepairPolicy>,
    /// Apply the policy to unredirected pods without a failed validation container (`MILLRACE_REPAIR_UNREDIRECTED`).
    pub act_on_unredirected: bool,
    /// `REPAIR_NODE_NAME`, else [`OwnPod::node`]; empty if nobody says: no pod is looked at.
    pub node_name: String,
    /// `REPAIR_SIDECAR_ANNOTATION`
    pub sidecar_annotation: String,
    /// `REPAIR_INIT_CONTAINER_NAME`
    pub init_container: String,
    /// `REPAIR_INIT_CONTAINER_TERMINATION_MESSAGE`, trimmed.
    pub termination_message: String,
    /// `REPAIR_INIT_CONTAINER_EXIT_CODE`; 0 for any.
    pub exit_code: i32,
    /// `REPAIR_LABEL_SELECTORS` and `REPAIR_FIELD_SELECTORS`
    pub selectors: Selectors,
    /// `REPAIR_BROKEN_POD_LABEL_KEY` and `_VALUE`
    pub label: (String, String),
}

impl Reader<'_> {
    pub(super) fn repair(&mut self, own: &OwnPod) -> RepairSettings {
        let modes = [
            (&table::REPAIR_PODS, RepairPolicy::Repair),
            (&table::DELETE_PODS, RepairPolicy::Delete),
            (&table::LABEL_PODS, RepairPolicy::Label),
        ];
        let node_name = Some(self.text(&table::REPAIR_NODE)).filter(|name| !name.is_empty());
        let labels = self.read(&table::LABEL_SELECTORS, kind::label_selector, None);
        let fields = self.read(&table::FIELD_SELECTORS, kind::field_selector, None);
        let selectors = labels.zip(fields).map(|(labels, fields)| Selectors { labels, fields });
        RepairSettings {
            enabled: self.boolean(&table::REPAIR) && selectors.is_some(),
            // Each is read, so that each mistake is told.
            policy: modes
                .map(|(key, policy)| self.boolean(key).then_some(policy))
                .into_iter()
                .flatten()
                .next(),
            fallback: self.read(&table::REPAIR_FALLBACK, kind::fallback, None),
            act_on_unredirected: self.boolean(&table::REPAIR_UNREDIRECTED),
            node_name: node_name.unwrap_or_else(|| own.node.clone()),
            sidecar_annotation: self.text(&table::SIDECAR_ANNOTATION),
            init_container: self.text(&table::INIT_CONTAINER),
            termination_message: self.text(&table::TERMINATION_MESSAGE).trim().to_owned(),
            exit_code: self.read(&table::EXIT_CODE, kind::number, 126),
            selectors: selectors.unwrap_or_default(),
            label: (self.text(&table::LABEL_KEY), self.text(&table::LABEL_VALUE)),
        }
    }
}
