// SPDX-License-Identifier: Apache-2.0
//! Why a step stopped its scenario. cucumber knows only a panic's text, so the class travels as the text's first words.

use std::fmt;

use cluster::LabError;

use crate::verdict::{Class, Verdict};

/// Result of a step.
pub type Step = Result<(), Stop>;

/// Failure of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The system under test violates the step.
    Wrong(String),
    /// The tier cannot do it; nothing is known about the system under test.
    Inapplicable(String),
    /// The cluster lacks something; nothing is known about the system under test.
    Unmet(String),
    /// The system under test has no such setting, and does not claim it.
    Unsupported(String),
    /// The harness failed; nothing is known about the system under test.
    Harness(String),
}

const WRONG: &str = "wrong: ";
const INAPPLICABLE: &str = "inapplicable: ";
const UNMET: &str = "unmet: ";
const UNSUPPORTED: &str = "unsupported: ";
const HARNESS: &str = "inconclusive: ";

impl Stop {
    /// The system under test violates the step.
    pub fn wrong(reason: impl Into<String>) -> Self {
        Self::Wrong(reason.into())
    }

    pub fn harness(reason: impl fmt::Display) -> Self {
        Self::Harness(reason.to_string())
    }

    /// The verdict, whose it is, and the reason in a panic's text. A panic that no step made is the harness' own.
    #[must_use]
    pub fn classify(text: &str) -> (Verdict, Option<Class>, String) {
        let classes = [
            (WRONG, Verdict::Fail, Some(Class::Product)),
            (INAPPLICABLE, Verdict::Inapplicable, Some(Class::Tier)),
            (UNMET, Verdict::Inapplicable, Some(Class::Cluster)),
            (UNSUPPORTED, Verdict::Unsupported, Some(Class::Product)),
            (HARNESS, Verdict::Inconclusive, None),
        ];
        classes
            .into_iter()
            .find_map(|(prefix, verdict, class)| {
                Some((verdict, class, text.strip_prefix(prefix)?.to_owned()))
            })
            .unwrap_or_else(|| (Verdict::Inconclusive, None, format!("a step panicked: {text}")))
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(reason) => write!(out, "{WRONG}{reason}"),
            Self::Inapplicable(reason) => write!(out, "{INAPPLICABLE}{reason}"),
            Self::Unmet(reason) => write!(out, "{UNMET}{reason}"),
            Self::Unsupported(reason) => write!(out, "{UNSUPPORTED}{reason}"),
            Self::Harness(reason) => write!(out, "{HARNESS}{reason}"),
        }
    }
}

impl From<LabError> for Stop {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Unsupported { .. } => Self::Inapplicable(error.to_string()),
            LabError::Unmet(_) => Self::Unmet(error.to_string()),
            // A missing event is a failure of the system under test.
            LabError::Deadline { .. } => Self::Wrong(error.to_string()),
            LabError::Harness { .. } => Self::Harness(error.to_string()),
        }
    }
}

/// Fails with the reason where the system under test does not do what it should.
pub fn expect<S: Into<String>>(holds: bool, why: impl FnOnce() -> S) -> Step {
    if holds { Ok(()) } else { Err(Stop::wrong(why())) }
}

/// Compares the observation with the step's expectation.
pub fn expect_eq<T: PartialEq + fmt::Debug>(what: &str, found: &T, wanted: &T) -> Step {
    expect(found == wanted, || format!("{what} is {found:?}, not {wanted:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_survives_the_way_through_a_panic() {
        for (stop, verdict, class) in [
            (Stop::wrong("x"), Verdict::Fail, Some(Class::Product)),
            (Stop::Inapplicable("x".into()), Verdict::Inapplicable, Some(Class::Tier)),
            (Stop::Unmet("x".into()), Verdict::Inapplicable, Some(Class::Cluster)),
            (Stop::Unsupported("x".into()), Verdict::Unsupported, Some(Class::Product)),
            (Stop::harness("x"), Verdict::Inconclusive, None),
        ] {
            assert_eq!(Stop::classify(&stop.to_string()), (verdict, class, "x".to_owned()));
        }
    }

    #[test]
    fn a_foreign_panic_is_the_harness_own() {
        assert_eq!(Stop::classify("index out of bounds").0, Verdict::Inconclusive);
    }

    #[test]
    fn a_deadline_is_a_failure_and_a_harness_error_is_not() {
        let late = LabError::Deadline { what: "start".into(), deadline: std::time::Duration::from_secs(1) };
        assert!(matches!(Stop::from(late), Stop::Wrong(_)));
        let broken = LabError::harness("make a veth", "EPERM");
        assert!(matches!(Stop::from(broken), Stop::Harness(_)));
    }
}
