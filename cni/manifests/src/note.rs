// SPDX-License-Identifier: Apache-2.0
//! What an operator should know although nothing is wrong: translated spellings, what nothing reads any more, what is not set here.

use std::fmt;

use crate::mistake::Given;

/// One thing to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// A former spelling, which was translated.
    Former {
        /// As it was given.
        old: String,
        /// What it is called now.
        new: String,
    },
    /// Nothing reads it any more.
    Unread {
        /// What was given.
        given: Given,
        /// Why.
        why: &'static str,
    },
    /// To be set on the control plane, by other means.
    ControlPlane(Vec<String>),
    /// Something that will not work as one may expect.
    Warning(String),
    /// Anything else.
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
