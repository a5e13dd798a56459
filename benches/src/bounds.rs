// SPDX-License-Identifier: Apache-2.0
//! Regression gate: upper bounds on ratios of two contenders of one run, taken at the tenth percentile and far enough above the usual
//! figures that contention alone does not reach them.

use std::fmt;

/// Upper bound on the ratio of two contenders' times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    pub contender: &'static str,
    pub other: &'static str,
    pub most: f64,
}

/// A bound and the measured ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    bound: Bound,
    measured: f64,
}

impl Bound {
    /// NaN exceeds any bound.
    #[must_use]
    pub fn judge(self, measured: f64) -> Judged {
        Judged { bound: self, measured }
    }
}

impl Judged {
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
