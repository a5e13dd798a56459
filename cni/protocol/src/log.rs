// SPDX-License-Identifier: Apache-2.0
//! How much a log line matters, and what an ADD's last line says of how it went. The agent counts from that: a plugin that says nothing of
//! it is only logged.

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

/// Field of an ADD's last line: what it came to, an [`AddEnd`]'s name.
pub const RESULT: &str = "result";
/// Field of an ADD's last line: how long it took, in microseconds.
pub const ADD_MICROS: &str = "add_us";
/// How long the pod's facts took, from the first question on, in microseconds; left out if nobody was asked.
pub const FACTS_MICROS: &str = "facts_us";
/// How long the rules took, in microseconds; left out if it did not come to that.
pub const APPLY_MICROS: &str = "apply_us";

/// What an ADD came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddEnd {
    /// The pod's traffic is redirected.
    Redirected,
    /// The pod is left alone.
    Skipped,
    /// It failed.
    Failed,
}

impl AddEnd {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Redirected, Self::Skipped, Self::Failed];

    /// The name in a line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redirected => "redirected",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}
