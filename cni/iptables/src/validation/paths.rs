// SPDX-License-Identifier: Apache-2.0
//! Paths that upstream's probe cannot see, as far as they can be validated from inside the pod.
//!
//! The process runs as the proxy's user, whom rules leave alone: it cannot send what an app sends, so it cannot prove the app's
//! outbound path nor that its DNS is captured. Nor can anything inside make a packet arrive from outside; what leaves by `lo` and
//! comes back never meets the rules of the nat table again.
//!
//! Visible without privileges: the fate of its own connections to single ports, in both families, and policy routes. That tells with which
//! settings rules were made (those with DNS capture leave the proxy's connections to port 53 alone), and under TPROXY it meets the inbound
//! rules: those of iptables drop what nobody with `IP_TRANSPARENT` takes. The expected fate of a connection is the evaluator's that
//! explains rules ([`redirect::verdict`](mod@redirect::verdict)). With `CAP_NET_ADMIN` it can read the rules themselves.

use std::fmt;
use std::time::Duration;

use netfilter::address::Rtnetlink;
use netfilter::ground;
use netfilter::route::PolicyRoutes;
use protocol::error::with_sources;
use redirect::config::Config;
use redirect::found::compare::differences_from;
use redirect::generate::ruleset;
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet};
use redirect::ruleset::{Family, Ruleset};
use redirect::verdict::verdict;

use super::probe::{Fate, Listeners};
use super::{Route, ports};
use crate::surroundings::Whole;

/// Finding about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name.
    pub path: &'static str,
    /// Result.
    pub state: PathState,
}

/// Result; the text says how, or why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathState {
    /// As expected.
    Holds(String),
    /// Not as expected.
    Broken(String),
    /// Not visible from here.
    Unproven(String),
}

/// On loopback an answer is immediate or never comes.
const PATIENCE: Duration = Duration::from_millis(250);

/// Checks all paths.
pub(super) fn look(probe_port: u16, whole: &Whole, listeners: &Listeners) -> Vec<Finding> {
    let config = &whole.config;
    let mut findings = Vec::new();
    let mut add = |path, state| findings.push(Finding { path, state });
    match ruleset(config) {
        Err(error) => add("single ports", PathState::Unproven(error.to_string())),
        Ok(rules) => {
            add("second family", second_family(probe_port, whole, &rules));
            let family = Family::of(whole.addresses.first);
            let tunnel = Route::new(family, config.inbound_tunnel_port);
            let path =
                if expected(&rules, tunnel) == Fate::Silence { "inbound by TPROXY" } else { "tunnel port" };
            add(path, port(listeners, tunnel, &rules));
            add("DNS setting", port(listeners, Route::new(family, 53), &rules));
        }
    }
    if let Some(wanted) = ground::policy_routes(config) {
        add("TPROXY's policy routes", policy_routes(wanted));
    }
    let rules = live_rules(config);
    let unreadable = matches!(rules, PathState::Unproven(_));
    add("rules", rules);
    if unreadable {
        for path in ["inbound from outside", "outbound of the app", "DNS of the app"] {
            let why = "packets of that path cannot be sent from here, and the rules cannot be read";
            add(path, PathState::Unproven(why.to_owned()));
        }
    }
    findings
}

/// Upstream probes the family of the first address only.
fn second_family(probe_port: u16, whole: &Whole, rules: &Ruleset) -> PathState {
    let second = match Family::of(whole.addresses.first) {
        Family::V6 => Family::V4,
        Family::V4 if whole.config.ipv6 => Family::V6,
        Family::V4 => {
            return PathState::Unproven("IPv6 is not redirected here: the first address is IPv4".to_owned());
        }
    };
    let route = Route::new(second, probe_port);
    let mut listeners = Listeners::default();
    let mut failed = None;
    for port in ports(&whole.config) {
        failed = listeners.add((route.source, port).into()).err().or(failed);
    }
    match failed {
        Some(errno) if listeners.is_empty() => {
            PathState::Unproven(format!("cannot listen on {}: {errno}", route.source))
        }
        _ => port(&listeners, route, rules),
    }
}

/// Compares the fate of a connection with the expected one.
fn port(listeners: &Listeners, route: Route, rules: &Ruleset) -> PathState {
    let wanted = expected(rules, route);
    let seen = listeners.send(&route, PATIENCE);
    let text = format!("{} {seen}", route.target);
    match (seen, wanted) {
        (seen, wanted) if seen == wanted => PathState::Holds(text),
        // xt's TPROXY drops what no socket takes, nft's lets it go: which of them wrote the rules is not known here.
        (Fate::NotRedirected, Fate::Silence) => {
            PathState::Unproven(format!("{text}, and without inbound rules it would be as well"))
        }
        _ => PathState::Broken(format!("{text}, but with these settings it {wanted}")),
    }
}

/// Verdict on a connection of this process: on its way out, and if accepted, on its way in through `lo`.
fn expected(rules: &Ruleset, Route { source, target }: Route) -> Fate {
    let mut packet = Packet {
        hook: Hook::Output,
        source,
        destination: target.ip(),
        // Any port that no rule names.
        layer4: Layer4::Tcp { source: 40000, destination: target.port() },
        interface: "lo".into(),
        uid: Some(rustix::process::geteuid().as_raw()),
        gid: Some(rustix::process::getegid().as_raw()),
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    };
    let out = verdict(rules, &packet);
    packet = Packet {
        hook: Hook::Prerouting,
        uid: None,
        gid: None,
        mark: out.mark,
        connmark: out.connmark,
        ..packet
    };
    match (out.outcome, verdict(rules, &packet).outcome) {
        (Outcome::Redirected { port }, _) => Fate::Arrived { port },
        (Outcome::Untouched, Outcome::Untouched) => Fate::NotRedirected,
        _ => Fate::Silence,
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrived { port } => write!(out, "is redirected to port {port}"),
            Self::NotRedirected => out.write_str("is left alone"),
            Self::Unreachable(errno) => write!(out, "cannot be reached: {errno}"),
            Self::Silence => out.write_str("is taken by the inbound rules, and dropped"),
        }
    }
}

fn policy_routes(wanted: PolicyRoutes) -> PathState {
    let found = Rtnetlink::open()
        .map_err(|error| with_sources(&error))
        .and_then(|mut rtnetlink| rtnetlink.has_policy_routes(wanted).map_err(|error| with_sources(&error)));
    let text = format!("mark {} and table {}", wanted.mark, wanted.table);
    match found {
        Ok(true) => PathState::Holds(text),
        Ok(false) => PathState::Broken(format!("{text}: the rule or the local route is missing")),
        Err(error) => PathState::Unproven(error),
    }
}

/// Compares live rules with those of these settings.
fn live_rules(config: &Config) -> PathState {
    let found = match netfilter::look() {
        Ok(found) => found,
        Err(error) => return PathState::Unproven(with_sources(&error)),
    };
    match differences_from(&found, config) {
        Err(error) => PathState::Unproven(error.to_string()),
        Ok(found) => match found.first() {
            None => PathState::Holds("they are what these settings make".to_owned()),
            Some(one) => {
                PathState::Broken(format!("{} differences from what these settings make; {one}", found.len()))
            }
        },
    }
}
