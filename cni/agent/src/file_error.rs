// SPDX-License-Identifier: Apache-2.0
//! File errors for people: operation, path, cause and remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities};

/// A failed file operation.
#[derive(Debug, thiserror::Error)]
#[error("failed to {doing} {}: {cause}{}", path.display(), remedy(cause))]
pub struct FileError {
    /// Operation.
    pub doing: Doing,
    /// File or directory.
    pub path: PathBuf,
    /// The kernel's error.
    pub cause: io::Error,
}

/// File operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Read,
    List,
    Write,
    Remove,
    Make,
}

impl Doing {
    /// The error of this operation.
    #[must_use]
    pub fn failed(self, path: &Path, cause: io::Error) -> FileError {
        FileError { doing: self, path: path.to_owned(), cause }
    }
}

impl fmt::Display for Doing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Write => "write",
            Self::Remove => "remove",
            Self::Make => "make directory",
        })
    }
}

const READ_ONLY: &str =
    "; mount the host's directory writable, or point the chart at one that is (cniBinDir, cniConfDir)";
const FULL: &str = "; free space on the node's disk";
const ABSENT: &str = "; see that it exists on the node and is mounted";
/// Of the modules that deny this, only SELinux has a type that is meant for it.
const DENIED: &str = "; root may do this whatever the mode says, so a security module denies it: look for its denials (SELinux: ausearch -m avc; \
    AppArmor: dmesg), and let the agent run as one that may (chart: seLinuxOptions.type=spc_t)";
const FORBIDDEN: &str = "; root may do this whatever the mode says, unless it is immutable (lsattr -d; chattr -i ends that) or a security module denies it: \
    look for its denials (SELinux: ausearch -m avc; AppArmor: dmesg), and let the agent run as one that may (chart: seLinuxOptions.type=spc_t)";
const BY_MODE: &str = "; the mode denies it, and the agent lacks CAP_DAC_OVERRIDE, which the chart gives to it: see who takes that from the pod";

/// Effect of file modes on a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Modes {
    Obeyed,
    Overridden,
}

impl Modes {
    /// Effect on this process: CAP_DAC_OVERRIDE is exempt.
    fn here() -> Self {
        let overrides =
            |own: rustix::thread::CapabilitySets| own.effective.contains(CapabilitySet::DAC_OVERRIDE);
        if capabilities(None).is_ok_and(overrides) { Self::Overridden } else { Self::Obeyed }
    }
}

/// Remedy, as far as the errno tells.
pub(crate) fn remedy(cause: &io::Error) -> &'static str {
    Errno::from_io_error(cause).map_or("", |errno| known(errno, Modes::here()))
}

fn known(errno: Errno, modes: Modes) -> &'static str {
    match (errno, modes) {
        (Errno::ROFS, _) => READ_ONLY,
        (Errno::ACCESS, Modes::Overridden) => DENIED,
        (Errno::ACCESS, Modes::Obeyed) => BY_MODE,
        (Errno::PERM, _) => FORBIDDEN,
        (Errno::NOSPC | Errno::DQUOT, _) => FULL,
        (Errno::NOENT, _) => ABSENT,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_laid_on_modes_only_where_they_count() {
        assert!(known(Errno::ACCESS, Modes::Overridden).contains("ausearch -m avc"));
        assert!(known(Errno::ACCESS, Modes::Overridden).contains("spc_t"));
        assert!(known(Errno::ACCESS, Modes::Obeyed).contains("CAP_DAC_OVERRIDE"));
        for modes in [Modes::Overridden, Modes::Obeyed] {
            assert!(known(Errno::PERM, modes).contains("lsattr"), "{modes:?}");
        }
        assert_eq!(known(Errno::IO, Modes::Overridden), "");
    }
}
