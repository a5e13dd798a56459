// SPDX-License-Identifier: Apache-2.0
//! What a cell of a sweep measured.

use serde::{Deserialize, Serialize};

use super::{Policy, Sight, Situation};
use crate::exposure::Exposure;

/// The end of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// Of what its senders sent.
    pub exposure: Exposure,
    /// Of connections to its pods.
    pub inbound: Exposure,
    /// Packets still got past at the end.
    pub open: bool,
    /// Packets that the senders sent, at least; 0 if none of them was ever started.
    pub sent: u64,
    /// Milliseconds until all pods were ready, from their creation or the reboot.
    pub ready_ms: Option<u64>,
    /// Restarts of containers.
    pub restarts: u64,
    /// Pods that the agent deleted.
    pub replaced: usize,
    /// What `kubectl` shows: states of the pods, reasons of events, the label.
    pub sees: Vec<String>,
}

impl Outcome {
    /// True if that is to be seen.
    #[must_use]
    pub fn shows(&self, sight: Sight) -> bool {
        match sight {
            Sight::Exposed => self.exposure.packets > 0,
            Sight::NotExposed => self.exposure.packets + self.inbound.packets == 0,
            Sight::Ready => self.ready_ms.is_some(),
            Sight::NotReady => self.ready_ms.is_none(),
            Sight::Replaced => self.replaced > 0,
            Sight::NotReplaced => self.replaced == 0,
            Sight::Labelled => self.sees.iter().any(|word| word.starts_with("label ")),
        }
    }
}

/// A cell with its outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub situation: String,
    pub policy: String,
    /// Seconds of a real cluster.
    pub late: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why there is none: `unsupported: …`, `inconclusive: …`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Cell {
    /// True if it is this one.
    #[must_use]
    pub fn is(&self, situation: &Situation, policy: &Policy, late: u32) -> bool {
        (&self.situation, &self.policy, self.late) == (&situation.name, &policy.name, late)
    }
}

/// All cells of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub product: String,
    pub version: String,
    pub kernel: String,
    /// Cells at a time.
    pub jobs: usize,
    pub cells: Vec<Cell>,
}

impl Measured {
    /// As a file, with a line for each cell.
    ///
    /// # Errors
    /// A text cannot be written as JSON.
    pub fn json(&self) -> serde_json::Result<String> {
        let mut head = serde_json::to_value(self)?;
        head["cells"] = serde_json::Value::Null;
        let cells: Vec<String> = self.cells.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let cells = format!("\"cells\":[\n{}\n]", cells.join(",\n"));
        Ok(head.to_string().replacen("\"cells\":null", &cells, 1) + "\n")
    }

    /// The cell of a policy in a situation.
    #[must_use]
    pub fn cell(&self, situation: &str, policy: &str, late: u32) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            (cell.situation.as_str(), cell.policy.as_str(), cell.late) == (situation, policy, late)
        })
    }
}

/// Exposure in words.
#[must_use]
pub fn exposure(outcome: &Outcome) -> String {
    let Exposure { packets, ms, pods } = outcome.exposure;
    let of = if pods > 1 { format!(" of {pods} pods") } else { String::new() };
    match (packets, outcome.sent, outcome.open) {
        (0, 0, _) => "nothing ran".to_owned(),
        (0, ..) => "0".to_owned(),
        (_, _, true) => format!("{packets}{of}, {ms} ms and on"),
        _ => format!("{packets}{of}, {ms} ms"),
    }
}

/// Exposure of connections to the pod in words.
#[must_use]
pub fn inbound(outcome: &Outcome) -> String {
    let Exposure { packets, ms, .. } = outcome.inbound;
    match (packets, outcome.sent) {
        (0, 0) => "nothing ran".to_owned(),
        (0, _) => "0".to_owned(),
        _ => format!("{packets}, {ms} ms"),
    }
}

/// Time to ready in words.
#[must_use]
pub fn ready(outcome: &Outcome) -> String {
    outcome.ready_ms.map_or_else(|| "not".to_owned(), |ms| format!("{ms} ms"))
}
