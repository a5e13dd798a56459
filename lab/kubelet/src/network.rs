// SPDX-License-Identifier: Apache-2.0
//! The kubelet's knowledge of its runtime's network (`NetworkReady`), and the node's condition `Ready` that follows. Pure. As `ReadyCondition`
//! of the real one.

use std::time::Duration;

use apiserver::Timestamp;
use serde_json::{Value, json};

use crate::options::scaled;

/// Wait of a pod that is not started for want of a network (`backOffOnTransientErrorPeriod`).
pub(crate) const TRANSIENT: Duration = scaled(1);
/// `ErrNetworkUnknown`: before the first look.
pub(crate) const UNKNOWN: &str = "network state unknown";

/// State of a node's network.
#[derive(Debug, Clone)]
pub struct Network {
    /// The reason why it is not ready.
    trouble: Option<String>,
    /// Time of its last change between ready and not.
    since: Timestamp,
}

impl Default for Network {
    fn default() -> Self {
        Self { trouble: Some(UNKNOWN.to_owned()), since: Timestamp::now() }
    }
}

impl Network {
    /// Takes the runtime's word; true if that is news.
    pub(crate) fn learn(&mut self, trouble: Option<String>, now: Timestamp) -> bool {
        if self.trouble == trouble {
            return false;
        }
        if self.trouble.is_some() != trouble.is_some() {
            self.since = now;
        }
        self.trouble = trouble;
        true
    }

    /// The reason why it is not ready.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Condition `Ready` of the node.
    pub(crate) fn condition(&self) -> Value {
        let (status, reason, message) = match &self.trouble {
            None => ("True", "KubeletReady", "kubelet is posting ready status"),
            Some(why) => ("False", "KubeletNotReady", why.as_str()),
        };
        json!({
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": self.since.to_string(),
        })
    }
}

/// `RuntimeCondition.String` of the kubelet.
pub(crate) fn trouble(message: &str) -> String {
    format!(
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:{message}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_ready_in_the_kubelets_words_and_since_its_last_change() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut network = Network { trouble: None, since: at(1) };
        assert!(!network.learn(None, at(2)));
        let why = |text: &str| Some(trouble(&format!("Network plugin returns error: {text}")));
        assert!(network.learn(why("cni plugin not initialized"), at(3)));
        assert!(network.learn(why("another"), at(4)), "another reason is news");
        let condition = network.condition();
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("KubeletNotReady"))
        );
        assert_eq!(condition["lastTransitionTime"], at(3).to_string(), "but no transition");
        let told = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                    message:Network plugin returns error: another";
        assert_eq!(condition["message"], told);
        assert!(network.learn(None, at(5)));
        assert_eq!(network.condition()["lastTransitionTime"], at(5).to_string());
    }
}
