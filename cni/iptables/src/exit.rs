// SPDX-License-Identifier: Apache-2.0
//! The exit codes, all of them. Others act on them: the node agent's repair looks for 126, the kubelet restarts what is not 0.

/// Exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// Rejected by environment, settings or kernel.
    Failure,
    /// Usage error of `explain`.
    Usage,
    /// Validation failed: traffic of this pod is not redirected. Repair takes exactly this code as its sign.
    NotRedirected,
    /// A command line that cannot be read. Upstream's entry point ends with -1 then.
    BadCommandLine,
}

impl Exit {
    /// Exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 64,
            Self::NotRedirected => 126,
            Self::BadCommandLine => 255,
        }
    }

    /// Table for `--help`.
    pub const TABLE: &'static str = "Exit codes:
  0    done
  1    the environment, a setting or the kernel does not allow it
  64   explain was called wrongly
  126  --run-validation: traffic of this pod is not redirected
  255  the command line cannot be read";
}
