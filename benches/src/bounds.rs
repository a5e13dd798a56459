// SPDX-License-Identifier: Apache-2.0
//! What a change must not lose. Each bound is a ratio of two contenders of one run, of the rounds that nothing disturbed, and lies so far
//! above what is measured that contention alone does not reach it.

use std::fmt;

/// The most times longer that one contender may take than another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Whose time is bounded.
    pub contender: &'static str,
    /// By whose.
    pub other: &'static str,
    /// The ratio.
    pub most: f64,
}

/// How a bound was kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    bound: Bound,
    measured: f64,
}

impl Bound {
    /// Judges a ratio. One that is not a number is over any bound.
    #[must_use]
    pub fn judge(self, measured: f64) -> Judged {
        Judged { bound: self, measured }
    }
}

impl Judged {
    /// Whether it is kept.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.measured <= self.bound.most
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bound { contender, other, most } = self.bound;
        let verdict = if self.holds() { "holds" } else { "EXCEEDED" };
        write!(f, "bound: {contender} takes {:.4} x {other}, at most {most:.4}: {verdict}", self.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_above_the_bound_exceeds_it() {
        let bound = Bound { contender: "plugin", other: "floor", most: 2.5 };
        assert!(bound.judge(2.5).holds());
        let judged = bound.judge(2.51);
        assert!(!judged.holds());
        assert_eq!(judged.to_string(), "bound: plugin takes 2.5100 x floor, at most 2.5000: EXCEEDED");
        assert!(!bound.judge(f64::NAN).holds());
    }
}
