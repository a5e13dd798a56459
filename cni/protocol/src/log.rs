// SPDX-License-Identifier: Apache-2.0
//! Levels of log lines, and fields of an ADD's last line. The agent's metrics come from these fields: without them a line is only logged.

use crate::netconf::LogLevel;

/// Level of a line. Ordered as [`LogLevel`], the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For debugging.
    Debug,
    /// Event or decision.
    Info,
    /// Works, but needs attention.
    Warn,
    /// The call fails.
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

    /// True if a line of this level passes `threshold`.
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

/// Field of an ADD's last line: an [`AddEnd`]'s name.
pub const RESULT: &str = "result";
/// Field of an ADD's last line: its duration in microseconds.
pub const ADD_MICROS: &str = "add_us";
/// Duration of gathering the pod's facts, in microseconds; absent if nothing was asked.
pub const FACTS_MICROS: &str = "facts_us";
/// Duration of writing the rules, in microseconds; absent if none were written.
pub const APPLY_MICROS: &str = "apply_us";

/// Result of an ADD.
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
