// SPDX-License-Identifier: Apache-2.0
//! Requested back end: by the configuration, by the plugin's environment, by the node agent's record. A malformed wish is
//! logged and ignored: a typo must not stop every pod of a node, and traffic is redirected all the same.

use std::path::Path;

use netfilter::Wish;
use netfilter::backend::{Backend, Choice, ForcedBinary, Settings};
use protocol::netconf::NetConf;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::log::Log;

/// Upstream's variable for the variant of the iptables tools.
pub const FORCED_BINARY: &str = "FORCE_IPTABLES_BINARY";
/// Far more than a record has.
const RECORD: usize = 512;

/// Knowledge of the back end before the namespace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Requested by the operator.
    pub wish: Wish,
    /// Recorded by the node agent.
    pub recorded: Option<Choice>,
}

impl Wanted {
    /// Reads it.
    #[must_use]
    pub fn find(conf: &NetConf, env: &dyn Fn(&str) -> Option<String>, log: &mut Log<'_>) -> Self {
        let backend = match conf.backend.as_str() {
            "" => Wish::Auto,
            name => name.parse().unwrap_or_else(|error| {
                log.warn("millrace_backend is unknown, auto is used", &[("reason", &error)]);
                Wish::Auto
            }),
        };
        let forced_binary = env(FORCED_BINARY).filter(|name| !name.is_empty()).and_then(|name| {
            name.parse::<ForcedBinary>()
                .inspect_err(|error| log.warn("the plugin's environment is ignored", &[("reason", error)]))
                .ok()
        });
        let wish = Settings { backend, native_nftables: conf.native_nftables, forced_binary }.wish();
        let recorded = match wish {
            Wish::Auto if conf.knows_agent() => record(&conf.backend_record(), log),
            _ => None,
        };
        Self { wish, recorded }
    }

    /// The back end that is tried first unless the namespace speaks against it.
    #[must_use]
    pub fn expected(&self) -> Backend {
        match (self.wish, self.recorded) {
            (Wish::Only(backend), _) => backend,
            (Wish::Auto, Some(choice)) => choice.backend,
            (Wish::Auto, None) => Backend::NftCompat,
        }
    }
}

fn record(path: &Path, log: &mut Log<'_>) -> Option<Choice> {
    match read(path) {
        Ok(text) => {
            let choice = Choice::from_record(&text);
            if choice.is_none() {
                log.warn("the record of the back end says nothing", &[("path", &path.display())]);
            }
            choice
        }
        Err(Errno::NOENT) => None,
        Err(error) => {
            let reason = &[("path", &path.display() as _), ("reason", &error as _)];
            log.warn("the record of the back end cannot be read", reason);
            None
        }
    }
}

/// The start of a file, in three system calls.
fn read(path: &Path) -> Result<String, Errno> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let mut bytes = [0; RECORD];
    let length = retry_on_intr(|| rustix::io::read(&file, &mut bytes))?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}
