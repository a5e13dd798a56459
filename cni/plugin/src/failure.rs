// SPDX-License-Identifier: Apache-2.0
//! Everything that an ADD can fail on, and the one table of what the runtime is told.

use std::io;
use std::path::PathBuf;

use netfilter::address::AddressError;
use netfilter::ground::GroundError;
use netfilter::guest::GuestError;
use netfilter::program::ProgramError;
use netfilter::route::RouteError;
use netfilter::{ApplyError, NetnsError, ReadError};
use protocol::error::{CniError, Code, with_sources};
use protocol::result::ResultError;
use redirect::accounts::UnknownAccount;
use redirect::config::ConfigError;
use redirect::enrol::AnnotationError;
use redirect::host::{EnvironmentError, NoLocalAddress};
use redirect::sandbox::Sandboxed;

use crate::gather::FactsError;
use crate::remedy;

/// Failure of an ADD.
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
    /// It names a group that is unknown here.
    #[error("failed to {0}")]
    Account(#[from] UnknownAccount),
    /// The configuration does.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nothing to redirect to or from yet.
    #[error(transparent)]
    NoAddress(#[from] NoLocalAddress),
    /// The addresses could not be read.
    #[error("failed to {0}")]
    Address(#[from] AddressError),
    /// Links of the namespace could not be read.
    #[error("failed to {0}")]
    Guest(#[from] GuestError),
    /// The pod runs in a guest, and the node's settings refuse that.
    #[error("pods of sandboxed runtimes are refused: {0}")]
    Sandboxed(Sandboxed),
    /// The namespace could not be programmed.
    #[error("failed to {0}")]
    Program(#[from] ProgramError),
    /// The rules could not be written down.
    #[error("failed to write rules to {}: {source}", path.display())]
    DryRun {
        /// `DRY_RUN_FILE_PATH`
        path: PathBuf,
        source: io::Error,
    },
}

impl Failure {
    /// CNI error for the runtime.
    #[must_use]
    pub fn to_cni(&self) -> CniError {
        let code = match self {
            Self::OwnNetns { .. } => Code::INVALID_NETNS,
            Self::Facts(_) | Self::Address(AddressError::Busy) => Code::TRY_AGAIN_LATER,
            Self::Program(error) if passes(error) => Code::TRY_AGAIN_LATER,
            Self::Result(error) => error.code(),
            Self::Environment(_) | Self::Account(_) => Code::INVALID_ENVIRONMENT,
            Self::Netns(_) | Self::DryRun { .. } => Code::IO,
            Self::Annotation(_)
            | Self::Config(_)
            | Self::NoAddress(_)
            | Self::Address(_)
            | Self::Guest(_)
            | Self::Sandboxed(_)
            | Self::Program(_) => Code::INTERNAL,
        };
        let details = match self {
            Self::OwnNetns { path } => path.display().to_string(),
            Self::Facts(error) => error.advice().to_owned(),
            Self::Annotation(error) => error.advice(),
            Self::NoAddress(_) => {
                "istio-cni must come after the plugin that gives the pod its addresses".to_owned()
            }
            Self::Sandboxed(_) => {
                "the value sandboxedRuntimes of the node agent is refuse; warn starts such pods without redirection".to_owned()
            }
            Self::Netns(error) => remedy::of_netns(error).to_owned(),
            Self::Program(error) => remedy::of_program(error).to_owned(),
            Self::DryRun { source, .. } => remedy::of_path(source.kind()).to_owned(),
            _ => String::new(),
        };
        CniError::new(code, with_sources(self)).with_details(details)
    }
}

/// True for transient failures.
fn passes(error: &ProgramError) -> bool {
    match error {
        ProgramError::Iptables(error) => return error.is_retriable(),
        ProgramError::Instead { failure, .. } => return passes(failure),
        _ => {}
    }
    matches!(
        error,
        ProgramError::Apply(ApplyError::Busy { .. } | ApplyError::Read(ReadError::Busy { .. }))
            | ProgramError::Ground(
                GroundError::Address(AddressError::Busy) | GroundError::Route(RouteError::Busy)
            )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiError;
    use crate::gather::{AgentMiss, ApiMiss};
    use crate::http::HttpError;

    #[test]
    fn the_whole_chain_is_told_and_nothing_twice() {
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let failure = Failure::Address(AddressError::Change { verb: "add", reason: refused });
        let error = failure.to_cni();
        assert_eq!(error.code, Code::INTERNAL);
        assert_eq!(error.msg, "failed to add ::6/128 on lo: permission denied");
    }

    #[test]
    fn a_server_that_is_not_trusted_is_looked_at_and_so_are_the_clocks() {
        let early = rustls::Error::InvalidCertificate(rustls::CertificateError::NotValidYet);
        let api = ApiMiss::Api(ApiError::Unusable(HttpError::Certificate(early)));
        let failure = Failure::Facts(FactsError { agent: AgentMiss::Unknown, api });
        let CniError { code, details, .. } = failure.to_cni();
        assert_eq!(code, Code::TRY_AGAIN_LATER);
        for place in ["ConfigMap kube-root-ca.crt", "the node's clock"] {
            assert!(details.contains(place), "{details}");
        }
    }

    #[test]
    fn what_may_pass_is_for_another_try() {
        for failure in [
            Failure::Program(ApplyError::Busy { attempts: 3 }.into()),
            Failure::Program(ApplyError::Read(ReadError::Busy { attempts: 3 }).into()),
            Failure::Program(ProgramError::Ground(RouteError::Busy.into())),
            Failure::Address(AddressError::Busy),
        ] {
            assert_eq!(failure.to_cni().code, Code::TRY_AGAIN_LATER, "{failure}");
        }
    }
}
