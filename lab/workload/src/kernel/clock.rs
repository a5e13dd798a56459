// SPDX-License-Identifier: Apache-2.0
//! Clocks that run faster: times that a program reads, and time-outs that it waits for. Pure.

use std::num::NonZeroU32;
use std::time::Duration;

use nix::libc::{self, clockid_t};

/// Number of nanoseconds in a second.
pub const SECOND: i128 = 1_000_000_000;

/// A clock of the kernel that is not a process' own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    Realtime,
    /// With those that begin or stop elsewhere, as they run alike: each keeps its own beginning.
    Monotonic(clockid_t),
}

impl Clock {
    /// Clock of this number; `None` for times that a process or a thread used.
    #[must_use]
    pub fn of(number: u64) -> Option<Self> {
        match clockid_t::try_from(number).ok()? {
            libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_REALTIME_ALARM => {
                Some(Self::Realtime)
            }
            id @ (libc::CLOCK_MONOTONIC | libc::CLOCK_MONOTONIC_RAW) => Some(Self::Monotonic(id)),
            libc::CLOCK_MONOTONIC_COARSE => Some(Self::Monotonic(libc::CLOCK_MONOTONIC)),
            libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => Some(Self::Monotonic(libc::CLOCK_BOOTTIME)),
            _ => None,
        }
    }

    /// The kernel's number.
    #[must_use]
    pub fn number(self) -> clockid_t {
        match self {
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Monotonic(id) => id,
        }
    }
}

/// How fast the time of a program passes, and since when: nanoseconds of a clock when the program began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    pub times: NonZeroU32,
    pub began: i128,
}

impl Pace {
    fn times(self) -> i128 {
        i128::from(self.times.get())
    }

    /// The program's time at this time of the clock.
    #[must_use]
    pub fn shown(self, real: i128) -> i128 {
        self.began + (real - self.began) * self.times()
    }

    /// Time of the clock at this time of the program.
    #[must_use]
    pub fn real(self, shown: i128) -> i128 {
        if shown <= self.began { shown } else { self.began + shorter(shown - self.began, self.times) }
    }
}

/// A time-out of the program in the clock's time: never zero, which would be none, unless it is zero.
#[must_use]
pub fn shorter(time: i128, times: NonZeroU32) -> i128 {
    let times = i128::from(times.get());
    if time <= 0 { time } else { (time + times - 1) / times }
}

/// A time-out in milliseconds, as polls have it; negative ones never end.
#[must_use]
pub fn shorter_millis(register: u64, times: NonZeroU32) -> u64 {
    let millis = register as u32 as i32;
    let shortened = shorter(i128::from(millis), times);
    i32::try_from(shortened).unwrap_or(millis) as u32 as u64
}

/// Nanoseconds of a `struct timespec` (`unit` 1) or a `struct timeval` (`unit` 1000); `None` of a malformed one, which the kernel rejects.
#[must_use]
pub fn decode(bytes: [u8; 16], unit: i128) -> Option<i128> {
    let (seconds, rest) = bytes.split_at(8);
    let number = |part: &[u8]| part.try_into().ok().map(i64::from_ne_bytes);
    let (seconds, rest) = (number(seconds)?, number(rest)?);
    let whole = seconds >= 0 && (0..SECOND).contains(&(i128::from(rest) * unit));
    whole.then(|| i128::from(seconds) * SECOND + i128::from(rest) * unit)
}

/// The reverse of [`decode`], rounded up.
#[must_use]
pub fn encode(nanos: i128, unit: i128) -> [u8; 16] {
    let nanos = (nanos + unit - 1) / unit * unit;
    let seconds = i64::try_from(nanos.div_euclid(SECOND)).unwrap_or(i64::MAX);
    let rest = i64::try_from(nanos.rem_euclid(SECOND) / unit).unwrap_or_default();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seconds.to_ne_bytes());
    bytes[8..].copy_from_slice(&rest.to_ne_bytes());
    bytes
}

/// Nanoseconds of a duration.
#[must_use]
pub fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: NonZeroU32 = NonZeroU32::new(10).unwrap();

    #[test]
    fn a_time_is_shown_later_and_asked_for_earlier() {
        let pace = Pace { times: TEN, began: 100 * SECOND };
        assert_eq!(pace.shown(100 * SECOND), 100 * SECOND);
        assert_eq!(pace.shown(115 * SECOND), 250 * SECOND);
        for real in [100 * SECOND, 115 * SECOND, 115 * SECOND + 7] {
            assert_eq!(pace.real(pace.shown(real)), real);
        }
        assert_eq!(pace.real(99 * SECOND), 99 * SECOND, "what is over is over");
    }

    #[test]
    fn a_time_out_is_shorter_and_stays_one() {
        assert_eq!(shorter(150 * SECOND, TEN), 15 * SECOND);
        assert_eq!((shorter(1, TEN), shorter(0, TEN)), (1, 0));
        let millis = |millis: i32| shorter_millis(u64::from(millis as u32), TEN) as u32 as i32;
        assert_eq!((millis(1000), millis(11), millis(1), millis(0), millis(-1)), (100, 2, 1, 0, -1));
    }

    #[test]
    fn both_structures_are_read_and_written() {
        for (nanos, unit) in [(1_500_000_000, 1), (1_500_000_000, 1000), (0, 1), (1, 1)] {
            assert_eq!(decode(encode(nanos, unit), unit), Some(nanos));
        }
        assert_eq!(decode(encode(1, 1000), 1000), Some(1000), "rounded up");
        let mut wrong = encode(0, 1);
        wrong[8..].copy_from_slice(&(-1_i64).to_ne_bytes());
        assert_eq!(decode(wrong, 1), None);
    }

    #[test]
    fn times_that_a_process_used_are_its_own() {
        assert_eq!(Clock::of(0), Some(Clock::Realtime));
        assert_eq!(Clock::of(6), Clock::of(1));
        assert_eq!(Clock::of(libc::CLOCK_PROCESS_CPUTIME_ID as u64), None);
        assert_eq!(Clock::of(u64::MAX), None);
    }
}
