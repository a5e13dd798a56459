// SPDX-License-Identifier: Apache-2.0
//! The one way from a configuration to a redirected namespace, for everyone who programs one: addresses, policy routes, then rules
//! through the back end that is right here. It acts on the calling thread's namespace.
//!
//! Nobody asks beforehand what the kernel can do: the usual back end is tried, and what the kernel answers decides what comes next
//! ([`crate::backend::choice`]). A namespace ends with one set of rules, whatever was in it.

use std::fmt;
use std::path::Path;

use redirect::config::{Config, ConfigError};
use redirect::found::FoundRules;
use redirect::generate::ruleset;
use redirect::ruleset::Ruleset;

use crate::address::{Address, Rtnetlink};
use crate::apply::{self, Applied, ApplyError};
use crate::backend::choice::{Choice, Reason, after, after_tools};
use crate::backend::choose::for_pod;
use crate::backend::{Backend, LegacyUse, Wish};
use crate::flows::{self, Settled};
use crate::ground::{self, Ground, GroundError};
use crate::iptables::{self, IptablesError, Unsandboxed, Variant};
use crate::legacy::{self, LegacyError};
use crate::owner::{self, Entered, OwnerError};

pub use crate::apply::Removed;
pub use crate::iptables::{Options, Surroundings};

/// Wanted state of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Source of the rules; the dialect follows from the back end.
    pub config: Config,
    pub wish: Wish,
    /// The node agent's choice for this node. It counts for [`Wish::Auto`].
    pub recorded: Option<Choice>,
    /// Use of the iptables tools.
    pub options: Options,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Programmed {
    /// Through which back end, and why that one.
    pub choice: Choice,
    pub applied: Applied,
    /// Cause, if the iptables tools saw the node's files.
    pub unsandboxed: Option<Unsandboxed>,
    /// Nobody had touched nf_tables in the namespace: a new sandbox, or one whose processes never met a rule.
    pub is_fresh: bool,
    /// Connections that were open before the rules.
    pub open: Open,
}

/// Connections that were open before rules were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// Nobody looked for them: there are none in a new sandbox, and rules that were there redirect them.
    NotAsked,
    /// What became of them.
    Settled(Settled),
    /// The kernel does not list them.
    Unknown,
}

impl fmt::Display for Open {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => Ok(()),
            Self::Settled(settled) => settled.fmt(out),
            Self::Unknown => out.write_str("connections that were open before the rules may bypass the proxy: the kernel does not list them"),
        }
    }
}

impl Programmed {
    /// Ends connections that were open before the rules and that these redirect, if rules were written. `addresses` are those of the
    /// namespace. The calling thread's user namespace may be another one afterwards, for good.
    #[must_use]
    pub fn settled(self, config: &Config, addresses: &[Address]) -> Self {
        if self.applied == Applied::Unchanged {
            return self;
        }
        let settled = flows::settle(config, addresses, Path::new("/proc"));
        Self { open: settled.map_or(Open::Unknown, Open::Settled), ..self }
    }
}

