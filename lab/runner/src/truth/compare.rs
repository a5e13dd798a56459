// SPDX-License-Identifier: Apache-2.0
//! What the two judges come to: disagreements, rules that nothing moved, and how outcomes are shared out. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use redirect::packet::Outcome;
use serde::Serialize;

use super::data::Group;
use super::evaluate::RuleId;
use super::kernel::{PodSeen, Seen};

/// The least share that each outcome must have, in percent: a table that only ever says "redirected" proves nothing.
const LEAST_SHARE: usize = 10;

/// What the table came to.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// How many pods.
    pub pods: usize,
    /// How many packets.
    pub packets: usize,
    /// Where the judges disagree, in words.
    pub disagreements: Vec<String>,
    /// Rules that no packet moved and that are not listed, and listed ones that were moved.
    pub uncovered: Vec<String>,
    /// How many different rules there are.
    pub rules: usize,
    /// How many of them are listed as unreachable.
    pub unreachable: usize,
    /// How often each outcome occurred.
    pub shares: BTreeMap<String, usize>,
}

impl Findings {
    /// Compares everything that was seen with everything that was expected.
    #[must_use]
    pub fn of(groups: &[Group], seen: &[PodSeen]) -> Self {
        let mut findings = Self { pods: seen.len(), ..Self::default() };
        for pod in seen {
            findings.strangers(pod);
            for packet in &pod.packets {
                findings.packet(pod, packet);
            }
        }
        for group in groups {
            let pods: Vec<_> = seen.iter().filter(|pod| pod.group == group.group).collect();
            findings.cover(group, &pods);
        }
        findings
    }

    fn strangers(&mut self, pod: &PodSeen) {
        for id in &pod.strangers {
            let wanted = pod.rules.iter().any(|(known, _)| known == id);
            let what = if wanted { "is wanted and not there" } else { "is there and not wanted" };
            self.disagreements.push(format!("{}: rule {id} {what}", pod.name));
        }
    }

    fn packet(&mut self, pod: &PodSeen, seen: &Seen) {
        self.packets += 1;
        let place = format!("{}: {} ({:?})", pod.name, seen.packet, seen.family);
        match &seen.outcome {
            Ok(outcome) if *outcome == seen.expected.outcome => {
                *self.shares.entry(word(*outcome)).or_default() += 1;
            }
            other => {
                let kernel = other.as_ref().map_or_else(Clone::clone, |outcome| word(*outcome));
                let wanted = word(seen.expected.outcome);
                self.disagreements.push(format!("{place}: the evaluator says {wanted}, the kernel {kernel}"));
            }
        }
        let text = |id: &RuleId| {
            let text = pod.rules.iter().find(|(known, _)| known == id);
            text.map_or_else(
                || id.to_string(),
                |(id, text)| format!("{} {text} (at {})", id.family, id.position),
            )
        };
        for id in seen.expected.moved.difference(&seen.moved) {
            self.disagreements
                .push(format!("{place}: the evaluator names a rule whose counter stood: {}", text(id)));
        }
        for id in seen.moved.difference(&seen.expected.moved) {
            self.disagreements
                .push(format!("{place}: a counter moved that the evaluator does not name: {}", text(id)));
        }
    }

    /// Each rule must be moved by some packet of some pod of its group, or be listed; a rule is known by its text.
    fn cover(&mut self, group: &Group, pods: &[&PodSeen]) {
        let mut rules: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for pod in pods {
            let moved: BTreeSet<&RuleId> = pod.packets.iter().flat_map(|packet| &packet.moved).collect();
            for (id, text) in &pod.rules {
                *rules.entry((id.family, text)).or_default() |= moved.contains(id);
            }
        }
        self.rules += rules.len();
        for ((family, text), moved) in &rules {
            let listed = group.unreachable.iter().any(|entry| entry.names(text));
            match (moved, listed) {
                (false, false) => {
                    self.uncovered.push(format!("{}: nothing moves {family} {text}", group.group));
                }
                (true, true) => {
                    self.uncovered
                        .push(format!("{}: listed as unreachable, but moved: {family} {text}", group.group));
                }
                (false, true) => self.unreachable += 1,
                (true, false) => {}
            }
        }
        for entry in &group.unreachable {
            if !rules.keys().any(|(_, text)| entry.names(text)) {
                self.uncovered.push(format!(
                    "{}: listed as unreachable, but no such rule: {}",
                    group.group, entry.rule
                ));
            }
        }
    }

