// SPDX-License-Identifier: Apache-2.0
//! Elapsed time on a busy machine: a bound is about the system under test, so waiting for a core and CPU steal are allowed for.

use std::fs;
use std::time::{Duration, Instant};

use crate::stop::{Step, Stop};

/// Elapsed time.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    lost: Duration,
}

impl Stopwatch {
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now(), lost: lost() }
    }

    /// Checks that no more than `limit` has passed, plus CPU contention and steal in between, for as much again at most.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn within(&self, limit: Duration) -> Step {
        let took = self.started.elapsed();
        let lost = lost().saturating_sub(self.lost).min(limit);
        if took <= limit + lost {
            return Ok(());
        }
        Err(Stop::wrong(format!("it took {took:.1?}, more than {limit:?} and {lost:.1?} without a core")))
    }
}

/// Since the machine was started: how long something waited for a core, and how long each core was another machine's. Zero where the
/// kernel does not tell.
fn lost() -> Duration {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    waited(&read("/proc/pressure/cpu")) + stolen(&read("/proc/stat"))
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=33582189180`, in microseconds (Documentation/accounting/psi.rst).
fn waited(pressure: &str) -> Duration {
    let some = pressure.lines().find(|line| line.starts_with("some "));
    let total = some.and_then(|line| line.rsplit_once("total=")?.1.parse().ok());
    Duration::from_micros(total.unwrap_or_default())
}

/// The eighth number behind `cpu`, in hundredths of a second of all cores together (proc_stat(5)).
fn stolen(stat: &str) -> Duration {
    let cores = stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1).max(1);
    let ticks = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
    Duration::from_millis(ticks.unwrap_or(0_u64) * 10) / u32::try_from(cores).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_is_read() {
        let pressure = "some avg10=0.00 avg60=14.90 avg300=36.77 total=2500000\nfull avg10=0.00 total=7\n";
        assert_eq!((waited(pressure), waited("")), (Duration::from_millis(2500), Duration::ZERO));
        let stat =
            "cpu  1 2 3 4 5 6 7 300 0 0\ncpu0 1 2 3 4 5 6 7 100 0 0\ncpu1 1 2 3 4 5 6 7 200 0 0\nintr 9\n";
        assert_eq!((stolen(stat), stolen("")), (Duration::from_millis(1500), Duration::ZERO));
    }

    #[test]
    fn what_the_machine_lost_excuses_no_more_than_the_limit_once_more() {
        let limit = Duration::from_secs(3);
        let watch = |ago: u64| Stopwatch {
            started: Instant::now().checked_sub(Duration::from_secs(ago)).unwrap(),
            lost: Duration::ZERO,
        };
        assert!(watch(2).within(limit).is_ok());
        assert!(watch(7).within(limit).is_err(), "whatever the machine has lost since its start");
    }
}
