// SPDX-License-Identifier: Apache-2.0
//! Turns of evictions. One mistake may leave pods of all nodes unredirected; agents of all nodes then take turns by one lease in their namespace, so
//! that pods of a cluster are evicted one after the other, whatever its disruption budgets allow. Pure: wall time is an argument.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// Name of the lease.
pub const LEASE: &str = "istio-cni-evictions";
/// Least time between two evictions of a cluster.
pub const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// Ours, if this lease can be made.
    Create(Value),
    /// Ours, if this lease takes the place of the one that was read.
    Replace(Value),
    /// Somebody else's, for so long.
    Later(Duration),
}

/// The turn of `holder` after the lease was read; `None` if it does not exist. A time that is ahead of `now` by more than the interval is of a
/// clock that is wrong, and holds nobody up.
#[must_use]
pub fn turn(lease: Option<&Value>, holder: &str, now: Timestamp) -> Turn {
    let taken = json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": INTERVAL.as_secs(),
        "renewTime": format!("{now:.6}"),
    });
    let Some(lease) = lease else {
        let metadata = json!({ "name": LEASE });
        return Turn::Create(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": taken,
        }));
    };
    let renewed = lease["spec"]["renewTime"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let until = renewed.and_then(|renewed| renewed.checked_add(INTERVAL).ok());
    match until.map(|until| Duration::try_from(until.duration_since(now))) {
        Some(Ok(left)) if left > Duration::ZERO && left <= 2 * INTERVAL => Turn::Later(left),
        _ => {
            let mut lease = lease.clone();
            lease["spec"] = taken;
            Turn::Replace(lease)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn lease(renewed: &str) -> Value {
        json!({ "metadata": { "name": LEASE, "resourceVersion": "7" }, "spec": { "renewTime": renewed } })
    }

    #[test]
    fn a_turn_is_taken_once_the_interval_is_over_and_not_before() {
        let taken = lease(&at(0).to_string());
        for (now, left) in [(0, 10), (4, 6), (9, 1)] {
            assert_eq!(turn(Some(&taken), "b", at(now)), Turn::Later(Duration::from_secs(left)), "{now}");
        }
        for now in [10, 11, 3600] {
            let Turn::Replace(lease) = turn(Some(&taken), "b", at(now)) else { panic!("{now}") };
            assert_eq!(
                (&lease["spec"]["holderIdentity"], &lease["metadata"]["resourceVersion"]),
                (&json!("b"), &json!("7"))
            );
            assert_eq!(turn(Some(&lease), "c", at(now + 1)), Turn::Later(Duration::from_secs(9)));
        }
    }

    #[test]
    fn the_first_one_makes_the_lease() {
        let Turn::Create(lease) = turn(None, "a", at(0)) else { panic!("it is there") };
        assert_eq!(
            (&lease["metadata"]["name"], &lease["spec"]["holderIdentity"]),
            (&json!(LEASE), &json!("a"))
        );
        assert!(matches!(turn(Some(&lease), "b", at(5)), Turn::Later(_)));
    }

    #[test]
    fn a_clock_that_is_ahead_holds_others_up_for_an_interval_at_most() {
        assert_eq!(turn(Some(&lease(&at(5).to_string())), "b", at(0)), Turn::Later(Duration::from_secs(15)));
        for wrong in [at(11).to_string(), at(86_400).to_string(), "yesterday".to_owned(), String::new()] {
            assert!(matches!(turn(Some(&lease(&wrong)), "b", at(0)), Turn::Replace(_)), "{wrong}");
        }
    }
}
