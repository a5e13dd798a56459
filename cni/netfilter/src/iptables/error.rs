// SPDX-License-Identifier: Apache-2.0
//! Errors of the iptables tools.

use std::fmt;
use std::io;
use std::time::Duration;

use super::Variant;
use super::decide::Purpose;
use crate::legacy::LegacyError;
use crate::owner::OwnerError;
use crate::read::ReadError;

/// Meaning of an exit status of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// 1
    Other,
    /// 2
    Parameter,
    /// 3
    Version,
    /// 4
    Resource,
    /// Any other, or a signal.
    Unknown,
}

impl Problem {
    pub(super) fn of(status: Option<i32>) -> Self {
        match status {
            Some(1) => Self::Other,
            Some(2) => Self::Parameter,
            Some(3) => Self::Version,
            Some(4) => Self::Resource,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Other => "other problem",
            Self::Parameter => "parameter problem",
            Self::Version => "version problem",
            Self::Resource => "resource problem",
            Self::Unknown => "unknown problem",
        })
    }
}

/// Failure of the tools to apply rules.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// The tool is not installed.
    #[error(
        "run {tool}: it is not in PATH, nor an iptables of variant {variant} under another name: install iptables with that variant, or use a back end that needs no tool (nft-compat, nft)"
    )]
    NoTool {
        /// Its name.
        tool: &'static str,
        /// The variant that is needed.
        variant: Variant,
    },
    /// The tool could not be started.
    #[error("run {tool}")]
    Start {
        /// Its name.
        tool: String,
        /// The system's reason.
        #[source]
        reason: io::Error,
    },
    /// Somebody else holds the lock of the tables. Trying again later may help.
    #[error("run {tool}: the lock {lock} is held by {}", Holder(*.holder))]
    Locked {
        /// Name of the tool.
        tool: String,
        /// The locked file.
        lock: &'static str,
        /// The process that holds it, if the system tells.
        holder: Option<u32>,
    },
    /// The tool was ended because it took too long. Trying again later may help.
    #[error("run {tool}: it did not end within {} ms", .limit.as_millis())]
    Timeout {
        /// Its name.
        tool: String,
        /// Its time limit.
        limit: Duration,
    },
    /// The tool failed.
    #[error("run {tool}: xtables {problem}: {message}")]
    Failed {
        /// Its name.
        tool: String,
        /// Kind of failure.
        problem: Problem,
        /// Its stderr.
        message: String,
    },
    /// The tools said that they succeeded, and the namespace is not as it was to be.
    #[error(
        "apply rules through the iptables tools of variant {variant}: they ended with success, but read back the network namespace {}: look for denials of a security module (SELinux, AppArmor, seccomp) about them, and for a wrapper in their place",
        match .purpose { Purpose::Apply => "does not hold the rules", Purpose::Remove => "still holds rules of ours" }
    )]
    Unproven {
        /// The tools' variant.
        variant: Variant,
        /// The failed operation.
        purpose: Purpose,
    },
    /// Rules could not be read.
    #[error(transparent)]
    Legacy(#[from] LegacyError),
    /// Rules could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The user namespace that the rules are meant in could not be entered.
    #[error(transparent)]
    Owner(#[from] OwnerError),
}

impl IptablesError {
    /// True if the same may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(
            self,
            Self::Locked { .. }
                | Self::Timeout { .. }
                | Self::Failed { problem: Problem::Resource, .. }
                | Self::Read(ReadError::Busy { .. })
        )
    }
}

struct Holder(Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(pid) => write!(out, "process {pid}"),
            None => out.write_str("a process that cannot be told"),
        }
    }
}
