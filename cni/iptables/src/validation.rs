// SPDX-License-Identifier: Apache-2.0
//! The proof that a pod's traffic is redirected, from inside and without privileges: upstream's probe, which alone decides, and
//! then what else can be found out from here (`paths`).
//!
//! The process must run as the proxy's user: its connection to a loopback address that is not `127.0.0.1` is what the proxy's
//! own connections to the pod look like, and rules send those to the proxy's inbound port.

mod paths;
mod probe;

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use protocol::log::Level;
use redirect::config::Config;
use redirect::host::{INBOUND_V4, INBOUND_V6};
use redirect::list::spell;
use redirect::ruleset::{Family, Id};

pub use paths::{Finding, PathState};
pub use probe::Listeners;

use crate::log::Log;
use crate::settings::{Paths, Validation};
use crate::surroundings::Whole;

/// Traffic of this pod is not redirected.
#[derive(Debug, thiserror::Error)]
#[error("validate redirection: {reason}\n{}", reason.advice())]
pub struct NotRedirected {
    /// Observation.
    reason: Reason,
}

/// Observation instead of redirection.
#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("no listener available on port {} or {} of {}", ports[0], ports[1], address)]
    NoListener { address: IpAddr, ports: [u16; 2] },
    #[error("nothing that was sent to {target} arrived at the proxy's ports within {timeout:?}")]
    Timeout { target: SocketAddr, timeout: Duration },
    #[error(
        "nothing that was sent to {target} arrived at the proxy's ports within {timeout:?}, and this container runs as user {} and group {}, while \
         its settings name user {} and group {} as the proxy's", own.user, own.group, spell(uids), spell(gids)
    )]
    OtherUser { target: SocketAddr, timeout: Duration, own: Own, uids: Vec<Id>, gids: Vec<Id> },
    #[error("{}", .0.join("; "))]
    Paths(Vec<String>),
}

impl Reason {
    fn advice(&self) -> &'static str {
        match self {
            Self::NoListener { .. } => OCCUPIED,
            Self::OtherUser { .. } => OTHER_USER,
            Self::Timeout { .. } | Self::Paths(_) => ADVICE,
        }
    }
}

const OCCUPIED: &str = "Whether traffic is redirected was not tried, as nothing could listen there (`cannot listen` says why). \
Validation runs before the proxy, as an init container: stop what listens there.";

const OTHER_USER: &str = "Whether traffic is redirected was not proven: rules send what the proxy's user sends to this address to the proxy, and \
what any other user sends past it. Give the containers istio-validation and istio-proxy the same securityContext.runAsUser and runAsGroup, and \
name them in the settings (--proxy-uid, --proxy-gid).";

const ADVICE: &str = "This pod is not ready for the mesh: its traffic would pass by the proxy. With Istio CNI that happens to a pod that starts \
before the CNI plugin is ready on its node.
- With cni.repair.repairPods=true the node agent adds the rules, and this container passes when it is tried again.
- With cni.repair.deletePods=true the pod is deleted and made anew.
- Otherwise delete the pod once istio-cni runs on its node.
In a namespace that Istio CNI leaves alone (excludeNamespaces) no pod is ever redirected: there neither helps, and the pod should not be injected.";

/// Validates the namespace that this process is in.
///
/// # Errors
/// Its traffic is not redirected.
pub fn run(wanted: Validation, whole: &Whole, log: &mut Log<'_>) -> Result<(), NotRedirected> {
    let start = Instant::now();
    let route = Route::new(Family::of(whole.addresses.first), wanted.probe_port);
    let ports = ports(&whole.config);
    let listeners = listen(&route, ports, log);
    if listeners.is_empty() {
        return Err(NotRedirected { reason: Reason::NoListener { address: route.source, ports } });
    }
    let missed = || log.add(Level::Info, "not redirected yet", &[("to", &route.target)]);
    let Some(port) = listeners.prove(&route, start + wanted.timeout, missed) else {
        return Err(NotRedirected {
            reason: missed_by(Own::now(), route.target, wanted.timeout, &whole.config),
        });
    };
    let fields: [(&str, &dyn Display); 2] = [("to", &route.target), ("port", &port)];
    log.add(Level::Info, "redirection works", &fields);
    if wanted.paths == Paths::Off {
        return Ok(());
    }
    let broken = report(&paths::look(wanted.probe_port, whole, &listeners), log);
    if wanted.paths == Paths::Enforce && !broken.is_empty() {
        return Err(NotRedirected { reason: Reason::Paths(broken) });
    }
    Ok(())
}

/// User and group of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    user: u32,
    group: u32,
}

impl Own {
    fn now() -> Self {
        Self { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
    }
}

/// Reason of a probe that did not arrive. Sent by a user that the rules do not take for the proxy, it arrives nowhere by the right rules either.
fn missed_by(own: Own, target: SocketAddr, timeout: Duration, config: &Config) -> Reason {
    let (uids, gids) = (&config.proxy_uids, &config.proxy_gids);
    if uids.contains(&Id::Number(own.user)) || gids.contains(&Id::Number(own.group)) {
        return Reason::Timeout { target, timeout };
    }
    Reason::OtherUser { target, timeout, own, uids: uids.clone(), gids: gids.clone() }
}

fn report(findings: &[Finding], log: &mut Log<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    for Finding { path, state } in findings {
        let (level, message, why) = match state {
            PathState::Holds(how) => (Level::Info, "path holds", how),
            PathState::Unproven(why) => (Level::Info, "path cannot be proven from here", why),
            PathState::Broken(what) => {
                broken.push(format!("{path}: {what}"));
                (Level::Warn, "path is not as it should be", what)
            }
        };
        log.add(level, message, &[("path", path), ("because", why)]);
    }
    broken
}

fn ports(config: &Config) -> [u16; 2] {
    [config.proxy_port, config.inbound_capture_port]
}

/// Binds the proxy's ports; a failure is logged.
fn listen(route: &Route, ports: [u16; 2], log: &mut Log<'_>) -> Listeners {
    let mut listeners = Listeners::default();
    for port in ports {
        let address = SocketAddr::new(route.source, port);
        if let Err(error) = listeners.add(address) {
            log.add(Level::Warn, "cannot listen", &[("address", &address), ("because", &error)]);
        }
    }
    listeners
}

/// Path of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Loopback source address, which listeners are bound to.
    pub source: IpAddr,
    pub target: SocketAddr,
}

impl Route {
    /// Path of the proxy's own connections to the pod.
    #[must_use]
    pub fn new(family: Family, port: u16) -> Self {
        let (source, helper) = match family {
            Family::V4 => (Ipv4Addr::LOCALHOST.into(), INBOUND_V4.address),
            Family::V6 => (Ipv6Addr::LOCALHOST.into(), INBOUND_V6.address),
        };
        Self { source, target: SocketAddr::new(helper, port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_of_another_user_than_the_proxy_s_says_nothing_of_the_rules() {
        let text = |user, group| {
            let target = "127.0.0.6:15002".parse().unwrap();
            let reason = missed_by(Own { user, group }, target, Duration::from_secs(5), &Config::default());
            NotRedirected { reason }.to_string()
        };
        for (user, group) in [(1337, 1337), (1337, 0), (5, 1337)] {
            assert!(text(user, group).ends_with(ADVICE), "{}", text(user, group));
        }
        let other = text(1_000_650_000, 0);
        for part in
            ["runs as user 1000650000 and group 0", "user 1337 and group 1337", "securityContext.runAsUser"]
        {
            assert!(other.contains(part), "{other}");
        }
        assert!(!other.contains("cni.repair"), "{other}");
    }
}
