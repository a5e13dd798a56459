// SPDX-License-Identifier: Apache-2.0
//! Outbound traffic by the owner of its socket: the proxy's is left alone, and chosen groups' is.

use super::OUTBOUND;
use super::sink::Sink;
use crate::config::Config;
use crate::list::Selection;
use crate::ruleset::{Chain, Cidr, Match, Origin, Owner, Port, Protocol, Sense, Target};

const TCP: Match = Match::Protocol(Protocol::Tcp);
const DNS: Port = Port::One(53);

/// The proxy's traffic, first by user, then by group.
pub(super) fn proxy(sink: &mut Sink, config: &Config) {
    let dns = config.dns.is_on();
    let tunnel = config.inbound_tunnel_port;
    let not_tunnel = || Match::DestinationPort(Sense::Not, Port::One(tunnel));
    // With DNS captured, the agent's own questions over TCP must not come back through the proxy's inbound side. Upstream
    // says so by user only.
    let not_dns = || Match::DestinationPorts(Sense::Not, vec![53, tunnel]);
    for uid in &config.proxy_uids {
        let owner = Proxy { owner: Owner::Uid(uid.clone()), origin: Origin::ProxyUid };
        owner.rules(sink, config, &if dns { not_dns() } else { not_tunnel() });
    }
    for gid in &config.proxy_gids {
        let owner = Proxy { owner: Owner::Gid(gid.clone()), origin: Origin::ProxyGid };
        owner.rules(sink, config, &not_tunnel());
    }
}

struct Proxy {
    owner: Owner,
    origin: Origin,
}

impl Proxy {
    fn rules(&self, sink: &mut Sink, config: &Config, ports: &Match) {
        let spot = OUTBOUND.because(self.origin);
        // The app calls its own service: the proxy sends to the pod's address over lo, and the inbound side takes it.
        let to_self = |loopback: Cidr| {
            let mut conditions = Vec::with_capacity(5);
            conditions.extend([lo(), Match::Destination(Sense::Not, loopback), TCP]);
            conditions.extend([ports.clone(), self.is(Sense::Is)]);
            conditions
        };
        sink.append_loopback(spot, to_self, &Target::Jump(Chain::IstioInRedirect));
        // The app calls itself by address: not for the proxy, unless loopback is captured on purpose.
        if !captures_loopback(config) {
            let mut conditions = Vec::with_capacity(4);
            conditions.push(lo());
            if config.dns.is_on() {
                conditions.extend([TCP, Match::DestinationPort(Sense::Not, DNS)]);
            }
            conditions.push(self.is(Sense::Not));
            sink.append(spot, conditions, Target::Return);
        }
        // Anything else of the proxy is on its way out.
        sink.append(spot, vec![self.is(Sense::Is)], Target::Return);
    }

    fn is(&self, sense: Sense) -> Match {
        Match::Owner(sense, self.owner.clone())
    }
}

fn lo() -> Match {
    Match::OutInterface("lo".into())
}

/// True if an included range starts at a loopback address, of either family. An IPv4-mapped address counts as IPv4.
fn captures_loopback(config: &Config) -> bool {
    config.outbound_ranges_include.listed().iter().any(|cidr| cidr.address.to_canonical().is_loopback())
}

/// Groups whose traffic is left alone, or, from a list of captured groups, everybody else's: one rule for all of them, and
/// for an empty list a rule without conditions.
pub(super) fn groups(sink: &mut Sink, config: &Config) {
    let spot = OUTBOUND.because(Origin::OwnerGroups);
    let owner = |sense, group: &crate::ruleset::Id| Match::Owner(sense, Owner::Gid(group.clone()));
    match &config.owner_groups_include {
        Selection::All => {
            for group in &config.owner_groups_exclude {
                sink.append(spot, vec![owner(Sense::Is, group)], Target::Return);
            }
        }
        Selection::List(groups) => {
            let none_of = groups.iter().map(|group| owner(Sense::Not, group)).collect();
            sink.append(spot, none_of, Target::Return);
        }
    }
}
