// SPDX-License-Identifier: Apache-2.0
//! A value that is none: which key, what was said and by whom, what is allowed, and what happens instead.

use std::fmt;

use super::kind::Problem;
use super::layers::{Origin, SettingValue};
use manifests::setting::Setting;

/// Substitute for a malformed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// This value is in effect.
    Holds(String),
    /// Our entry is not written: there is no safe guess.
    NoEntry,
}

/// A malformed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The key.
    pub key: &'static Setting,
    /// Malformed value, and its origin.
    pub value: SettingValue,
    /// Description of allowed values.
    pub problem: Problem,
    /// Substitute.
    pub instead: Instead,
}

impl Mistake {
    /// True if it blocks our entry.
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
