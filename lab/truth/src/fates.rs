// SPDX-License-Identifier: Apache-2.0
//! Fates of packets, recorded in a kernel with rules that upstream's `istio-iptables` wrote (`scenarios/truth/fates.json`). Our generator and our
//! evaluator have no part in it: where both are wrong in the same way, this judge is not.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::exchange::Seen;
use crate::net::Place;
use crate::packet::Spec;

/// The file below `scenarios`.
const FILE: &str = "truth/fates.json";

/// Packets with their fates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fates {
    /// Whose rules they met.
    pub of: String,
    /// By the names of the configurations.
    pub configurations: BTreeMap<String, Vec<Fate>>,
}

/// A packet and its fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fate {
    /// Fate, as [`fate`] words it.
    pub fate: String,
    #[serde(flatten)]
    pub packet: Spec,
}

impl Fates {
    /// Reads those of a workspace's `scenarios`.
    ///
    /// # Errors
    /// There is no such file, or it is none of fates.
    pub fn read(scenarios: &Path) -> anyhow::Result<Self> {
        let path = scenarios.join(FILE);
        let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    }

    /// Writes them there, a packet on each line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, scenarios: &Path) -> anyhow::Result<()> {
        let mut text = format!("{{\"of\": {},\n\"configurations\": {{", serde_json::to_string(&self.of)?);
        for (number, (name, fates)) in self.configurations.iter().enumerate() {
            let lines: Vec<_> = fates.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
            let begin = if number == 0 { "" } else { "," };
            let name = serde_json::to_string(name)?;
            write!(text, "{begin}\n{name}: [\n{}\n]", lines.join(",\n"))?;
        }
        text.push_str("\n}}\n");
        let path = scenarios.join(FILE);
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    }
}

/// What became of a packet, without what differs from one sending to the next: its own port.
#[must_use]
pub fn fate(seen: &Seen) -> String {
    match seen {
        Seen::Got { place, port, local, peer, original, is_answered } => {
            let mut text = format!("{} port {port} gets it from {}", named(*place), peer.ip());
            if let Some(local) = local {
                text.push_str(&format!(" at {local}"));
            }
            if let Some(original) = original.filter(|original| Some(*original) != *local) {
                text.push_str(&format!(", sent to {original}"));
            }
            text.push_str(if *is_answered { ", and answers" } else { ", and its answer is lost" });
            text
        }
        Seen::Answered => "the kernel answers".to_owned(),
        Seen::Silence => SILENCE.to_owned(),
        Seen::Refused(kind) => format!("refused: {kind}"),
    }
}

/// Fate of a packet that nobody gets.
const SILENCE: &str = "nobody gets it";

/// True if somebody answers a packet with this fate: nobody waits for what is not to come.
pub(crate) fn is_answered(fate: &str) -> bool {
    fate.ends_with("answers")
}

fn named(place: Place) -> &'static str {
    match place {
        Place::Pod => "the pod",
        Place::Outside => "the outside",
        Place::Guest => "the guest",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fates_that_are_there_are_of_upstream_and_of_all_kinds() {
        let fates = Fates::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")).unwrap();
        assert!(fates.of.contains("istio.io/istio"), "{}", fates.of);
        assert!(fates.configurations.len() >= 128, "{}", fates.configurations.len());
        let all = || fates.configurations.values().flatten();
        for part in
            ["the pod port 15001", "the pod port 15006", "the outside port", "the kernel answers", SILENCE]
        {
            assert!(all().any(|fate| fate.fate.contains(part)), "{part}");
        }
        assert!(all().any(|fate| fate.packet.destination.is_ipv6()));
    }
}
