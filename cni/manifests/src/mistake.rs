// SPDX-License-Identifier: Apache-2.0
//! What is wrong with what an operator gave, all of it at once: the field, its value, and what it may be.

use std::fmt;

use serde_json::Value;
use thiserror::Error;

/// A field and what was given for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its name, as it was given.
    pub field: String,
    /// Its value.
    pub value: Value,
}

impl Given {
    /// A field with its value.
    #[must_use]
    pub fn new(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { field: field.into(), value: value.into() }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.value)
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Mistake {
    /// The text is no document of the kind that is wanted.
    #[error("{what}: {why}")]
    Document {
        /// What was read.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such value.
    #[error("{given}: there is no such value{}", meant(.nearest.as_deref()))]
    Unknown {
        /// What was given.
        given: Given,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A value that this field cannot hold.
    #[error("{given}: must be {wanted}")]
    Wrong {
        /// What was given.
        given: Given,
        /// What it may be.
        wanted: String,
    },
    /// A name of which there are a few.
    #[error("{given}: unknown; known are {}", known.join(", "))]
    Name {
        /// What was given.
        given: Given,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// Two spellings of one value that do not agree.
    #[error("{one} and {other} are one value: give it once")]
    Both {
        /// The first.
        one: Given,
        /// The second.
        other: Given,
    },
    /// Two values that cannot stand together.
    #[error("{one} contradicts {other}: {why}")]
    Contradiction {
        /// The first.
        one: Given,
        /// The second.
        other: Given,
        /// Why, and what to do.
        why: String,
    },
    /// No image is named, or half of one.
    #[error("{given}: names no image: {why}")]
    Image {
        /// What was given, and is not enough.
        given: Given,
        /// What is lacking, and what to do.
        why: &'static str,
    },
    /// A key that is not for operators.
    #[error("{field}: not to be set; {instead}")]
    Reserved {
        /// Its name.
        field: String,
        /// What to do instead.
        instead: &'static str,
    },
}

fn meant(name: Option<&str>) -> String {
    name.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Everything that is wrong, one line each.
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

    /// Takes what came of something, and keeps its mistakes.
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
