// SPDX-License-Identifier: Apache-2.0
//! Bounds on time: what the process under test took, but for what it waited for a core itself. What anything else on the machine waited
//! excuses nothing.

use std::time::Duration;

use cluster::CniAnswer;

use crate::stop::{Step, Stop};

/// Time that processes under test took, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// From start to end.
    pub took: Duration,
    /// Part of that without a core.
    pub waited: Duration,
}

impl Spent {
    /// Time of these runs.
    #[must_use]
    pub fn of<'a>(answers: impl IntoIterator<Item = &'a CniAnswer>) -> Self {
        answers.into_iter().fold(Self::default(), |sum, answer| Self {
            took: sum.took + answer.took,
            waited: sum.waited + answer.waited,
        })
    }

    /// Checks that no more than `limit` was spent.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub fn within(self, limit: Duration) -> Step {
        let Self { took, waited } = self;
        if took.saturating_sub(waited) <= limit {
            return Ok(());
        }
        Err(Stop::wrong(format!(
            "it took {took:.3?}, {waited:.3?} of that without a core: more than {limit:?}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_process_itself_waited_is_excused() {
        let limit = Duration::from_secs(3);
        let spent =
            |took, waited| Spent { took: Duration::from_secs(took), waited: Duration::from_secs(waited) };
        assert!(spent(3, 0).within(limit).is_ok());
        assert!(spent(9, 6).within(limit).is_ok());
        let late = spent(9, 5).within(limit).unwrap_err().to_string();
        assert!(late.contains("9.000s") && late.contains("5.000s"), "{late}");
    }
}
