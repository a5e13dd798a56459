// SPDX-License-Identifier: Apache-2.0
//! Hints that are no errors: translated spellings, values that are no longer read, settings of the control plane.

use std::fmt;

use crate::mistake::GivenValue;

/// A hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A former spelling, which was translated.
    Former {
        /// As given.
        old: String,
        /// Present name.
        new: String,
    },
    /// No longer read.
    Unread {
        given: GivenValue,
        why: &'static str,
    },
    /// To be set on the control plane, by other means.
    ControlPlane(Vec<String>),
    Warning(String),
    Plain(String),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Former { old, new } => write!(f, "note: {old} is {new} now"),
            Self::Unread { given, why } => write!(f, "note: {given} has no effect: {why}"),
            Self::ControlPlane(settings) => {
                write!(f, "note: set on the control plane: {}", settings.join(", "))
            }
            Self::Warning(text) => write!(f, "warning: {text}"),
            Self::Plain(text) => write!(f, "note: {text}"),
        }
    }
}
