// SPDX-License-Identifier: Apache-2.0
//! Everything that a run can fail on.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use netfilter::address::AddressError;
use netfilter::{NetnsError, ProgramError};
use redirect::config::ConfigError;

use crate::exit::Exit;
use crate::settings::SettingError;
use crate::surroundings::SurroundingsError;
use crate::validation::NotRedirected;

/// Why a run fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A flag means nothing.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The namespace cannot be entered.
    #[error("work in --network-namespace: {0}")]
    Netns(#[from] NetnsError),
    /// Its addresses cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Settings and surroundings do not go together.
    #[error(transparent)]
    Surroundings(#[from] SurroundingsError),
    /// No rules can be made of them.
    #[error("generate rules")]
    Config(#[from] ConfigError),
    /// The rules could not be written down.
    #[error("write rules to {}", path.display())]
    DryRun {
        /// Where to.
        path: PathBuf,
        /// Why not.
        #[source]
        reason: io::Error,
    },
    /// The namespace does not hold what it should.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Validation failed.
    #[error(transparent)]
    NotRedirected(#[from] NotRedirected),
}

impl Failure {
    /// How the process ends.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::NotRedirected(_) => Exit::NotRedirected,
            _ => Exit::Failure,
        }
    }
}

/// An error with its causes.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
