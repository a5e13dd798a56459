// SPDX-License-Identifier: Apache-2.0
//! Rules through the iptables tools, where the kernel or an operator demands it. It acts on the calling thread's namespace.
//!
//! Rules are read in process; a tool is started only to change them, for each family once to try and once to do it. Each table is
//! replaced by one commit: what was ours goes and what is wanted comes at once. Tables and families are not changed together;
//! [`Options::reconcile`] drops all traffic meanwhile. What a tool says of its success is not believed: the namespace is read back.
//!
//! | part | what it does |
//! |---|---|
//! | [`decide`](mod@decide) | what has to be done; pure |
//! | `script` | as restore text; pure |
//! | `state` | what is ours in the kernel |
//! | `proof` | whether the kernel holds what a tool was to do |
//! | `tool` | finds a tool |
//! | `run` | runs it, within a deadline |
//! | `sandbox` | keeps it from the node's files |
//! | `lock` | who holds its lock |
//! | `error` | what can go wrong |

pub mod decide;
mod error;
mod lock;
mod options;
mod proof;
mod run;
mod sandbox;
mod script;
mod state;
mod tool;

use std::fmt;
use std::time::{Duration, Instant};

use redirect::ruleset::{Family, Ruleset};

use self::decide::{Actions, Purpose, decide};
use self::run::{Commit, Runner};
use crate::apply::Applied;
use crate::owner;
use crate::residue::Residue;

pub use error::{IptablesError, Problem};
pub use options::{Options, Surroundings};
pub use sandbox::{SandboxStep, Unsandboxed};

/// A variant of the iptables tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Tables of their own in the kernel.
    Legacy,
    /// Tables of nf_tables.
    Nft,
}

impl fmt::Display for Variant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Legacy => "legacy",
            Self::Nft => "nft",
        })
    }
}

/// Result of running the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolsResult {
    pub applied: Applied,
    /// Cause, if the tools saw the node's files.
    pub unsandboxed: Option<Unsandboxed>,
}

/// True if rules can be written through a variant here: its tool for IPv4 is installed. What the kernel can do is another question.
#[must_use]
pub fn is_installed(variant: Variant) -> bool {
    tool::find(variant, Family::V4, moment(Options::default().deadline)).is_ok()
}

/// When a limit from now is over. One of more than a day is a day: the clock cannot count as far as a configuration.
fn moment(limit: Duration) -> Instant {
    const DAY: Duration = Duration::from_hours(24);
    Instant::now() + limit.min(DAY)
}

/// Makes the tables of a variant hold a ruleset.
///
/// # Errors
/// See [`IptablesError`].
pub fn apply(variant: Variant, ruleset: &Ruleset, options: &Options) -> Result<ToolsResult, IptablesError> {
    work(variant, ruleset, Purpose::Apply, options)
}

/// Removes what is ours from the tables of a variant. The rules of `known` are ours if they are there; chains of ours and what jumps to
/// them always are.
///
/// # Errors
/// See [`IptablesError`].
pub fn remove(variant: Variant, known: &Ruleset, options: &Options) -> Result<ToolsResult, IptablesError> {
    work(variant, known, Purpose::Remove, options)
}

fn work(
    variant: Variant,
    ruleset: &Ruleset,
    purpose: Purpose,
    options: &Options,
) -> Result<ToolsResult, IptablesError> {
    let deadline = moment(options.deadline);
    let residue = state::residue(variant, ruleset)?;
    let actions = decide(decide::State::of(&residue), purpose, options);
    let applied = actions.applied();
    if actions == Actions::NOTHING {
        return Ok(ToolsResult { applied, unsandboxed: None });
    }
    let touched = |family: &Family| {
        residue.tables.iter().any(|table| table.family == *family)
            || (actions.add && ruleset.enables(*family))
    };
    let families: Vec<Family> = [Family::V4, Family::V6].into_iter().filter(touched).collect();
    owner::enter_with_programs()?;
    let runner = Runner::find(variant, &families, options.surroundings, deadline)?;
    let (result, unsandboxed) = runner.isolated(|| write(&runner, ruleset, &residue, actions));
    result?;
    proof::check(variant, ruleset, purpose)?;
    Ok(ToolsResult { applied, unsandboxed })
}

fn write(
    runner: &Runner,
    ruleset: &Ruleset,
    residue: &Residue,
    actions: Actions,
) -> Result<(), IptablesError> {
    let texts = runner.families().map(|family| (family, script::replace(family, ruleset, residue, actions)));
    let texts: Vec<_> = texts.filter(|(_, text)| !text.is_empty()).collect();
    // Each table is committed by itself: what one of them will not take must be known before the first is changed.
    for (family, text) in &texts {
        runner.restore(*family, Commit::Never, text)?;
    }
    let _rails = if actions.guard { Some(Rails::up(runner, residue)?) } else { None };
    for (family, text) in &texts {
        runner.restore(*family, Commit::EachTable, text)?;
    }
    Ok(())
}

/// Everything is dropped while this lives.
struct Rails<'a>(&'a Runner);

impl<'a> Rails<'a> {
    fn up(runner: &'a Runner, residue: &Residue) -> Result<Self, IptablesError> {
        // Made first: what is up when a later family fails comes down, too.
        let rails = Self(runner);
        for family in runner.families() {
            runner.restore(family, Commit::EachTable, &script::rails_up(family, residue))?;
        }
        Ok(rails)
    }
}

impl Drop for Rails<'_> {
    fn drop(&mut self) {
        for family in self.0.families() {
            // Nothing can be done about it; the chain's name makes it ours, so whoever applies next removes it.
            let _ = self.0.with_more_time().restore(family, Commit::EachTable, script::RAILS_DOWN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_that_no_clock_reaches_is_a_day() {
        for seconds in [1 << 62, i64::MAX.unsigned_abs(), u64::MAX] {
            assert!(moment(Duration::from_secs(seconds)) > Instant::now() + Duration::from_hours(23));
        }
    }
}
