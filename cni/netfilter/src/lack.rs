// SPDX-License-Identifier: Apache-2.0
//! Lacks that keep a namespace from redirecting as configured: in its rules and their prerequisites; pure.

use std::net::IpAddr;

use redirect::config::{Config, ConfigError};
use redirect::found::FoundRules;
use redirect::found::compare::{Difference, differences_from};
use redirect::host::INBOUND_V6;
use redirect::overtaken::overtaken;

use crate::ground;
use crate::route::PolicyRoutes;

/// One thing that is not as it should be, fit for a person through its `Display`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// The rules.
    #[error(transparent)]
    Rules(#[from] Difference),
    /// The helper address.
    #[error("address {INBOUND_V6} is missing on lo: the proxy cannot reach the app over IPv6")]
    Helper,
    /// TPROXY's policy routes.
    #[error(
        "the policy routes of mark {} (table {}) are missing: inbound packets do not reach the proxy",
        .0.mark, .0.table
    )]
    Routes(PolicyRoutes),
}

/// Failure to compare.
#[derive(Debug, thiserror::Error)]
pub enum LackError<E> {
    /// No rules can be made of the configuration.
    #[error("generate rules: {0}")]
    Config(#[from] ConfigError),
    /// The policy routes cannot be read.
    #[error("{0}")]
    Routes(E),
}

/// Compares what was found with what `config` makes, in the form in which rules are: any form redirects. `has_routes` says whether policy
/// routes are there.
///
/// # Errors
/// It cannot be told.
pub fn lacks<E>(
    found: &FoundRules,
    config: &Config,
    addresses: &[IpAddr],
    has_routes: impl FnOnce(PolicyRoutes) -> Result<bool, E>,
) -> Result<Vec<Lack>, LackError<E>> {
    let differences = differences_from(found, config)?;
    let is_redirected = differences != [Difference::NoRules];
    let mut lacks: Vec<Lack> = differences.into_iter().map(Lack::Rules).collect();
    if is_redirected {
        lacks.extend(overtaken(found, config, addresses)?.into_iter().map(Lack::Rules));
    }
    if is_redirected && config.ipv6 && !addresses.contains(&INBOUND_V6.address) {
        lacks.push(Lack::Helper);
    }
    if is_redirected
        && let Some(routes) = ground::policy_routes(config)
        && !has_routes(routes).map_err(LackError::Routes)?
    {
        lacks.push(Lack::Routes(routes));
    }
    Ok(lacks)
}