/// Failure to program a namespace.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No rules can be made of the configuration.
    #[error("generate rules")]
    Config(#[from] ConfigError),
    /// The helper address or the policy routes could not be added.
    #[error(transparent)]
    Ground(#[from] GroundError),
    /// It could not be told what is in tables of legacy iptables.
    #[error(transparent)]
    Legacy(#[from] LegacyError),
    /// The rules could not be applied over netlink.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The user namespace that the rules are meant in could not be entered.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The rules could not be applied through the tools.
    #[error(transparent)]
    Iptables(#[from] IptablesError),
    /// The first back end cannot be used here, and the last one that was tried instead failed, too.
    #[error("{lack}; nor, through back end {instead}, to {failure}")]
    Instead {
        lack: Box<ProgramError>,
        /// The last one.
        instead: Backend,
        failure: Box<ProgramError>,
    },
}

/// Makes the calling thread's namespace hold what `request` asks for. If another user namespace owns it and the rules need that, the process
/// is in there afterwards, for good.
///
/// # Errors
/// If it does not, or if rules of another back end are left beside the new ones; see [`ProgramError`].
pub fn program(rtnetlink: &mut Rtnetlink, request: Request) -> Result<Programmed, ProgramError> {
    let legacy = legacy::read()?;
    let rules = Prepared::new(first(&request, &legacy), &request.config)?;
    let ground = Ground::lay(rtnetlink, &request.config)?;
    let unneeded = ground::unneeded_routes(&request.config);
    let (programmed, left) = match write_first_that_works(rules, request, legacy) {
        Ok(written) => written,
        Err(error) => {
            // The first error is the one to tell, and what stays leads no packet anywhere.
            let _ = ground.take_back(rtnetlink);
            return Err(error);
        }
    };
    if let Some(error) = left {
        // The new rules stand, and so does what they stand on.
        return Err(error);
    }
    if let (Some(routes), Applied::Replaced | Applied::Unchanged) = (unneeded, programmed.applied) {
        // Rules of another mode may have stood on them, and who replaced those may have been killed before it came here.
        ground::forget(rtnetlink, routes);
    }
    Ok(programmed)
}

/// Rules for one back end. What it cannot hold is found before anything is changed.
#[derive(Debug)]
struct Prepared {
    choice: Choice,
    ruleset: Ruleset,
    /// Their transaction, where they go over netlink; the iptables tools test their own text.
    fresh: Vec<u8>,
}

impl Prepared {
    fn new(choice: Choice, config: &Config) -> Result<Self, ProgramError> {
        let ruleset = ruleset(&config.clone().in_dialect(choice.backend.dialect()))?;
        let fresh = match choice.backend {
            Backend::NftCompat | Backend::Nft => apply::fresh(&ruleset).map_err(ApplyError::from)?,
            Backend::IptablesNft | Backend::IptablesLegacy => Vec::new(),
        };
        Ok(Self { choice, ruleset, fresh })
    }
}

/// Writes rules through the first back end that works here, beginning with that of `rules`. The error beside what was done says why rules of
/// another back end are still there. `legacy` is what the namespace held before.
fn write_first_that_works(
    mut rules: Prepared,
    request: Request,
    mut legacy: FoundRules,
) -> Result<(Programmed, Option<ProgramError>), ProgramError> {
    let Request { config, wish, recorded, options } = request;
    let is_free = wish == Wish::Auto;
    let (mut lack, mut tried) = (None, Vec::new());
    loop {
        let choice = rules.choice;
        let failure = match write(&rules, &legacy, &options) {
            Ok(written) => {
                let Written { applied, unsandboxed, left, is_fresh } = written;
                let open = Open::NotAsked;
                return Ok((Programmed { choice, applied, unsandboxed, is_fresh, open }, left));
            }
            // Only now it costs something: almost no pod has a user namespace of its own.
            Err(ProgramError::Apply(error @ ApplyError::UnmappedOwner { .. })) => match owner::enter()? {
                Entered::Now => continue,
                Entered::Before => error.into(),
            },
            Err(failure) => failure,
        };
        tried.push(choice.backend);
        let next = match &failure {
            _ if !is_free => None,
            ProgramError::Apply(error) => after(choice.backend, error),
            ProgramError::Iptables(error) => after_tools(choice, recorded.unwrap_or(USUAL).backend, error),
            _ => None,
        };
        let Some(next) = next.filter(|next| !tried.contains(&next.backend)) else {
            return Err(after_fallback(lack, choice.backend, failure));
        };
        if matches!(failure, ProgramError::Iptables(_)) {
            // Tools change one table after the other: some may hold rules of ours now.
            legacy = legacy::read()?;
        }
        lack.get_or_insert(failure);
        rules = match Prepared::new(next, &config) {
            Ok(rules) => rules,
            Err(failure) => return Err(after_fallback(lack, next.backend, failure)),
        };
    }
}

/// A failure of the last back end, with what kept the first one from being used.
fn after_fallback(lack: Option<ProgramError>, instead: Backend, failure: ProgramError) -> ProgramError {
    match lack {
        None => failure,
        Some(lack) => ProgramError::Instead { lack: Box::new(lack), instead, failure: Box::new(failure) },
    }
}

/// Choice of a node without a record.
const USUAL: Choice = Choice { backend: Backend::NftCompat, reason: Reason::Usual };

/// First choice.
fn first(request: &Request, legacy: &FoundRules) -> Choice {
    let others = if request.wish != Wish::Auto || !legacy::ours::has_rules_of_others(legacy) {
        LegacyUse::NoRulesOfOthers
    } else if is_legacy_in_reach(&request.config) {
        LegacyUse::RulesOfOthers
    } else {
        LegacyUse::RulesOutOfReach
    };
    for_pod(request.wish, request.recorded.unwrap_or(USUAL), others)
}

/// True if the kernel has the legacy tables that rules of `config` need, and the tools are there to write them.
fn is_legacy_in_reach(config: &Config) -> bool {
    let rules = ruleset(&config.clone().in_dialect(Backend::IptablesLegacy.dialect()));
    // A configuration without rules is refused through any back end.
    rules.is_ok_and(|rules| legacy::has_tables_for(&rules)) && iptables::is_installed(Variant::Legacy)
}

/// Removes from the calling thread's namespace whatever rules of ours any back end holds, then what they stand on. `config` says which
/// policy routes those are, and which rules are ours that could be anybody's.
///
/// # Errors
/// If something of ours may be left; see [`ProgramError`].
pub fn remove(
    rtnetlink: &mut Rtnetlink,
    config: &Config,
    options: &Options,
) -> Result<Removed, ProgramError> {
    let rules = remove_rules(&ruleset(config)?, options)?;
    ground::clear(rtnetlink, config)?;
    Ok(if rules { Removed::Rules } else { Removed::Nothing })
}

/// Outcome of writing.
struct Written {
    applied: Applied,
    unsandboxed: Option<Unsandboxed>,
    /// Cause, if rules of another back end are left. The new ones stand.
    left: Option<ProgramError>,
    is_fresh: bool,
}

impl Written {
    /// Notes whether rules of another back end went.
    fn instead(mut self, went: Result<bool, ProgramError>) -> Self {
        match went {
            Ok(true) if self.applied == Applied::Created => self.applied = Applied::Replaced,
            Ok(_) => {}
            Err(error) => self.left = Some(error),
        }
        self
    }
}

impl From<iptables::ToolsResult> for Written {
    fn from(done: iptables::ToolsResult) -> Self {
        Self { applied: done.applied, unsandboxed: done.unsandboxed, left: None, is_fresh: false }
    }
}

/// Writes through one back end; then, when the new rules stand, removes what others left. `legacy` is what the namespace held before.
fn write(rules: &Prepared, legacy: &FoundRules, options: &Options) -> Result<Written, ProgramError> {
    let Prepared { choice, ruleset, fresh } = rules;
    let written = match choice.backend {
        Backend::NftCompat | Backend::Nft => {
            let (applied, is_fresh) = apply::send(ruleset, fresh)?;
            Written { applied, unsandboxed: None, left: None, is_fresh }
        }
        Backend::IptablesNft => {
            let written = Written::from(iptables::apply(Variant::Nft, ruleset, options)?);
            written.instead(remove_native_tables())
        }
        Backend::IptablesLegacy => {
            let written = Written::from(iptables::apply(Variant::Legacy, ruleset, options)?);
            return Ok(written.instead(remove_from_nf_tables()));
        }
    };
    Ok(match written.left {
        None => written.instead(replace_in_legacy(legacy, ruleset, options)),
        Some(_) => written,
    })
}

/// Removes what is ours from every back end. `known` tells which rules beside our chains in legacy tables are. True if there was anything.
fn remove_rules(known: &Ruleset, options: &Options) -> Result<bool, ProgramError> {
    // The one goes even if the other fails.
    let (in_nf_tables, legacy) = (remove_from_nf_tables(), legacy::read());
    let in_legacy = remove_from_legacy(&legacy?, known, options)?;
    Ok(in_nf_tables? || in_legacy)
}

fn remove_from_legacy(legacy: &FoundRules, known: &Ruleset, options: &Options) -> Result<bool, ProgramError> {
    if !legacy::ours::has_traces_of_ours(legacy) {
        return Ok(false);
    }
    iptables::remove(Variant::Legacy, known, options)?;
    Ok(true)
}

/// Removes what is in legacy tables when the new rules stand elsewhere. Chains without rules lead no packet anywhere: that they cannot be
/// removed (an image without tools) is no reason to fail.
fn replace_in_legacy(legacy: &FoundRules, known: &Ruleset, options: &Options) -> Result<bool, ProgramError> {
    let harmless = legacy::ours::has_only_empty_chains(legacy, known);
    match remove_from_legacy(legacy, known, options) {
        Err(_) if harmless => Ok(false),
        removed => removed,
    }
}

fn remove_from_nf_tables() -> Result<bool, ProgramError> {
    Ok(apply::remove()? == Removed::Rules)
}

/// Removes the native tables beside what iptables-nft wrote: that may hold names, which netlink has not.
fn remove_native_tables() -> Result<bool, ProgramError> {
    Ok(apply::remove_native()? == Removed::Rules)
}

#[cfg(test)]
mod tests {
    use redirect::ruleset::Port;

    use super::*;
    use crate::fake::ordinary;

    fn prepared(backend: Backend, config: &Config) -> Result<Prepared, ProgramError> {
        Prepared::new(Choice { backend, reason: Reason::Usual }, config)
    }

    #[test]
    fn what_netlink_cannot_hold_is_found_before_anything_is_changed() {
        let config = Config { outbound_ports_exclude: vec![Port::Verbatim("http".to_owned())], ..ordinary() };
        for backend in [Backend::NftCompat, Backend::Nft] {
            let refused = prepared(backend, &config);
            assert!(matches!(refused, Err(ProgramError::Apply(ApplyError::Encode(_)))), "{refused:?}");
        }
        for backend in [Backend::IptablesNft, Backend::IptablesLegacy] {
            assert!(prepared(backend, &config).is_ok(), "the tools know services");
        }
    }

    #[test]
    fn a_prefix_of_interfaces_is_one_in_each_dialect() {
        let config = Config { exclude_interfaces: vec!["eth+".into()], ..ordinary() };
        let mut other = Config { exclude_interfaces: vec!["eth*".into()], ..ordinary() };
        let native = |config: &Config| prepared(Backend::Nft, config).unwrap();
        assert_eq!(native(&config).ruleset, native(&other).ruleset);
        assert_eq!(native(&config).fresh.len(), native(&other).fresh.len());
        other.exclude_interfaces.clone_from(&config.exclude_interfaces);
        assert_eq!(prepared(Backend::NftCompat, &config).unwrap().ruleset, ruleset(&other).unwrap());
    }
}
