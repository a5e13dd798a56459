// SPDX-License-Identifier: Apache-2.0
//! Leader election by a `coordination.k8s.io` lease, as client-go does it: a candidate that sees the lease unchanged for its whole
//! duration, by its own clock, takes it. Pure: monotonic time is an argument, and wall time only to write it down.
//!
//! A leader acts until [`Timing::renew`] has passed since the start of its last successful write, and no request of it takes longer than
//! the rest of the duration: it is answered, or given up, before another one can lead.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Timing of the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// `leaseDurationSeconds`: without a renewal for so long another candidate may lead.
    pub duration: Duration,
    /// Renew deadline: without a renewal for so long the leader stops.
    pub renew: Duration,
    /// Retry period.
    pub retry: Duration,
}

/// Fields read of the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    holder: String,
    renewed: String,
    duration: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub enum LeaseWrite {
    /// Nothing: another candidate leads.
    Nothing,
    /// Creates the lease.
    Create(Value),
    /// Replaces it, if its resource version is unchanged.
    Replace(Value),
}

#[derive(Debug, Clone)]
pub struct Election {
    identity: String,
    timing: Timing,
    /// Last observed record, and since when.
    seen: Option<(Record, Duration)>,
    until: Option<Duration>,
}

impl Election {
    /// A candidate with a unique identity.
    #[must_use]
    pub fn new(identity: &str, timing: Timing) -> Self {
        Self { identity: identity.to_owned(), timing, seen: None, until: None }
    }

    /// Decides after the lease was read at `now`; `None` if it does not exist.
    pub fn decide(
        &mut self,
        lease: Option<&Value>,
        name: &str,
        now: Duration,
        wall: Timestamp,
    ) -> LeaseWrite {
        let Some(lease) = lease else {
            let object =
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
            return LeaseWrite::Create(self.held(object, Holder::Us { anew: true }, wall));
        };
        let record = record(lease);
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != record) {
            self.seen = Some((record.clone(), now));
        }
        let since = self.seen.as_ref().map_or(now, |(_, since)| *since);
        let ours = record.holder == self.identity;
        // A lease that does not say for how long it holds holds as long as ours.
        let duration = if record.duration.is_zero() { self.timing.duration } else { record.duration };
        let free = record.holder.is_empty() || now.saturating_sub(since) >= duration;
        if !ours && !free {
            self.until = None;
            return LeaseWrite::Nothing;
        }
        LeaseWrite::Replace(self.held(lease.clone(), Holder::Us { anew: !ours }, wall))
    }

    /// A write that was begun at `began` succeeded.
    pub fn written(&mut self, began: Duration) {
        self.until = Some(began + self.timing.renew);
    }

    /// A write lost against a concurrent one.
    pub fn beaten(&mut self) {
        self.until = None;
    }

    /// End of our leadership, if we lead.
    #[must_use]
    pub fn until(&self) -> Option<Duration> {
        self.until
    }

    /// Releases the lease, so that another candidate can lead at once.
    pub fn release(&mut self, lease: &Value, wall: Timestamp) -> Option<Value> {
        self.until = None;
        (record(lease).holder == self.identity).then(|| self.held(lease.clone(), Holder::Nobody, wall))
    }

    fn held(&self, mut lease: Value, holder: Holder, wall: Timestamp) -> Value {
        let time = format!("{wall:.6}");
        let spec = &mut lease["spec"];
        match holder {
            Holder::Us { anew } => {
                spec["holderIdentity"] = json!(self.identity);
                spec["leaseDurationSeconds"] = json!(self.timing.duration.as_secs().max(1));
                if anew {
                    let transitions = spec["leaseTransitions"].as_i64();
                    spec["leaseTransitions"] = json!(transitions.map_or(0, |count| count.saturating_add(1)));
                    spec["acquireTime"] = json!(time);
                }
            }
            Holder::Nobody => {
                spec["holderIdentity"] = json!("");
                spec["leaseDurationSeconds"] = json!(1);
            }
        }
        spec["renewTime"] = json!(time);
        lease
    }
}

#[derive(Clone, Copy)]
enum Holder {
    Us {
        /// Not our lease before.
        anew: bool,
    },
    Nobody,
}

