// SPDX-License-Identifier: Apache-2.0
//! Somebody who undoes what we do as often as we do it. Healing at once is right until it is a fight: then each round costs the node more than
//! it gains, so the waits between rounds grow, and the operator is told what ends it. Pure: it is told the time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Heals within [`WITHIN`] that make a fight.
const HEALS: usize = 5;
/// Window of [`HEALS`].
const WITHIN: Duration = Duration::from_secs(10);
/// First backoff of a fight; doubles.
const FIRST: Duration = Duration::from_secs(1);
/// A node without our entry starts pods without redirection, so no wait is longer.
const LONGEST: Duration = Duration::from_secs(30);
/// Time without a heal that ends a fight.
const PEACE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub struct Fight {
    heals: VecDeque<Instant>,
    wait: Option<Duration>,
    until: Option<Instant>,
}

impl Fight {
    /// We undid somebody's change. Whether that is a round of a fight, and how long to wait before the next.
    pub fn healed(&mut self, now: Instant) -> Option<Duration> {
        if self.heals.back().is_some_and(|last| now.duration_since(*last) > PEACE) {
            *self = Self::default();
        }
        self.heals.push_back(now);
        if self.heals.len() > HEALS {
            self.heals.pop_front();
        }
        let soon = self.heals.front().is_some_and(|first| now.duration_since(*first) <= WITHIN);
        if self.wait.is_none() && !(soon && self.heals.len() == HEALS) {
            return None;
        }
        let wait = self.wait.map_or(FIRST, |last| (last * 2).min(LONGEST));
        (self.wait, self.until) = (Some(wait), Some(now + wait));
        self.wait
    }

    /// Backoff from `now` on, during which what is fought over is left alone.
    #[must_use]
    pub fn hold(&self, now: Instant) -> Option<Duration> {
        self.until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }
}

/// Suspected other writer, by the files in the directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rival {
    #[default]
    Unknown,
    /// Cilium keeps a configuration there, and can be told to be the only one that does.
    Cilium,
}

impl Rival {
    /// Recognizes a writer by its files.
    pub fn among<'a>(mut names: impl Iterator<Item = &'a str>) -> Self {
        let cilium = names.any(|name| name.contains("cilium"));
        if cilium { Self::Cilium } else { Self::Unknown }
    }
}

/// Message for operators, of a file that is all ours.
#[must_use]
pub fn reason_of_files(what: &str) -> String {
    format!("somebody else keeps replacing {what}; find out who installs the same plugin, and remove that")
}

/// Message for operators.
#[must_use]
pub fn reason(file: &str, rival: Rival) -> String {
    let hint = match rival {
        Rival::Cilium => "Cilium does so in its exclusive mode: set cni.exclusive=false in its values",
        Rival::Unknown => "find out who writes it, and let that leave other plugins' entries alone",
    };
    format!("somebody else keeps removing our entry from {file}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_heals_are_no_fight_and_many_are_slowed_down() {
        let start = Instant::now();
        let mut fight = Fight::default();
        let mut now = start;
        for _ in 0..HEALS - 1 {
            assert_eq!(fight.healed(now), None);
            assert_eq!(fight.hold(now), None);
            now += Duration::from_millis(50);
        }
        let mut waits = Vec::new();
        while now < start + Duration::from_secs(300) {
            let wait = fight.healed(now).unwrap();
            assert_eq!(fight.hold(now), Some(wait));
            assert_eq!(fight.hold(now + wait), None);
            waits.push(wait.as_secs());
            now += wait + Duration::from_millis(50);
        }
        assert_eq!(&waits[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert!(waits.len() < 15, "{} writes in five minutes", waits.len());
    }

    #[test]
    fn cilium_is_told_by_any_file_of_its_own() {
        let hint = |names: &[&str]| reason("02-x.conflist", Rival::among(names.iter().copied()));
        assert!(hint(&["02-x.conflist", "05-cilium.conflist"]).contains("cni.exclusive=false"));
        assert!(hint(&["02-x.conflist", "10-calico.conflist"]).contains("find out"));
    }

    #[test]
    fn heals_that_are_far_apart_are_none_and_peace_ends_one() {
        let mut now = Instant::now();
        let mut fight = Fight::default();
        for _ in 0..20 {
            assert_eq!(fight.healed(now), None);
            now += Duration::from_secs(3);
        }
        for _ in 0..HEALS {
            fight.healed(now);
        }
        assert!(fight.hold(now).is_some());
        now += PEACE + Duration::from_secs(1);
        assert_eq!((fight.hold(now), fight.healed(now)), (None, None));
    }
}
