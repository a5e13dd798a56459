// SPDX-License-Identifier: Apache-2.0
//! Interleaved samples. These machines' speed drifts, so absolute times of different minutes cannot be compared: every round
//! runs every contender once, each on a fresh pod, and a ratio is taken round by round.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;

use crate::bounds::{Bound, Judged};
use crate::contender::SetUp;
use crate::pod::PodNamespace;

/// The samples of all contenders, one per round each.
pub struct Rounds {
    contenders: Vec<Box<dyn SetUp>>,
    shuffle: Shuffle,
    samples: Vec<Vec<Duration>>,
    taken: Vec<usize>,
}

impl Rounds {
    /// No round yet. The first contender is the one that the others are compared with.
    #[must_use]
    pub fn new(contenders: Vec<Box<dyn SetUp>>) -> Self {
        let count = contenders.len();
        Self {
            contenders,
            shuffle: Shuffle::default(),
            samples: vec![Vec::new(); count],
            taken: vec![0; count],
        }
    }

    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.contenders.iter().map(|contender| contender.name().to_owned()).collect()
    }

    /// The sum of the next `count` samples of one contender; runs more rounds (of all of them) where there are too few.
    pub fn take(&mut self, contender: usize, count: u64) -> Result<Duration> {
        let mut total = Duration::ZERO;
        for _ in 0..count {
            if self.taken[contender] == self.samples[contender].len() {
                self.round()?;
            }
            total += self.samples[contender][self.taken[contender]];
            self.taken[contender] += 1;
        }
        Ok(total)
    }

    /// One round. The order changes, so that nobody always runs behind the same other, whose namespace the kernel still takes apart.
    pub fn round(&mut self) -> Result<()> {
        for index in self.shuffle.order(self.contenders.len()) {
            let took = self.contenders[index].set_up(&PodNamespace::create()?)?;
            self.samples[index].push(took);
        }
        Ok(())
    }

    /// Number of rounds.
    #[must_use]
    pub fn count(&self) -> usize {
        self.samples.first().map_or(0, Vec::len)
    }

    /// Microseconds of one contender, sorted.
    #[must_use]
    pub fn micros(&self, contender: usize) -> Vec<f64> {
        sorted(self.samples[contender].iter().map(|sample| sample.as_secs_f64() * 1e6).collect())
    }

    /// Median ratio of one contender to another over all rounds.
    #[must_use]
    pub fn ratio(&self, contender: usize, other: usize) -> f64 {
        let pairs = self.samples[contender].iter().zip(&self.samples[other]);
        quantile(&sorted(pairs.map(|(one, other)| one.as_secs_f64() / other.as_secs_f64()).collect()), 0.5)
    }

    /// Ratio of the tenth percentiles, which contention hardly moves; `None` if a contender did not take part.
    #[must_use]
    pub fn judge(&self, bound: Bound) -> Option<Judged> {
        let undisturbed = |name| {
            let index = self.contenders.iter().position(|contender| contender.name() == name)?;
            Some(quantile(&self.micros(index), 0.1))
        };
        Some(bound.judge(undisturbed(bound.contender)? / undisturbed(bound.other)?))
    }

    /// A table: times in microseconds and the ratio to the first contender, as medians over rounds.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table =
            String::from("contender | p50 us | p90 us | x floor (median of rounds)\n---|---|---|---\n");
        for (index, contender) in self.contenders.iter().enumerate() {
            let micros = self.micros(index);
            let (p50, p90) = (quantile(&micros, 0.5), quantile(&micros, 0.9));
            writeln!(table, "{} | {p50:.0} | {p90:.0} | {:.2}", contender.name(), self.ratio(index, 0)).ok();
        }
        writeln!(table, "({} rounds)", self.count()).ok();
        table
    }
}

/// A different order for each round, the same in every run.
pub struct Shuffle(u64);

impl Default for Shuffle {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Shuffle {
    /// Permutation of the numbers below `count`.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for end in (1..count).rev() {
            // xorshift64
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let below = u64::try_from(end).unwrap_or(u64::MAX) + 1;
            order.swap(end, usize::try_from(self.0 % below).unwrap_or(end));
        }
        order
    }
}

#[must_use]
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The value at a quantile (0..=1) of sorted figures, by nearest rank; 0 for none.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small counts"
)]
pub fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    let rank = (sorted.len().saturating_sub(1) as f64 * quantile).round() as usize;
    sorted.get(rank).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_contender_once_and_rounds_differ() {
        let mut shuffle = Shuffle::default();
        let rounds: Vec<_> = (0..20).map(|_| shuffle.order(7)).collect();
        for round in &rounds {
            let mut all = round.clone();
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5, 6]);
        }
        let first: std::collections::BTreeSet<_> = rounds.iter().map(|round| round[0]).collect();
        assert!(first.len() > 4, "{rounds:?}");
    }

    #[test]
    fn a_quantile_is_the_nearest_rank() {
        let values = sorted(vec![3.0, 1.0, 2.0, 5.0, 4.0]);
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.9), quantile(&values, 1.0)), (3.0, 5.0, 5.0));
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
