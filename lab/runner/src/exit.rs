// SPDX-License-Identifier: Apache-2.0
//! What `cnilab`'s exit codes mean: the one table.

use std::process::ExitCode;

/// How a run ended, for whoever only looks at the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was selected ran and holds.
    Ok,
    /// The system under test failed.
    Failed,
    /// The command line is wrong, or selects nothing.
    Usage,
    /// The harness failed: nothing is known about the system under test.
    Inconclusive,
    /// What ran holds, but not everything could run here.
    Partial,
    /// Interrupted by a signal before the end.
    Interrupted,
}

impl Exit {
    /// The process' exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Inconclusive => 3,
            Self::Partial => 4,
            // What a shell reports for SIGINT.
            Self::Interrupted => 130,
        }
    }
}

impl Exit {
    /// What a process' exit code means; nothing if it is none of ours.
    #[must_use]
    pub fn from_code(code: i32) -> Option<Self> {
        [Self::Ok, Self::Failed, Self::Usage, Self::Inconclusive, Self::Partial, Self::Interrupted]
            .into_iter()
            .find(|exit| i32::from(exit.code()) == code)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
