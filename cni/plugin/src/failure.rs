// SPDX-License-Identifier: Apache-2.0
//! Everything that an ADD can fail on, and the one table of what the runtime is told.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use netfilter::address::AddressError;
use netfilter::{ApplyError, NetnsError, ReadError};
use protocol::error::{CniError, Code};
use protocol::result::ResultError;
use redirect::config::ConfigError;
use redirect::enrol::AnnotationError;
use redirect::host::{EnvironmentError, NoLocalAddress};

use crate::gather::FactsError;

/// What a pod or a configuration may ask for and this build cannot do. Refused, so that the pod does not run half redirected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Interception mode TPROXY.
    #[error(
        "sidecar.istio.io/interceptionMode TPROXY needs policy routes, which this build cannot set up; use REDIRECT"
    )]
    PolicyRoutes,
    /// `native_nftables`.
    #[error("native_nftables: true is not supported by this build; set it to false")]
    NativeNftables,
    /// Another program used the legacy back end.
    #[error(
        "the pod's network namespace holds tables of legacy iptables, which this build cannot change; let whatever makes them use \
         iptables-nft"
    )]
    LegacyTables,
}

/// Why an ADD fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The result cannot be given.
    #[error("failed to {0}")]
    Result(#[from] ResultError),
    /// The plugin would change the namespace that it runs in.
    #[error("plugin's netns and netns from CNI_NETNS should not be the same")]
    OwnNetns {
        /// `CNI_NETNS`
        path: PathBuf,
    },
    /// The namespace cannot be opened or entered.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Nobody told about the pod.
    #[error("cannot tell whether the pod needs redirection: {0}")]
    Facts(#[from] FactsError),
    /// The pod asks for something impossible.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    /// The plugin's environment does.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// The configuration does.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nothing to redirect to or from yet.
    #[error(transparent)]
    NoAddress(#[from] NoLocalAddress),
    /// Addresses could not be read or added.
    #[error("failed to {0}")]
    Address(#[from] AddressError),
    /// This build cannot do it.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Whether there are legacy tables cannot be told.
    #[error("failed to look for tables of legacy iptables: {0}")]
    Legacy(io::Error),
    /// The rules could not be applied.
    #[error("failed to {0}")]
    Apply(#[from] ApplyError),
    /// The rules could not be written down.
    #[error("failed to write rules to {}: {source}", path.display())]
    DryRun {
        /// `DRY_RUN_FILE_PATH`
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Failure {
    /// What the runtime is told.
    #[must_use]
    pub fn to_cni(&self) -> CniError {
        let (code, details) = match self {
            Self::OwnNetns { path } => (Code::INVALID_NETNS, path.display().to_string()),
            Self::Facts(error) => (Code::TRY_AGAIN_LATER, error.advice().to_owned()),
            Self::Apply(ApplyError::Busy { .. } | ApplyError::Read(ReadError::Busy { .. }))
            | Self::Address(AddressError::Busy) => (Code::TRY_AGAIN_LATER, String::new()),
            Self::Result(error) => (error.code(), String::new()),
            Self::Environment(_) => (Code::INVALID_ENVIRONMENT, String::new()),
            Self::Unsupported(Unsupported::NativeNftables) => (Code::UNSUPPORTED_FIELD, String::new()),
            Self::Netns(_) | Self::DryRun { .. } => (Code::IO, String::new()),
            Self::Apply(ApplyError::UnmappedOwner { .. }) => (
                Code::INTERNAL,
                "pods in a user namespace of their own (hostUsers: false) are not supported yet".to_owned(),
            ),
            Self::NoAddress(_) => (
                Code::INTERNAL,
                "istio-cni must come after the plugin that gives the pod its addresses".to_owned(),
            ),
            Self::Annotation(_)
            | Self::Config(_)
            | Self::Address(_)
            | Self::Unsupported(_)
            | Self::Legacy(_)
            | Self::Apply(_) => (Code::INTERNAL, String::new()),
        };
        CniError::new(code, chain(self)).with_details(details)
    }
}

/// An error with its causes, as far as they are not part of its text already.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_chain_is_told_and_nothing_twice() {
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let failure = Failure::Address(AddressError::Change { verb: "add", reason: refused });
        let error = failure.to_cni();
        assert_eq!(error.code, Code::INTERNAL);
        assert_eq!(error.msg, "failed to add ::6/128 on lo: permission denied");
    }

    #[test]
    fn what_may_pass_is_for_another_try() {
        for failure in [
            Failure::Apply(ApplyError::Busy { attempts: 3 }),
            Failure::Apply(ApplyError::Read(ReadError::Busy { attempts: 3 })),
            Failure::Address(AddressError::Busy),
        ] {
            assert_eq!(failure.to_cni().code, Code::TRY_AGAIN_LATER, "{failure}");
        }
    }
}
