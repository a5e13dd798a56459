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
    /// A step used its token, or took its rights: what it was denied before counts alone.
    Tried(Vec<String>),
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
    ///
    /// # Errors
    /// Those of [`Account::denied`], unless nobody stands before the API server.
    pub fn tried(&mut self, tier: &Tier) -> Result<(), LabError> {
        *self = Self::Tried(match self.denied(tier) {
            Err(LabError::Unsupported { .. }) => Vec::new(),
            denied => denied?,
        });
        Ok(())
    }

    /// What it was denied, as far as it counts.
    ///
    /// # Errors
    /// Nobody stands before the API server.
    pub fn denied(&self, tier: &Tier) -> Result<Vec<String>, LabError> {
        match self {
            Self::Absent => Ok(Vec::new()),
            Self::Judged(user) => tier.denials(&|one| one.user == *user),
            Self::Tried(before) => Ok(before.clone()),
        }
    }
}
