// SPDX-License-Identifier: Apache-2.0
//! Throttled and stalled machines (a cgroup's quota, a hypervisor that gives its processors to others): a product that is late there is not wrong.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::board;

/// Time between two beats. One that is late by less is none of a machine that stands still.
const BEAT: Duration = Duration::from_millis(20);
/// Work of one measurement, in time of a processor.
const WORK: Duration = Duration::from_millis(10);
const MEASUREMENTS: usize = 3;
/// Least factor that counts: beside a compiler on each core work takes two or three times as long.
const SLOW: u32 = 4;
const SLOWEST: u32 = 20;

static STALLED: AtomicU64 = AtomicU64::new(0);

/// Factor of deadlines, measured once: how much longer than in a processor's time a little work took, the best of three; 1 for less than four times.
pub fn patience() -> u32 {
    static MEASURED: OnceLock<u32> = OnceLock::new();
    *MEASURED.get_or_init(|| (0..MEASUREMENTS).map(|_| factor(work(), WORK)).min().unwrap_or(1))
}

fn factor(took: Duration, work: Duration) -> u32 {
    let times = took.as_secs_f64() / work.as_secs_f64();
    let whole = (0..=SLOWEST).rev().find(|factor| f64::from(*factor) <= times);
    whole.filter(|factor| *factor >= SLOW).unwrap_or(1)
}

/// Works for so long as a processor counts it; says how long that took.
fn work() -> Duration {
    let spent = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
    let (began, before) = (Instant::now(), spent());
    while spent().saturating_sub(before) < WORK {}
    began.elapsed()
}

/// Measures the machine, tells if it is slow, and begins to count the time in which it stands still.
pub fn watch() {
    if patience() > 1 {
        board::say(&format!("this machine is slow: deadlines are {} times as long", patience()));
    }
    thread::spawn(|| {
        loop {
            let began = Instant::now();
            tick();
            let late = began.elapsed().saturating_sub(BEAT);
            if late > BEAT {
                STALLED.fetch_add(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "a clock that ticks: nothing waits for it")]
fn tick() {
    thread::sleep(BEAT);
}

/// Time that it stood still since [`watch`].
pub fn stalled() -> Duration {
    Duration::from_micros(STALLED.load(Ordering::Relaxed))
}

/// Reason of `inconclusive` in place of `fail`, if `stalled` is more than half of `took`.
pub fn excuse(stalled: Duration, took: Duration) -> Option<String> {
    (stalled * 2 > took).then(|| {
        format!("for {stalled:.1?} of {took:.1?} no processor was to be had: a machine that stands still decides nothing")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_grow_where_work_takes_four_times_as_long() {
        let took = |milliseconds| factor(Duration::from_millis(milliseconds), WORK);
        assert_eq!([10, 25, 39].map(took), [1, 1, 1]);
        assert_eq!([40, 57, 160, 5000].map(took), [4, 5, 16, SLOWEST]);
        assert!(work() >= WORK);
    }

    #[test]
    fn a_failure_is_excused_only_where_the_machine_stood_still_for_more_than_half_of_it() {
        let seconds = Duration::from_secs;
        assert_eq!((excuse(seconds(0), seconds(5)), excuse(seconds(5), seconds(10))), (None, None));
        let why = excuse(seconds(6), seconds(10)).unwrap();
        assert!(why.contains("6.0s of 10.0s"), "{why}");
    }
}
