// SPDX-License-Identifier: Apache-2.0
//! Validation errors, all of them at once: the field, its value, and permitted values.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

/// A field with its given value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenValue {
    /// Name as given.
    pub field: String,
    pub value: Value,
}

impl GivenValue {
    #[must_use]
    pub fn new(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { field: field.into(), value: value.into() }
    }
}

impl fmt::Display for GivenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.value)
    }
}

/// A validation error.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mistake {
    /// Malformed document.
    #[error("{what}: {why}")]
    Document {
        /// Name of the input.
        what: String,
        /// Parser's error.
        why: String,
    },
    /// Unknown field.
    #[error("{given}: there is no such value{}", meant(.nearest.as_deref()))]
    Unknown {
        given: GivenValue,
        /// Nearest known field.
        nearest: Option<String>,
    },
    /// Value of the wrong kind.
    #[error("{given}: must be {wanted}")]
    Wrong {
        given: GivenValue,
        /// Permitted values.
        wanted: String,
    },
    /// Unknown name of an enumeration.
    #[error("{given}: unknown; known are {}", known.join(", "))]
    Name {
        given: GivenValue,
        /// Known names.
        known: Vec<&'static str>,
    },
    /// Two spellings of one value that differ.
    #[error("{one} and {other} are one value: give it once")]
    Both { one: GivenValue, other: GivenValue },
    /// Two values that contradict each other.
    #[error("{one} contradicts {other}: {why}")]
    Contradiction {
        one: GivenValue,
        other: GivenValue,
        /// Reason and remedy.
        why: String,
    },
    /// The image is missing or incomplete.
    #[error("{given}: names no image: {why}")]
    Image {
        given: GivenValue,
        /// Reason and remedy.
        why: &'static str,
    },
    /// A key reserved for the chart itself.
    #[error("{field}: not to be set; {instead}")]
    Reserved {
        field: String,
        /// Remedy.
        instead: &'static str,
    },
}

fn meant(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    /// Nothing, if nothing is wrong.
    ///
    /// # Errors
    /// Itself, if anything is wrong.
    pub fn none(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Unwraps a result, and collects its errors.
    pub fn keep<T>(&mut self, result: Result<T, Self>) -> Option<T> {
        result.map_err(|mistakes| self.0.extend(mistakes.0)).ok()
    }
}

impl From<Mistake> for Mistakes {
    fn from(mistake: Mistake) -> Self {
        Self(vec![mistake])
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Mistakes {}