    /// Outcomes that occur too rarely, in words.
    #[must_use]
    pub fn rare(&self) -> Vec<String> {
        self.shares
            .iter()
            .filter(|(_, count)| **count * 100 < LEAST_SHARE * self.packets)
            .map(|(outcome, count)| format!("{outcome}: {count} of {} packets", self.packets))
            .collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares: Vec<_> = self
            .shares
            .iter()
            .map(|(outcome, count)| {
                format!("{outcome} {count} ({} %)", (count * 100).checked_div(self.packets).unwrap_or(0))
            })
            .collect();
        write!(
            out,
            "truth table: {} packets over {} pods, {} disagreements; {}; {} rules, {} of them unreachable",
            self.packets,
            self.pods,
            self.disagreements.len(),
            shares.join(", "),
            self.rules,
            self.unreachable,
        )
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {} {}", self.family, self.table, self.chain, self.position)
    }
}

fn word(outcome: Outcome) -> String {
    match outcome {
        Outcome::Untouched => "untouched".to_owned(),
        Outcome::Redirected { port } => format!("redirected to {port}"),
        Outcome::Intercepted { port } => format!("intercepted on {port}"),
        Outcome::Dropped => "dropped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use redirect::ruleset::Family;

    use super::super::evaluate::Expected;
    use super::*;

    fn rule(position: usize) -> RuleId {
        RuleId { family: "ip", table: "nat".into(), chain: "OUTPUT".into(), position }
    }

    fn group(unreachable: &str) -> Group {
        serde_saphyr::from_str(&format!("group: g\npods: []\nunreachable: [{unreachable}]\n")).unwrap()
    }

    fn pod(expected: &[usize], moved: &[usize], outcome: Result<Outcome, String>) -> PodSeen {
        let packet = Seen {
            packet: "out tcp outside 80".into(),
            family: Family::V4,
            expected: Expected {
                outcome: Outcome::Untouched,
                moved: expected.iter().copied().map(rule).collect(),
            },
            outcome,
            moved: moved.iter().copied().map(rule).collect(),
        };
        PodSeen {
            group: "g".into(),
            name: "p".into(),
            rules: vec![(rule(1), "nat OUTPUT -j A".into()), (rule(2), "nat OUTPUT -j B".into())],
            strangers: Vec::new(),
            packets: vec![packet],
        }
    }

    #[test]
    fn agreement_has_nothing_to_say() {
        let unreachable = "{rule: nat OUTPUT -j B, because: x}";
        let findings = Findings::of(&[group(unreachable)], &[pod(&[1], &[1], Ok(Outcome::Untouched))]);
        assert!(findings.disagreements.is_empty() && findings.uncovered.is_empty());
        assert_eq!((findings.rules, findings.unreachable), (2, 1));
    }

    #[test]
    fn another_outcome_or_counter_is_a_disagreement() {
        let of = |pod| Findings::of(&[], &[pod]).disagreements.len();
        assert_eq!(of(pod(&[1], &[1], Ok(Outcome::Dropped))), 1);
        assert_eq!(of(pod(&[1], &[1], Err("silence".into()))), 1);
        assert_eq!(of(pod(&[1], &[2], Ok(Outcome::Untouched))), 2);
    }

    #[test]
    fn a_rule_must_move_or_be_listed_and_not_both() {
        let uncovered = |unreachable: &str| {
            Findings::of(&[group(unreachable)], &[pod(&[1], &[1], Ok(Outcome::Untouched))]).uncovered
        };
        assert_eq!(uncovered("").len(), 1);
        assert_eq!(uncovered("{rule: nat OUTPUT -j A, because: x}").len(), 2);
        assert_eq!(uncovered("{rule: nat OUTPUT -j B, because: x}, {rule: gone, because: x}").len(), 1);
    }

    #[test]
    fn a_rare_outcome_is_found() {
        let mut findings = Findings { packets: 100, ..Findings::default() };
        findings.shares.insert("untouched".into(), 91);
        findings.shares.insert("redirected to 15001".into(), 9);
        assert_eq!(findings.rare().len(), 1);
    }
}
