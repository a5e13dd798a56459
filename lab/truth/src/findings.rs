// SPDX-License-Identifier: Apache-2.0
//! Results of both judges. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use crate::counters::Known;
use crate::fates::Fate;
use crate::net;
use crate::unreachable::Unreachable;

/// Results of one lane, or several of one back end.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// The back end, and who wrote through it.
    pub backend: String,
    /// Number of programmed configurations.
    pub pods: usize,
    /// Number of packets sent.
    pub packets: usize,
    /// Packets that somebody else got than the evaluator says, or as something else, in words.
    pub astray: Vec<String>,
    /// Rules that are not where they should be, and counters that moved and should not have, or the reverse.
    pub disagreements: Vec<String>,
    /// Number of rules, over all configurations.
    pub rules: usize,
    /// Number of rules that a packet met.
    pub reached: usize,
    /// Configurations that were refused, as they must be, before they were programmed with numbers for names.
    pub refused: usize,
    /// Number of occurrences by outcome.
    pub outcomes: BTreeMap<&'static str, usize>,
    /// Fates that were recorded, by configuration.
    #[serde(skip)]
    pub fates: BTreeMap<String, Vec<Fate>>,
    /// Kinds of rules: each with whether some packet met one.
    #[serde(skip)]
    pub kinds: BTreeMap<String, bool>,
    /// From start to end, in seconds.
    pub seconds: f64,
}

impl Findings {
    /// Number of mismatches.
    #[must_use]
    pub fn wrong(&self) -> usize {
        self.astray.len() + self.disagreements.len()
    }

    /// Counts a configuration's rules, of which `moved` were met.
    pub fn cover(&mut self, known: &[Known], moved: &BTreeSet<crate::counters::Place>) {
        self.rules += known.len();
        for rule in known {
            let met = moved.contains(&rule.place);
            self.reached += usize::from(met);
            let kind = format!(
                "{} {} {} {}",
                rule.place.family,
                rule.place.table,
                rule.place.chain,
                kind(&rule.text)
            );
            *self.kinds.entry(kind).or_default() |= met;
        }
    }

    /// Adds what another lane of the same back end saw.
    pub fn add(&mut self, other: Self) {
        self.pods += other.pods;
        self.packets += other.packets;
        self.astray.extend(other.astray);
        self.disagreements.extend(other.disagreements);
        self.rules += other.rules;
        self.reached += other.reached;
        self.refused += other.refused;
        self.fates.extend(other.fates);
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        for (kind, met) in other.kinds {
            *self.kinds.entry(kind).or_default() |= met;
        }
    }

    /// Kinds of rules that no packet met and that are not listed, and listed ones that were met.
    #[must_use]
    pub fn gaps(&self, unreachable: &[Unreachable]) -> Vec<String> {
        let gap =
            |(kind, met): (&String, &bool)| match (met, unreachable.iter().find(|entry| entry.names(kind))) {
                (false, None) => Some(format!("nothing meets {kind}")),
                (true, Some(entry)) => Some(format!("met, though {}: {kind}", entry.because)),
                _ => None,
            };
        self.kinds.iter().filter_map(gap).collect()
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcomes: Vec<_> = self.outcomes.iter().map(|(word, count)| format!("{word} {count}")).collect();
        write!(
            out,
            "truth table, {}: {} packets over {} pods in {:.1} s, {} disagreements; {}; {} of {} rules met, {} of {} kinds",
            self.backend,
            self.packets,
            self.pods,
            self.seconds,
            self.wrong(),
            outcomes.join(", "),
            self.reached,
            self.rules,
            self.kinds.values().filter(|met| **met).count(),
            self.kinds.len(),
        )
    }
}

/// A rule's text with `#` for every value and `absent` for every interface that the lab's pods do not have: rules that differ
/// only in those are of one kind. What comes several times over in a row comes once.
fn kind(text: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in text.split(' ') {
        let bare = word.trim_matches(|c: char| "{},:\"".contains(c));
        let names_interface = matches!(words.last(), Some(&("-i" | "-o" | "iifname" | "oifname")));
        let word = match bare {
            "lo" | net::OUTSIDE | net::GUEST => bare,
            _ if names_interface => "absent",
            _ if bare.chars().any(|c| c.is_ascii_digit()) && bare != "ip6" => "#",
            _ => word,
        };
        words.push(word);
        // The longest condition that comes in lists has five words.
        for length in 1..=5 {
            let (end, begin) = (words.len(), words.len().saturating_sub(2 * length));
            let is_twice = end >= 2 * length && words[begin..begin + length] == words[begin + length..];
            if is_twice && words.last() == Some(&"#") {
                words.truncate(end - length);
            }
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_differ_in_values_are_of_one_kind() {
        assert_eq!(kind("-p tcp --dport 80 -j RETURN"), kind("-p tcp --dport 443 -j RETURN"));
        assert_eq!(kind("-d 10.0.0.0/8 -j RETURN"), "-d # -j RETURN");
        assert_ne!(kind("-p tcp --dport 80 -j RETURN"), kind("-p udp --dport 80 -j RETURN"));
        assert_eq!(
            kind("-m owner ! --gid-owner 7 -m owner ! --gid-owner 8 -j RETURN"),
            "-m owner ! --gid-owner # -j RETURN"
        );
        assert_eq!(kind("-i net1 -j RETURN"), kind("-i veth-a -j RETURN"));
        assert_ne!(kind("-i eth0 -j RETURN"), kind("-i k6t-eth0 -j RETURN"));
    }
}
