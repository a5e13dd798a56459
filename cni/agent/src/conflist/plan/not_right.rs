// SPDX-License-Identifier: Apache-2.0
//! Why a directory is not right, and what ends that.

use std::path::Path;

use crate::conflist::multus::NotCalled;
use crate::conflist::scan::Unusable;

/// State in which pods bypass our plugin and we may change nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRight {
    #[error("no runtime would find a valid network configuration: the primary CNI has to write one")]
    NoPrimary,
    /// The file of `CNI_CONF_NAME` does not exist.
    #[error(
        "{0}, named by CNI_CONF_NAME, is not there: the primary CNI has to write it, or the name has to change"
    )]
    Waiting(String),
    /// The file of `CNI_CONF_NAME` is invalid.
    #[error("{name}: {why}; correct it")]
    Refused { name: String, why: Unusable },
    /// A file that runtimes may be able to read: the order of files is not known.
    #[error("{0}")]
    Denied(String),
    /// Runtimes read another file first.
    #[error(
        "runtimes read {first} first, not {ours}, and it lacks istio-cni: remove it, or name it in CNI_CONF_NAME"
    )]
    Preempted { first: String, ours: String },
    /// Runtimes read another file before our own.
    #[error(
        "runtimes read {first} first, not {ours}: set ISTIO_OWNED_CNI_CONFIG_FILENAME to a name that sorts before it"
    )]
    OwnedNotFirst { first: String, ours: String },
    /// Runtimes read Multus' file first, and that does not lead to our entry.
    #[error("runtimes call Multus ({file}), which {why}")]
    Multus { file: String, why: Box<NotCalled> },
    /// Our plugin is a network of its own, and runtimes do not call Multus.
    #[error(
        "no pod gets istio-cni: runtimes read {} first in {directory}, and not Multus' file: start Multus (its daemon writes its file), or set multusConfDir to the directory that runtimes read", .first.as_deref().unwrap_or("no file")
    )]
    NoMultus { directory: String, first: Option<String> },
    /// A foreign file has the name of ours.
    #[error(
        "{0} is not ours to overwrite: remove it, or name another file (CNI_CONF_NAME; of a list of our own ISTIO_OWNED_CNI_CONFIG_FILENAME)"
    )]
    Foreign(String),
    /// Malformed name.
    #[error(
        "{0:?} is no name of a CNI configuration: it has to end in .conflist or .conf, without a directory"
    )]
    Name(String),
}

impl NotRight {
    /// The reason, with the directory that it is about.
    #[must_use]
    pub fn within(&self, directory: &Path) -> String {
        let directory = directory.display();
        match self {
            Self::NoPrimary => format!(
                "no runtime would find a valid network configuration in {directory}: the primary CNI has to write one; lists of podman and of loopback alone are none; where the runtime reads another directory (k3s: /var/lib/rancher/k3s/agent/etc/cni/net.d, MicroK8s: /var/snap/microk8s/current/args/cni-network), set cniConfDir or platform"
            ),
            // The reason has it.
            Self::Denied(_) | Self::NoMultus { .. } => self.to_string(),
            other => format!("{other} ({directory})"),
        }
    }

    /// True if it lasts until the user changes a setting. Owners of networks end the others, as on each node that starts.
    #[must_use]
    pub fn needs_user(&self) -> bool {
        match self {
            Self::NoPrimary | Self::Waiting(_) | Self::Refused { .. } => false,
            Self::Denied(_) | Self::NoMultus { .. } => false,
            Self::Multus { why, .. } => !matches!(**why, NotCalled::Unusable { .. } | NotCalled::Waits(_)),
            Self::Preempted { .. } | Self::OwnedNotFirst { .. } | Self::Foreign(_) | Self::Name(_) => true,
        }
    }
}
