// SPDX-License-Identifier: Apache-2.0
//! Prerequisites of rules: the inbound helper address and the policy routes. They go first, so that no packet meets rules
//! that lead nowhere; alone they change nothing, as no packet has the mark and nobody uses the address.

use redirect::config::Config;
use redirect::host::INBOUND_V6;

use crate::address::{AddressError, Helper, Rtnetlink};
use crate::route::{AddedRoutes, PolicyRoutes, RouteError};

/// Failure to add addresses or policy routes. What was added until then is gone again.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// The helper address could not be added.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The policy routes could not be set up.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// Additions, so that exactly those can be taken back.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Ground {
    helper: Option<Helper>,
    routes: Option<AddedRoutes>,
}

/// The policy routes that a configuration needs.
#[must_use]
pub fn policy_routes(config: &Config) -> Option<PolicyRoutes> {
    config.needs_policy_routes().then_some(routes(config))
}

fn routes(config: &Config) -> PolicyRoutes {
    PolicyRoutes { mark: config.tproxy_mark, table: config.tproxy_route_table, ipv6: config.ipv6 }
}

impl Ground {
    /// Adds what the rules of `config` need and is not there.
    ///
    /// # Errors
    /// See [`GroundError`].
    pub fn lay(rtnetlink: &mut Rtnetlink, config: &Config) -> Result<Self, GroundError> {
        let helper = if config.ipv6 { Some(rtnetlink.add_loopback_helper()?) } else { None };
        let mut ground = Self { helper, routes: None };
        match policy_routes(config).map(|wanted| rtnetlink.add_policy_routes(wanted)).transpose() {
            Ok(routes) => {
                ground.routes = routes;
                Ok(ground)
            }
            Err(error) => {
                // The first error is the one to tell.
                let _ = ground.take_back(rtnetlink);
                Err(error.into())
            }
        }
    }

    /// Takes back what was added, and nothing else.
    ///
    /// # Errors
    /// See [`GroundError`].
    pub fn take_back(self, rtnetlink: &mut Rtnetlink) -> Result<(), GroundError> {
        // The one goes even if the other does not.
        let routes = self.routes.map_or(Ok(()), |routes| rtnetlink.take_back_routes(&routes));
        if self.helper == Some(Helper::Added) {
            rtnetlink.remove_loopback_helper()?;
        }
        Ok(routes?)
    }
}

/// The policy routes that rules of another mode would stand on, of both families: the pod may have had another stack then.
pub(crate) fn unneeded_routes(config: &Config) -> Option<PolicyRoutes> {
    (!config.needs_policy_routes()).then_some(of_both_families(config))
}

fn of_both_families(config: &Config) -> PolicyRoutes {
    PolicyRoutes { ipv6: true, ..routes(config) }
}

/// Removes policy routes that no rule stands on any more. That they stay is no failure: they lead no packet anywhere.
pub(crate) fn forget(rtnetlink: &mut Rtnetlink, routes: PolicyRoutes) {
    let _ = rtnetlink.remove_policy_routes(routes);
}

/// Removes what the rules of `config` stand on, whoever added it, and what rules of another mode or stack stood on.
///
/// # Errors
/// See [`GroundError`]. Having nothing to remove is none.
pub fn clear(rtnetlink: &mut Rtnetlink, config: &Config) -> Result<(), GroundError> {
    match unneeded_routes(config) {
        None => rtnetlink.remove_policy_routes(of_both_families(config))?,
        Some(unneeded) => forget(rtnetlink, unneeded),
    }
    // Without rights a namespace that holds nothing of ours is clean.
    if rtnetlink.list()?.iter().any(|address| address.ip == INBOUND_V6.address) {
        rtnetlink.remove_loopback_helper()?;
    }
    Ok(())
}
