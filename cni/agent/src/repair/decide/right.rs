// SPDX-License-Identifier: Apache-2.0
//! Failures of a pod's validation that say something of its rules. The kubelet goes on starting the validation while the agent repairs, so a
//! run that began before the rules were right can end, and be told of, long after.

use k8s_openapi::jiff::Timestamp;

use super::super::detect::ValidationRun;

/// Number of runs that can have begun before the rules were correct and be reported afterwards: the one in progress, and one that the watch
/// had not reported. Bounds what a clock that was put back can hide.
const BEGUN_BEFORE: i32 = 2;

/// Since when the rules of a pod are known to be correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Right {
    /// By the node's clock, which is the kubelet's as well.
    since: Timestamp,
    /// Restarts of the validation that were reported until then.
    restarts: i32,
}

impl Right {
    pub(super) fn new(since: Timestamp, run: Option<&ValidationRun>) -> Self {
        Self { since, restarts: run.map_or(0, |run| run.restarts) }
    }

    /// True unless the run certainly began before that, with other rules. The API tells seconds: a run that began in the very second says
    /// nothing either.
    pub(super) fn may_come_after(&self, run: &ValidationRun) -> bool {
        let began = run.started.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
        let is_one_of_them = run.restarts.saturating_sub(self.restarts) <= BEGUN_BEFORE;
        is_one_of_them && began.is_some_and(|began| began.as_second() <= self.since.as_second())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(restarts: i32, started: Option<&str>) -> ValidationRun {
        ValidationRun { restarts, started: started.map(str::to_owned), finished: None }
    }

    #[test]
    fn only_a_run_that_began_in_a_later_second_tells_of_the_rules() {
        let right = Right::new("2026-01-01T00:00:05.4Z".parse().unwrap(), Some(&run(1, None)));
        for (run, expected) in [
            (run(2, Some("2026-01-01T00:00:04Z")), true),
            // Began at 5.0 or at 5.9.
            (run(2, Some("2026-01-01T00:00:05Z")), true),
            (run(2, Some("2026-01-01T00:00:06Z")), false),
            (run(2, None), false),
            (run(2, Some("nonsense")), false),
            (run(3, Some("2026-01-01T00:00:04Z")), true),
            // The clock was put back: no such run can be so old.
            (run(4, Some("2026-01-01T00:00:04Z")), false),
        ] {
            assert_eq!(right.may_come_after(&run), expected, "{run:?}");
        }
    }
}
