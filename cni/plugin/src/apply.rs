// SPDX-License-Identifier: Apache-2.0
//! From what a pod asks for to rules in its namespace, or in a file where `DRY_RUN_FILE_PATH` names one. What this build
//! cannot do is refused here, before the namespace is changed: half a redirection is worse than a pod that waits.

use std::fmt;
use std::path::PathBuf;

use netfilter::Applied;
use protocol::mutant;
use protocol::netconf::NetConf;
use redirect::generate::ruleset;
use redirect::host::{Environment, Host, decide_addresses};
use redirect::ruleset::{Family, Ruleset};
use redirect::{Redirect, text};

use crate::failure::{Failure, Unsupported};
use crate::kernel::Namespace;

/// The variable that turns applying into writing down.
pub const DRY_RUN: &str = "DRY_RUN_FILE_PATH";

/// Where rules go, and what its surroundings say.
pub struct Site {
    netns: Box<dyn Namespace>,
    environment: Environment,
    dry_run: Option<PathBuf>,
}

/// What became of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// They are in the namespace.
    Applied(Applied),
    /// They are in a file.
    WrittenDown,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applied(Applied::Created) => "created",
            Self::Applied(Applied::Replaced) => "replaced",
            Self::Applied(Applied::Unchanged) => "unchanged",
            Self::WrittenDown => "written down, not applied",
        })
    }
}

impl Site {
    /// The site of a pod in `netns`.
    ///
    /// # Errors
    /// When the environment or the configuration asks for what cannot be done.
    pub fn find(
        netns: Box<dyn Namespace>,
        conf: &NetConf,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        if conf.native_nftables {
            return Err(Unsupported::NativeNftables.into());
        }
        let dry_run = env(DRY_RUN).filter(|path| !path.is_empty()).map(PathBuf::from);
        Ok(Self { netns, environment: Environment::read(env)?, dry_run })
    }
}

/// Enters the namespace for good, and makes it hold what `redirect` asks for.
///
/// # Errors
/// When it does not hold that.
pub fn apply(redirect: &Redirect, site: &Site) -> Result<Done, Failure> {
    site.netns.enter()?;
    let addresses = decide_addresses(site.netns.addresses()?, redirect.stack.value)?;
    let config = redirect.config(&Host { addresses, environment: site.environment.clone() });
    let rules = ruleset(&config)?;
    if let Some(path) = &site.dry_run {
        return match std::fs::write(path, written_down(&rules, config.ipv6)) {
            Ok(()) => Ok(Done::WrittenDown),
            Err(source) => Err(Failure::DryRun { path: path.clone(), source }),
        };
    }
    if config.needs_policy_routes() {
        return Err(Unsupported::PolicyRoutes.into());
    }
    if site.netns.has_legacy_tables().map_err(Failure::Legacy)? {
        return Err(Unsupported::LegacyTables.into());
    }
    if config.ipv6 && !mutant!("no-ipv6-helper") {
        site.netns.add_inbound_address()?;
    }
    Ok(Done::Applied(site.netns.apply(&rules)?))
}

fn written_down(rules: &Ruleset, ipv6: bool) -> String {
    let mut all = text::restore(rules, Family::V4);
    if ipv6 {
        all.push_str(&text::restore(rules, Family::V6));
    }
    all
}
