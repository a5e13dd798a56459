// SPDX-License-Identifier: Apache-2.0
//! Why a directory is not right, and what ends that.

use crate::conflist::scan::Refused;

/// Why pods are not set up through our plugin, and there is nothing that we may do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRight {
    /// No network is configured yet.
    #[error("no runtime would find a valid network configuration: the primary CNI has to write one")]
    NoPrimary,
    /// A file that we were told to use is not there.
    #[error(
        "{0}, named by CNI_CONF_NAME, is not there: the primary CNI has to write it, or the name has to change"
    )]
    Waiting(String),
    /// A file that we were told to use is of no use.
    #[error("{name}: {why}; correct it")]
    Refused {
        /// Which.
        name: String,
        /// What is wrong with it.
        why: Refused,
    },
    /// It is not known what runtimes read first.
    #[error("failed to {0}")]
    Denied(String),
    /// Runtimes read another file first.
    #[error(
        "runtimes read {first} first, not {ours}, and it lacks istio-cni: remove it, or name it in CNI_CONF_NAME"
    )]
    Preempted {
        /// What they read.
        first: String,
        /// Where our entry is.
        ours: String,
    },
    /// Runtimes read another file first than the one that is ours.
    #[error(
        "runtimes read {first} first, not {ours}: set ISTIO_OWNED_CNI_CONFIG_FILENAME to a name that sorts before it"
    )]
    OwnedNotFirst {
        /// What they read.
        first: String,
        /// Ours.
        ours: String,
    },
    /// A file with the name that ours is to have is somebody else's.
    #[error("{0} is not ours to overwrite: remove it, or name another file in CNI_CONF_NAME")]
    Foreign(String),
    /// A name that cannot be one.
    #[error(
        "{0:?} is no name of a CNI configuration: it has to end in .conflist or .conf, without a directory"
    )]
    Name(String),
}
