// SPDX-License-Identifier: Apache-2.0
//! Accounts with the chart's rights, and what they were denied.

use cluster::LabError;

use crate::tier::Tier;

/// An account of the chart, as far as its denied requests fail a scenario at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Account {
    /// Nothing of it is applied.
    #[default]
    Absent,
    /// This user may be denied nothing.
    Judged(String),
    /// A step used its token, or took its rights: only this user's requests of an [`order`](cluster::Asked::order) below this one count.
    Tried(String, u64),
}

impl Account {
    /// True if it was applied.
    #[must_use]
    pub fn is_there(&self) -> bool {
        *self != Self::Absent
    }

    /// Its objects are applied: it is this user's.
    pub fn applied(&mut self, user: String) {
        if *self == Self::Absent {
            *self = Self::Judged(user);
        }
    }

    /// A step uses its token, or takes its rights.
    pub fn tried(&mut self, tier: &Tier) {
        if let Self::Judged(user) = self {
            let last = tier.front().ok().and_then(|front| front.requests().pop());
            *self = Self::Tried(std::mem::take(user), last.map_or(0, |one| one.order + 1));
        }
    }

    /// Denied requests that count.
    ///
    /// # Errors
    /// Nobody stands before the API server.
    pub fn denied(&self, tier: &Tier) -> Result<Vec<String>, LabError> {
        match self {
            Self::Absent => Ok(Vec::new()),
            Self::Judged(user) => tier.denials(&|one| one.user == *user),
            Self::Tried(user, until) => tier.denials(&|one| one.user == *user && one.order < *until),
        }
    }
}
