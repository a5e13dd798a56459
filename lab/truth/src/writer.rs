// SPDX-License-Identifier: Apache-2.0
//! Writers of the pods' rules.

use std::fmt;
use std::time::Duration;

use anyhow::ensure;
use netfilter::address::Rtnetlink;
use netfilter::apply::ApplyError;
use netfilter::program::{Options, ProgramError, Request, program};
use netfilter::{Backend, EncodeError, Wish};
use redirect::Config;

/// Deadline of the iptables tools. A plugin's own is not the subject here, and lanes keep every core busy.
const TOOLS: Duration = Duration::from_secs(60);

/// Error message of a writer that rejected a configuration.
#[derive(Debug)]
pub struct Refusal(pub String);

/// Programs pods. It is called on a lane's thread, which is in the pod's namespace.
pub trait Writer: fmt::Debug + Send + Sync {
    /// True if it can be asked for a configuration.
    fn can_ask_for(&self, _config: &Config) -> bool {
        true
    }

    /// True if it looks users and groups up by itself.
    fn knows_names(&self) -> bool {
        false
    }

    /// Programs a case's pod through a back end. An error is the lab's own.
    ///
    /// # Errors
    /// The writer cannot be asked.
    fn program(&self, case: &str, config: &Config, backend: Backend) -> anyhow::Result<Result<(), Refusal>>;
}

/// The production library, in this process.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    /// Applied to each configuration before it is written: a table that then finds nothing cannot find anything.
    pub mislead: fn(Config) -> Config,
}

impl Library {
    /// Writes what it is asked for.
    pub const HONEST: Self = Self { mislead: std::convert::identity };
}

impl Writer for Library {
    fn program(&self, _: &str, config: &Config, backend: Backend) -> anyhow::Result<Result<(), Refusal>> {
        let request = Request {
            config: (self.mislead)(config.clone()),
            wish: Wish::Only(backend),
            recorded: None,
            options: Options { deadline: TOOLS, ..Options::default() },
        };
        match program(&mut Rtnetlink::open()?, request) {
            Ok(programmed) => {
                ensure!(programmed.choice.backend == backend, "another back end was chosen");
                Ok(Ok(()))
            }
            Err(ProgramError::Apply(ApplyError::Encode(error @ EncodeError::Rule { .. }))) => {
                Ok(Err(Refusal(error.to_string())))
            }
            Err(error) => Err(error.into()),
        }
    }
}
