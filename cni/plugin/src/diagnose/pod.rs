// SPDX-License-Identifier: Apache-2.0
//! The pod in a file as `kubectl get pod -o json` writes it.

use protocol::pod::{NotOnePod, PodFacts, only};

/// Text that is not one pod.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotAPod {
    /// Malformed, or fields of the wrong type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// No pod, or several.
    #[error(transparent)]
    Choice(#[from] NotOnePod),
    /// Every field of [`PodFacts`] may be missing; taken for a pod without a proxy, a part of one would be left alone.
    #[error("it has no container")]
    NoContainer,
}

/// Reads the one pod in `text`, alone or in a list.
pub(super) fn read(text: &[u8]) -> Result<PodFacts, NotAPod> {
    let pod: PodFacts = serde_json::from_value(only([serde_json::from_slice(text)?])?)?;
    if pod.spec.containers.is_empty() { Err(NotAPod::NoContainer) } else { Ok(pod) }
}
