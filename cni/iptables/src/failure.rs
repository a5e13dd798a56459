// SPDX-License-Identifier: Apache-2.0
//! Everything that a run can fail on.

use std::io;
use std::path::PathBuf;

use netfilter::address::AddressError;
use netfilter::{NetnsError, ProgramError};
use redirect::accounts::UnknownAccount;
use redirect::config::ConfigError;

use crate::exit::Exit;
use crate::settings::SettingError;
use crate::surroundings::SurroundingsError;
use crate::validation::NotRedirected;

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Invalid flag.
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error("work in --network-namespace: {0}")]
    Netns(#[from] NetnsError),
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Settings contradict the environment.
    #[error(transparent)]
    Surroundings(#[from] SurroundingsError),
    /// A user or group that is unknown here.
    #[error(transparent)]
    Account(#[from] UnknownAccount),
    /// The configuration yields no rules.
    #[error("generate rules")]
    Config(#[from] ConfigError),
    /// The dry run could not be written.
    #[error("write rules to {}", path.display())]
    DryRun {
        path: PathBuf,
        #[source]
        reason: io::Error,
    },
    /// The namespace could not be programmed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    NotRedirected(#[from] NotRedirected),
}

impl Failure {
    /// Exit status.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::NotRedirected(_) => Exit::NotRedirected,
            _ => Exit::Failure,
        }
    }
}
