// SPDX-License-Identifier: Apache-2.0
//! Interleaved samples. These machines' speed drifts, so absolute times of different minutes cannot be compared: every round
//! runs every contender once, each on a fresh pod, and a ratio is taken round by round.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;

use crate::contender::Contender;
use crate::pod::PodNamespace;

/// The samples of all contenders, one per round each.
#[derive(Debug)]
pub struct Rounds {
    contenders: Vec<Contender>,
    samples: Vec<Vec<Duration>>,
    taken: Vec<usize>,
}

impl Rounds {
    /// No round yet. The first contender is the one that the others are compared with.
    #[must_use]
    pub fn new(contenders: Vec<Contender>) -> Self {
        let count = contenders.len();
        Self { contenders, samples: vec![Vec::new(); count], taken: vec![0; count] }
    }

    /// The contenders' names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.contenders.iter().map(|contender| contender.name.clone()).collect()
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

    /// One round. The order turns, so that nobody always runs behind the same other.
    pub fn round(&mut self) -> Result<()> {
        let count = self.contenders.len();
        let first = self.samples[0].len();
        for turn in 0..count {
            let index = (first + turn) % count;
            let took = self.contenders[index].set_up(&PodNamespace::create()?)?;
            self.samples[index].push(took);
        }
        Ok(())
    }

    /// A table: times in microseconds and the ratio to the first contender, as medians over rounds.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table =
            String::from("contender | p50 us | p90 us | x floor (median of rounds)\n---|---|---|---\n");
        for (contender, samples) in self.contenders.iter().zip(&self.samples) {
            let ratios = samples
                .iter()
                .zip(&self.samples[0])
                .map(|(own, floor)| own.as_secs_f64() / floor.as_secs_f64());
            let micros = samples.iter().map(|sample| sample.as_secs_f64() * 1e6);
            let micros = sorted(micros.collect());
            let (p50, p90) = (quantile(&micros, 0.5), quantile(&micros, 0.9));
            let ratio = quantile(&sorted(ratios.collect()), 0.5);
            writeln!(table, "{} | {p50:.0} | {p90:.0} | {ratio:.2}", contender.name).ok();
        }
        writeln!(table, "({} rounds)", self.samples[0].len()).ok();
        table
    }
}

/// Sorts figures.
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
    fn a_quantile_is_the_nearest_rank() {
        let values = sorted(vec![3.0, 1.0, 2.0, 5.0, 4.0]);
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.9), quantile(&values, 1.0)), (3.0, 5.0, 5.0));
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
