// SPDX-License-Identifier: Apache-2.0
//! What nodes of this tier need of the machine, tried.

use netfilter::Wish;
use netfilter::backend;
use redirect::Config;

use crate::netns::USER_RANGE;

/// Puts a ruleset into a namespace that nobody else sees; how that went.
///
/// # Errors
/// Why this machine cannot play a pod.
pub fn rules() -> Result<String, String> {
    in_a_namespace(|| {
        let rules = redirect::generate::ruleset(&Config::default()).map_err(|error| error.to_string())?;
        let applied = netfilter::apply(&rules).map_err(|error| error.to_string())?;
        Ok(format!("a ruleset was applied ({applied:?})"))
    })
}

/// Runs a closure in a network namespace that ends with its thread.
///
/// # Errors
/// There is none to be had, or the closure's.
pub fn in_a_namespace<T: Send + 'static>(work: fn() -> Result<T, String>) -> Result<T, String> {
    let tried = std::thread::spawn(move || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
            .map_err(|errno| format!("unshare(network): {errno}"))?;
        work()
    });
    tried.join().map_err(|_| "it panicked".to_owned())?
}

/// Back end for this machine, and why; or why none works.
#[must_use]
pub fn back_end() -> String {
    let facts = backend::probe().map_err(|error| error.to_string());
    let choice =
        facts.and_then(|facts| backend::choose(Wish::Auto, &facts).map_err(|error| error.to_string()));
    choice.map_or_else(|why| format!("none (failed to {why})"), |choice| choice.backend.to_string())
}

/// Last user of the machine that a pod with users of its own needs.
#[must_use]
pub fn last_user() -> u32 {
    USER_RANGE.0 + USER_RANGE.1 - 1
}
