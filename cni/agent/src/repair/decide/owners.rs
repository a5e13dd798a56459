// SPDX-License-Identifier: Apache-2.0
//! Rate limit on deletions of one owner's pods on this node. A controller makes another pod for each that is deleted; where validation
//! fails for a reason that a new pod has as well, that would go on for ever.
//!
//! Pods that were there before the first of them was deleted are one generation, and all deleted at once: they came up while there was no
//! plugin. Each generation that follows waits twice as long as the one before.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Time;

/// Backoff before the second generation.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// The longest wait. Not for ever: what was wrong may be right by then, and a pod without redirection has no other way out.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Retention of an owner's state after its last deletion.
const MEMORY: Duration = Duration::from_secs(2 * 3600);
/// Number of generations from which on an event is emitted.
pub(super) const PATIENCE: u32 = 3;

#[derive(Debug, Clone, Copy)]
struct Owner {
    /// Generations of which a pod was deleted.
    generations: u32,
    /// When the first of the present one was deleted: who is first seen later belongs to the next.
    since: Time,
    latest: Time,
}

/// Time from which on a pod may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Now,
    /// After so many generations.
    Later {
        at: Time,
        generations: u32,
    },
}

/// State by UID of the owning controller.
#[derive(Debug, Default)]
pub(super) struct Owners(BTreeMap<String, Owner>);

impl Owners {
    /// When a pod of this owner, first seen at `seen`, may be deleted. A pod without one is not made again.
    pub(super) fn when(&self, owner: &str, seen: Time, now: Time) -> When {
        let Some(known) = self.0.get(owner).filter(|known| known.latest + MEMORY > now) else {
            return When::Now;
        };
        let at = known.latest + wait(known.generations);
        if seen <= known.since || at <= now {
            return When::Now;
        }
        When::Later { at, generations: known.generations }
    }

    /// A pod of this owner, first seen at `seen`, was deleted.
    pub(super) fn deleted(&mut self, owner: &str, seen: Time, now: Time) {
        if owner.is_empty() {
            return;
        }
        self.0.retain(|_, known| known.latest + MEMORY > now);
        let known =
            self.0.entry(owner.to_owned()).or_insert(Owner { generations: 0, since: now, latest: now });
        if known.generations == 0 || seen > known.since {
            known.generations += 1;
            known.since = now;
        }
        known.latest = now;
    }

    /// A pod of this owner, first seen at `seen`, passed its validation: what was wrong is over.
    pub(super) fn came_up(&mut self, owner: &str, seen: Time) {
        if self.0.get(owner).is_some_and(|known| seen > known.since) {
            self.0.remove(owner);
        }
    }
}

fn wait(generations: u32) -> Duration {
    let doublings = generations.saturating_sub(1).min(16);
    FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_secs(seconds)
    }

    #[test]
    fn pods_that_were_there_together_go_together() {
        let mut owners = Owners::default();
        for now in [10, 11, 12] {
            assert_eq!(owners.when("rs", at(1), at(now)), When::Now);
            owners.deleted("rs", at(1), at(now));
        }
        assert_eq!(owners.when("rs", at(11), at(13)), When::Later { at: at(14), generations: 1 });
        assert_eq!(owners.when("other", at(11), at(13)), When::Now);
    }

    #[test]
    fn each_generation_waits_twice_as_long_up_to_an_hour() {
        let (mut owners, mut now, mut waits) = (Owners::default(), at(0), Vec::new());
        owners.deleted("rs", at(0), now);
        for generation in 1..15 {
            let seen = now + at(1);
            let When::Later { at, generations } = owners.when("rs", seen, seen) else { panic!("at once") };
            assert_eq!(generations, generation);
            waits.push((at - now).as_secs());
            now = at;
            assert_eq!(owners.when("rs", seen, now), When::Now);
            owners.deleted("rs", seen, now);
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600, 3600]);
    }

    #[test]
    fn a_pod_that_comes_up_and_time_make_it_forgotten() {
        let mut owners = Owners::default();
        owners.deleted("rs", at(0), at(10));
        owners.came_up("rs", at(5));
        assert_ne!(owners.when("rs", at(11), at(11)), When::Now, "one that was there before says nothing");
        owners.came_up("rs", at(11));
        assert_eq!(owners.when("rs", at(12), at(12)), When::Now);
        owners.deleted("rs", at(12), at(12));
        assert_eq!(owners.when("rs", at(13), at(12) + MEMORY), When::Now);
    }

    #[test]
    fn a_pod_without_an_owner_is_nobody_s() {
        let mut owners = Owners::default();
        owners.deleted("", at(0), at(1));
        assert_eq!(owners.when("", at(2), at(2)), When::Now);
    }
}
