// SPDX-License-Identifier: Apache-2.0
//! A value that is none: which key, what was said and by whom, what is allowed, and what happens instead.

use std::fmt;

use super::key::Key;
use super::kind::Problem;
use super::layers::{Origin, Value};

/// What happens instead of following a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// This value holds.
    Holds(String),
    /// Our entry is not written: nobody can guess what was meant.
    NoEntry,
}

/// A value that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The key.
    pub key: &'static Key,
    /// What was said.
    pub value: Value,
    /// What is allowed.
    pub problem: Problem,
    /// What happens instead.
    pub instead: Instead,
}

impl Mistake {
    /// Whether our entry cannot be written before this is put right.
    #[must_use]
    pub fn blocks(&self) -> bool {
        self.instead == Instead::NoEntry
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, problem, instead } = self;
        match value.origin {
            Origin::Flag => write!(f, "--{}={:?}", key.name, value.text)?,
            origin => write!(f, "{}={:?} from {origin}", key.variable(), value.text)?,
        }
        write!(f, " is not usable: {problem}; ")?;
        match instead {
            Instead::Holds(value) => write!(f, "{value:?} holds instead"),
            Instead::NoEntry => f.write_str("the CNI configuration is left as it is until this is put right"),
        }
    }
}
