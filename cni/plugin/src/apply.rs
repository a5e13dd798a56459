// SPDX-License-Identifier: Apache-2.0
//! From what a pod asks for to rules in its namespace, or in a file where `DRY_RUN_FILE_PATH` names one.

use std::fmt;
use std::path::PathBuf;

use netfilter::Applied;
use netfilter::iptables::Unsandboxed;
use netfilter::program::{Open, Options, Programmed, Request};
use protocol::netconf::NetConf;
use redirect::accounts::{self, UnknownAccount};
use redirect::config::Config;
use redirect::generate::ruleset;
use redirect::host::Environment;
use redirect::ruleset::Dialect;
use redirect::sandbox::{Sandboxed, by_class, by_links};
use redirect::{Redirect, text};

use crate::backend::Wanted;
use crate::context::Call;
use crate::failure::Failure;
use crate::kernel::Namespace;
use crate::world::Env;

/// The variable that turns applying into writing down.
pub const DRY_RUN: &str = "DRY_RUN_FILE_PATH";

/// The file that rules are written to instead of the namespace, if the environment names one.
#[must_use]
pub fn dry_run(env: Env<'_>) -> Option<PathBuf> {
    env(DRY_RUN).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Where rules go, and what its surroundings say.
pub struct Site {
    netns: Box<dyn Namespace>,
    environment: Environment,
    wanted: Wanted,
    options: Options,
    dry_run: Option<PathBuf>,
}

/// Outcome of programming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// They are in the namespace.
    Programmed(Programmed),
    /// They are in a file, as for this dialect.
    WrittenDown(Dialect),
}

impl fmt::Display for ApplyOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Programmed(programmed) = self else { return f.write_str("written down, not applied") };
        f.write_str(match programmed.applied {
            Applied::Created => "created",
            Applied::Replaced => "replaced",
            Applied::Unchanged => "unchanged",
        })
    }
}

impl ApplyOutcome {
    /// The back end and why that one, or how the rules are spelled in the file.
    #[must_use]
    pub fn form(&self) -> String {
        match self {
            Self::Programmed(programmed) => programmed.choice.to_string(),
            Self::WrittenDown(Dialect::Iptables) => "restore text".to_owned(),
            Self::WrittenDown(Dialect::Nft) => "nft commands".to_owned(),
        }
    }

    /// Connections that were open before the rules, if there were any.
    #[must_use]
    pub fn open(&self) -> Option<Open> {
        match self {
            Self::Programmed(programmed) => Some(programmed.open).filter(|open| !open.to_string().is_empty()),
            Self::WrittenDown(_) => None,
        }
    }

    /// Cause, if the iptables tools saw the node's files.
    #[must_use]
    pub fn unsandboxed(&self) -> Option<Unsandboxed> {
        match self {
            Self::Programmed(programmed) => programmed.unsandboxed,
            Self::WrittenDown(_) => None,
        }
    }
}

impl Site {
    /// The site of a pod in `netns`.
    ///
    /// # Errors
    /// When the environment asks for what cannot be done.
    pub fn find(netns: Box<dyn Namespace>, conf: &NetConf, call: &mut Call<'_>) -> Result<Self, Failure> {
        let dry_run = dry_run(call.env);
        let mut environment = Environment::read(call.env)?;
        let wanted = Wanted::find(conf, call.env, &mut call.log);
        if dry_run.is_none() && !wanted.wish.knows_names() {
            resolve_groups(&mut environment)?;
        }
        let usual = Options::default();
        let options = Options { deadline: conf.iptables_deadline.unwrap_or(usual.deadline), ..usual };
        Ok(Self { netns, environment, wanted, options, dry_run })
    }
}

/// Puts numbers in the place of the names of groups, which are those of the plugin's own root.
///
/// # Errors
/// A name that is unknown there. The others are numbers all the same.
pub fn resolve_groups(environment: &mut Environment) -> Result<(), UnknownAccount> {
    let Environment { groups_include, groups_exclude, .. } = environment;
    accounts::resolve_groups(groups_include, groups_exclude, |path| std::fs::read_to_string(path).ok())
}

impl Site {
    /// The sandboxed runtime of a pod of this RuntimeClass. The namespace is entered for good where the class' name does not decide.
    ///
    /// # Errors
    /// When the namespace cannot be read.
    pub fn sandboxed(&self, class: Option<&str>) -> Result<Option<Sandboxed>, Failure> {
        if class.is_none() {
            return Ok(None);
        }
        if let Some(known) = by_class(class) {
            return Ok(Some(known));
        }
        self.netns.enter()?;
        Ok(by_links(class, &self.netns.guest_links()?))
    }
}

/// Enters the namespace for good, and makes it hold what `redirect` asks for.
///
/// # Errors
/// When it does not hold that.
pub fn apply(redirect: &Redirect, site: &Site) -> Result<ApplyOutcome, Failure> {
    site.netns.enter()?;
    let config = redirect.config_for(site.netns.addresses()?, &site.environment)?;
    if let Some(path) = &site.dry_run {
        let dialect = site.wanted.expected().dialect();
        let rules = ruleset(&Config { dialect, ..config })?;
        return match std::fs::write(path, text::dry_run(rules)) {
            Ok(()) => Ok(ApplyOutcome::WrittenDown(dialect)),
            Err(source) => Err(Failure::DryRun { path: path.clone(), source }),
        };
    }
    let Wanted { wish, recorded } = site.wanted;
    let request = Request { config, wish, recorded, options: site.options };
    Ok(ApplyOutcome::Programmed(site.netns.program(request)?))
}
