// SPDX-License-Identifier: Apache-2.0
//! What upstream's probe cannot see, as far as it can be found out from inside the pod.
//!
//! The process runs as the proxy's user, whom rules leave alone: it cannot send what an app sends, so it cannot prove the app's
//! outbound path nor that its DNS is captured. Nor can anything inside make a packet arrive from outside. What it can see without
//! privileges: the second family, what rules say of single ports (which tells with which settings they were made), and policy
//! routes. With `CAP_NET_ADMIN` it can read the rules themselves.

use std::fmt;
use std::time::Duration;

use netfilter::address::Rtnetlink;
use netfilter::route::PolicyRoutes;
use netfilter::{Difference, ReadError, compare};
use redirect::config::{Config, Mode};
use redirect::generate::ruleset;
use redirect::ruleset::{Dialect, Family, Id};

use super::probe::{Fate, Listeners};
use super::{Route, family, ports};
use crate::failure::chain;
use crate::surroundings::Whole;

/// A path, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its name.
    pub path: &'static str,
    /// What was found.
    pub state: State,
}

/// What was found about a path; the text says how, or why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// As it should be.
    Holds(String),
    /// Not as it should be.
    Broken(String),
    /// That cannot be told from here.
    Unproven(String),
}

/// On loopback an answer comes at once or not at all.
const PATIENCE: Duration = Duration::from_millis(500);

/// Looks at all paths.
pub(super) fn look(probe_port: u16, whole: &Whole, first: &Listeners) -> Vec<Finding> {
    let config = &whole.config;
    let mut findings = Vec::new();
    let mut add = |path, state| findings.push(Finding { path, state });
    let stranger = (!is_user(&config.proxy_uids)).then(|| {
        "this process does not run as the proxy's user, so rules do not treat it like the proxy".to_owned()
    });
    match &stranger {
        Some(why) => add("second family", State::Unproven(why.clone())),
        None => {
            add("second family", second_family(probe_port, whole));
            let family = family(whole.addresses.first);
            add("tunnel port", port_is_left(first, Route::new(family, config.inbound_tunnel_port)));
            add("DNS setting", dns_setting(first, Route::new(family, 53), config));
        }
    }
    if config.needs_policy_routes() {
        add("TPROXY's policy routes", policy_routes(config));
    }
    match rules(config) {
        state @ State::Unproven(_) => {
            add("rules", state);
            for path in ["inbound from outside", "outbound of the app", "DNS of the app"] {
                let why = "packets of that path cannot be sent from here, and the rules cannot be read";
                add(path, State::Unproven(why.to_owned()));
            }
        }
        state => add("rules", state),
    }
    findings
}

fn is_user(ids: &[Id]) -> bool {
    ids.contains(&Id::Number(rustix::process::geteuid().as_raw()))
}

/// Upstream probes the family of the first address only.
fn second_family(probe_port: u16, whole: &Whole) -> State {
    let second = match family(whole.addresses.first) {
        Family::V6 => Family::V4,
        Family::V4 if whole.config.ipv6 => Family::V6,
        Family::V4 => {
            return State::Unproven("IPv6 is not redirected here: the first address is IPv4".to_owned());
        }
    };
    let route = Route::new(second, probe_port);
    let mut listeners = Listeners::default();
    let mut failed = None;
    for port in ports(&whole.config) {
        failed = listeners.add((route.source, port).into()).err().or(failed);
    }
    if let (true, Some(errno)) = (listeners.is_empty(), failed) {
        return State::Unproven(format!("cannot listen on {}: {errno}", route.source));
    }
    match listeners.send(&route, PATIENCE) {
        Fate::Arrived(arrival) => State::Holds(format!("{} arrived on port {}", route.target, arrival.port)),
        fate => State::Broken(format!("{} {fate}", route.target)),
    }
}

/// A port that rules leave alone.
fn port_is_left(listeners: &Listeners, route: Route) -> State {
    match listeners.send(&route, PATIENCE) {
        Fate::NotRedirected => State::Holds(format!("{} is left alone", route.target)),
        fate => State::Broken(format!("{} {fate}", route.target)),
    }
}

/// Rules made with DNS capture leave the proxy's connections to port 53 alone; rules made without it do not. That the app's
/// questions are captured does not follow.
fn dns_setting(listeners: &Listeners, route: Route, config: &Config) -> State {
    let made_with = match listeners.send(&route, PATIENCE) {
        Fate::Arrived(_) => "without",
        Fate::NotRedirected => "with",
        fate @ (Fate::Unreachable(_) | Fate::Silence) => {
            return State::Unproven(format!("{} {fate}", route.target));
        }
    };
    let wanted = if config.dns.is_on() { "with" } else { "without" };
    let text = format!("the rules were made {made_with} DNS capture");
    if made_with == wanted {
        State::Holds(text)
    } else {
        State::Broken(format!("{text}, this pod is {wanted} it"))
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arrived(arrival) => write!(out, "is redirected to port {}", arrival.port),
            Self::NotRedirected => out.write_str("is not redirected"),
            Self::Unreachable(errno) => write!(out, "cannot be reached: {errno}"),
            Self::Silence => out.write_str("is not answered"),
        }
    }
}

fn policy_routes(config: &Config) -> State {
    debug_assert_eq!(config.mode, Mode::Tproxy);
    let wanted =
        PolicyRoutes { mark: config.tproxy_mark, table: config.tproxy_route_table, ipv6: config.ipv6 };
    let found = Rtnetlink::open()
        .map_err(|error| chain(&error))
        .and_then(|mut rtnetlink| rtnetlink.has_policy_routes(wanted).map_err(|error| chain(&error)));
    let text = format!("mark {} and table {}", wanted.mark, wanted.table);
    match found {
        Ok(true) => State::Holds(text),
        Ok(false) => State::Broken(format!("{text}: the rule or the local route is missing")),
        Err(error) => State::Unproven(error),
    }
}

/// The live rules, compared with what these settings would make.
fn rules(config: &Config) -> State {
    let snapshot = match netfilter::read() {
        Ok(snapshot) => snapshot,
        Err(error @ ReadError::Permission) => return State::Unproven(error.to_string()),
        Err(error) => return State::Unproven(chain(&error)),
    };
    let differences = |dialect| match ruleset(&Config { dialect, ..config.clone() }) {
        Ok(rules) => Ok(compare(&snapshot, &rules)),
        Err(error) => Err(error.to_string()),
    };
    let mut found = differences(Dialect::Iptables);
    if found
        .as_ref()
        .is_ok_and(|found| found.iter().any(|one| matches!(one, Difference::OtherBackend { .. })))
    {
        found = differences(Dialect::Nft);
    }
    match found {
        Err(error) => State::Unproven(error),
        Ok(found) => match found.first() {
            None => State::Holds("they are what these settings make".to_owned()),
            Some(one) => {
                State::Broken(format!("{} differences from what these settings make; {one}", found.len()))
            }
        },
    }
}
