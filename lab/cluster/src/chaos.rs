// SPDX-License-Identifier: Apache-2.0
//! Perturbation: how late the lab's own actors are, drawn by a seed. A scenario whose verdict depends on who comes first is found by it.
//!
//! An actor is late every other time, by anything up to its bound. Each has its own sequence, so that one more draw of one does not change the others'.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An actor of the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// A kubelet that is to start or to end a pod.
    Kubelet,
    /// A controller that is to reconcile.
    Controller,
    /// An event of a watch on its way to a node.
    WatchEvent,
    /// The start of a container or of a plugin.
    Process,
}

impl Actor {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kubelet, Self::Controller, Self::WatchEvent, Self::Process];

    /// The latest that it may be. A kubelet looks at its pods' processes every second, controllers and watches of a busy cluster are late by
    /// as much, and a runtime takes some 100 ms for a container. The lab's time is shorter, and a scenario has many of each.
    #[must_use]
    pub const fn bound(self) -> Duration {
        Duration::from_millis(match self {
            Self::Kubelet | Self::Controller => 250,
            Self::Process => 100,
            Self::WatchEvent => 50,
        })
    }
}

#[derive(Debug)]
struct Draws {
    seed: u64,
    made: [AtomicU64; Actor::ALL.len()],
}

/// Delays of a scenario's actors; none by default.
#[derive(Debug, Clone, Default)]
pub struct Chaos(Option<Arc<Draws>>);

impl Chaos {
    /// Delays of one scenario of a run: the same whatever runs beside it.
    #[must_use]
    pub fn new(seed: u64, scenario: &str) -> Self {
        // FNV-1a.
        let mixed = scenario.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(Some(Arc::new(Draws { seed: mixed, made: Default::default() })))
    }

    /// Delay of the actor this time.
    #[must_use]
    pub fn delay(&self, actor: Actor) -> Duration {
        let Some(draws) = &self.0 else { return Duration::ZERO };
        let number = draws.made[actor as usize].fetch_add(1, Ordering::Relaxed);
        let drawn = mix(draws.seed ^ mix(number << 2 | actor as u64));
        if drawn & 1 == 0 {
            return Duration::ZERO;
        }
        let bound = u64::try_from(actor.bound().as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros((drawn >> 1) % (bound + 1))
    }
}

/// A step of SplitMix64.
fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(chaos: &Chaos, actor: Actor) -> Vec<Duration> {
        (0..100).map(|_| chaos.delay(actor)).collect()
    }

    #[test]
    fn nobody_is_late_without_a_seed() {
        assert_eq!(Chaos::default().delay(Actor::Kubelet), Duration::ZERO);
    }

    #[test]
    fn a_seed_repeats_each_actors_delays_whatever_the_others_draw() {
        let (one, other) = (Chaos::new(7, "a:1"), Chaos::new(7, "a:1"));
        let _others = drawn(&other, Actor::Process);
        assert_eq!(drawn(&one, Actor::Kubelet), drawn(&other, Actor::Kubelet));
        assert_ne!(
            drawn(&Chaos::new(8, "a:1"), Actor::Kubelet),
            drawn(&Chaos::new(7, "a:1"), Actor::Kubelet)
        );
        assert_ne!(
            drawn(&Chaos::new(7, "a:2"), Actor::Kubelet),
            drawn(&Chaos::new(7, "a:1"), Actor::Kubelet)
        );
    }

    #[test]
    fn delays_are_within_the_bound_and_about_every_other_one_is_none() {
        for actor in Actor::ALL {
            let all = drawn(&Chaos::new(1, ""), actor);
            assert!(all.iter().all(|delay| *delay <= actor.bound()));
            let none = all.iter().filter(|delay| delay.is_zero()).count();
            assert!((30..70).contains(&none), "{none} of 100 of {actor:?} are none");
        }
    }
}