fn record(lease: &Value) -> Record {
    let text = |field: &str| lease["spec"][field].as_str().unwrap_or_default().to_owned();
    let seconds = lease["spec"]["leaseDurationSeconds"].as_u64().unwrap_or_default();
    Record {
        holder: text("holderIdentity"),
        renewed: text("renewTime"),
        duration: Duration::from_secs(seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Default for Timing {
        /// Those of the older controller.
        fn default() -> Self {
            let [duration, renew, retry] = [60, 15, 5].map(Duration::from_secs);
            Self { duration, renew, retry }
        }
    }

    fn wall() -> Timestamp {
        "2026-01-01T00:00:00.5Z".parse().unwrap()
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn candidate(name: &str) -> Election {
        Election::new(name, Timing::default())
    }

    fn lease(write: LeaseWrite) -> Value {
        match write {
            LeaseWrite::Create(lease) | LeaseWrite::Replace(lease) => lease,
            LeaseWrite::Nothing => panic!("nothing is written"),
        }
    }

    #[test]
    fn the_first_one_makes_the_lease_and_keeps_it() {
        let mut a = candidate("a");
        let LeaseWrite::Create(made) = a.decide(None, "lock", seconds(0), wall()) else { panic!() };
        let spec = json!({
            "holderIdentity": "a", "leaseDurationSeconds": 60, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:00.500000Z", "renewTime": "2026-01-01T00:00:00.500000Z",
        });
        assert_eq!((&made["metadata"]["name"], &made["spec"]), (&json!("lock"), &spec));
        assert_eq!(a.until(), None, "not before it is written");
        a.written(seconds(0));
        assert_eq!(a.until(), Some(seconds(15)));
        let later = "2026-01-01T00:00:05Z".parse().unwrap();
        let renewed = lease(a.decide(Some(&made), "lock", seconds(5), later));
        assert_eq!(renewed["spec"]["acquireTime"], spec["acquireTime"]);
        assert_ne!(renewed["spec"]["renewTime"], spec["renewTime"]);
    }

    #[test]
    fn another_one_waits_for_the_whole_duration_by_its_own_clock() {
        let (mut a, mut b) = (candidate("a"), candidate("b"));
        let held = lease(a.decide(None, "lock", seconds(0), wall()));
        assert_eq!(b.decide(Some(&held), "lock", seconds(100), wall()), LeaseWrite::Nothing);
        assert_eq!(b.decide(Some(&held), "lock", seconds(159), wall()), LeaseWrite::Nothing);
        let renewed =
            lease(a.decide(Some(&held), "lock", seconds(5), "2026-01-01T00:00:05Z".parse().unwrap()));
        assert_eq!(b.decide(Some(&renewed), "lock", seconds(160), wall()), LeaseWrite::Nothing);
        let taken = lease(b.decide(Some(&renewed), "lock", seconds(220), wall()));
        assert_eq!(taken["spec"]["holderIdentity"], "b");
        assert_eq!(taken["spec"]["leaseTransitions"], 1);
    }

    #[test]
    fn a_leader_that_finds_another_one_or_is_beaten_leads_no_more() {
        let (mut a, mut b) = (candidate("a"), candidate("b"));
        let held = lease(b.decide(None, "lock", seconds(0), wall()));
        a.written(seconds(0));
        assert_eq!(a.decide(Some(&held), "lock", seconds(1), wall()), LeaseWrite::Nothing);
        assert_eq!(a.until(), None);
        a.written(seconds(0));
        a.beaten();
        assert_eq!(a.until(), None);
    }

    #[test]
    fn what_is_released_is_taken_at_once_and_only_the_holder_releases() {
        let (mut a, mut b) = (candidate("a"), candidate("b"));
        let held = lease(a.decide(None, "lock", seconds(0), wall()));
        assert_eq!(b.release(&held, wall()), None);
        let free = a.release(&held, wall()).unwrap();
        let taken = lease(b.decide(Some(&free), "lock", seconds(1), wall()));
        assert_eq!(taken["spec"]["holderIdentity"], "b");
    }

    #[test]
    fn who_leads_stops_before_another_one_can() {
        let timing = Timing::default();
        let mut a = candidate("a");
        a.written(seconds(10));
        assert!(a.until().unwrap() + (timing.duration - timing.renew) <= seconds(10) + timing.duration);
    }
}
