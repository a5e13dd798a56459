// SPDX-License-Identifier: Apache-2.0
//! Events on pods, before they have words.

use std::time::Duration;

use redirect::sandbox::Sandboxed;

use crate::settings::RepairPolicy;

/// Events on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Broken, and no policy is on.
    Broken,
    /// Repaired, with the evidence.
    Repaired(String),
    /// Rules were written and read back, and no packet could prove all of them: what is known.
    Unproven(String),
    /// The rules were correct before the agent came to it, with the evidence.
    RightBefore(String),
    /// A run of its validation that began with right rules failed: the proofs.
    FailsOtherwise(String),
    Failed(RepairPolicy, String),
    Deleted,
    /// It is not deleted yet, since that many pods of its owner were before it, one after the other: when it is.
    Spared(u32, Duration),
    Labelled,
    Unrepairable(String, Option<RepairPolicy>),
    /// Its validation fails, and the plugin leaves it alone: why.
    Excluded(String),
    /// It is not redirected, though its validation did not say so: the differences.
    Unredirected(String),
    /// Rules of others take its packets before ours: the rules.
    Overtaken(String),
    /// It is redirected by rules that differ from the desired ones: the differences.
    Differs(String),
    /// It was evicted.
    Evicted,
    /// The API server does not allow its eviction now, and why.
    EvictionHeld(String),
    /// Redirected again.
    Restored,
    /// It runs in a guest, whose packets meet no rules.
    Sandboxed(Sandboxed),
    /// Containers of the application run with the proxy's user or group: a sentence each.
    SharedAccount(String),
    /// Its rules cannot be read repeatedly, and why.
    Unseen(String),
}
