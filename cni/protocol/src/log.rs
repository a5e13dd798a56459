// SPDX-License-Identifier: Apache-2.0
//! How much a log line matters.

use crate::netconf::LogLevel;

/// How much a line matters. Ordered as [`LogLevel`], which says from where on lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever looks closely.
    Debug,
    /// What happened, or was decided.
    Info,
    /// Works, but somebody should look.
    Warn,
    /// It ends here: the call fails.
    Error,
}

impl Level {
    /// The name in a line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// Whether a line of this level is shown from `threshold` on.
    #[must_use]
    pub fn reaches(self, threshold: LogLevel) -> bool {
        let own = match self {
            Self::Debug => LogLevel::Debug,
            Self::Info => LogLevel::Info,
            Self::Warn => LogLevel::Warn,
            Self::Error => LogLevel::Error,
        };
        own >= threshold
    }
}
