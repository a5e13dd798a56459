// SPDX-License-Identifier: Apache-2.0
//! Exit codes of `cnilab`: the one table.

use std::process::ExitCode;

/// Result of a run as an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Every selected scenario ran and passed.
    Ok,
    /// The system under test failed.
    Failed,
    /// The command line is wrong, or selects nothing.
    Usage,
    /// The harness failed: nothing is known about the system under test.
    Inconclusive,
    /// Everything that ran passed, but not all could run here.
    Partial,
    /// Nothing failed each time or was inconclusive, and a scenario did not pass each time.
    Flaky,
    /// Interrupted by a signal before the end.
    Interrupted,
}

impl Exit {
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Inconclusive => 3,
            Self::Partial => 4,
            Self::Flaky => 5,
            // A shell's exit code for SIGINT.
            Self::Interrupted => 130,
        }
    }
}

impl Exit {
    /// Word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Inconclusive => "inconclusive",
            Self::Partial => "partial",
            Self::Flaky => "flaky",
            Self::Interrupted => "interrupted",
        }
    }

    /// Meaning of a process' exit code; `None` if it is not one of ours.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        let all = [
            Self::Ok,
            Self::Failed,
            Self::Usage,
            Self::Inconclusive,
            Self::Partial,
            Self::Flaky,
            Self::Interrupted,
        ];
        all.into_iter().find(|exit| i32::from(exit.code()) == code)
    }
}

/// A wrong command line, as an error or as the argument that an error is about: ends with [`Exit::Usage`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// An error that says itself what is wrong.
    #[must_use]
    pub fn of(error: &anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
