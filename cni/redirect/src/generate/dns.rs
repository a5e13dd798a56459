// SPDX-License-Identifier: Apache-2.0
//! DNS to the agent, and the conntrack zones that keep the app's questions apart from the agent's own: both go from the
//! same address to the same resolver, and may even use the same source port.

use super::OUTBOUND;
use super::sink::{At, Sink, Spot};
use crate::config::{Config, DNS_PORT, Dns};
use crate::ruleset::{
    Chain, Cidr, Dialect, Family, Match, Origin, Owner, Port, Protocol, Scope, Sense, Table, Target,
};

const TO_DNS: Match = Match::DestinationPort(Sense::Is, Port::One(53));
const FROM_DNS: Match = Match::SourcePort(Sense::Is, Port::One(53));
const FROM_AGENT: Match = Match::SourcePort(Sense::Is, Port::One(DNS_PORT));

/// The agent's exchange with resolvers.
const RESOLVER_ZONE: Target = Target::CtZone(1);
/// The app's exchange with the agent.
const CLIENT_ZONE: Target = Target::CtZone(2);

const NAT: Spot = At(Table::Nat, Chain::IstioOutputDns).because(Origin::Dns);
const RAW_OUT: Spot = At(Table::Raw, Chain::IstioOutputDns).because(Origin::Dns);
const RAW_IN: Spot = At(Table::Raw, Chain::IstioInbound).because(Origin::Dns);
const RAW_OUTPUT: Spot = At(Table::Raw, Chain::Output).because(Origin::Dns);
const RAW_PREROUTING: Spot = At(Table::Raw, Chain::Prerouting).because(Origin::Dns);

/// All rules of DNS capture, if it is on.
pub(super) fn capture(sink: &mut Sink, config: &Config) {
    if !config.dns.is_on() {
        return;
    }
    let servers = servers(&config.dns);
    sink.append(RAW_OUTPUT, vec![], Target::Jump(Chain::IstioOutputDns));
    enter(sink, &servers);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        servers.each(|scope, server| {
            // The native rule for everybody's TCP is the one that names its protocol twice.
            let spelled = protocol == Protocol::Tcp && server.is_none();
            let of = if spelled { Match::Protocol(protocol) } else { sink.port_protocol(protocol) };
            let conditions = with_server(vec![of, TO_DNS], server.map(to));
            put(sink, NAT, scope, conditions, Target::Redirect { port: DNS_PORT });
        });
    }
    // The first zone that a packet is put in stays, so the agent's own packets come before everybody's.
    let uids = config.proxy_uids.iter().map(|uid| Owner::Uid(uid.clone()));
    let gids = config.proxy_gids.iter().map(|gid| Owner::Gid(gid.clone()));
    for owner in uids.chain(gids) {
        let owner = Match::Owner(Sense::Is, owner);
        let udp = || sink.port_protocol(Protocol::Udp);
        let (asks, answers) = (vec![udp(), TO_DNS, owner.clone()], vec![udp(), FROM_AGENT, owner]);
        sink.append(RAW_OUT, asks, RESOLVER_ZONE);
        sink.append(RAW_OUT, answers, CLIENT_ZONE);
    }
    zones(sink, &servers);
}

/// The way into the chain of nat: in the native dialect one, for both families.
fn enter(sink: &mut Sink, servers: &Servers) {
    let spot = OUTBOUND.because(Origin::Dns);
    let jump = Target::Jump(Chain::IstioOutputDns);
    match sink.dialect() {
        Dialect::Nft => sink.append(spot, vec![], jump),
        Dialect::Iptables => {
            for family in [Family::V4, Family::V6].into_iter().filter(|&family| servers.cover(family)) {
                sink.append_only(spot, family, vec![], jump.clone());
            }
        }
    }
}

/// The zones of everybody's questions, and of the answers that come in from resolvers.
fn zones(sink: &mut Sink, servers: &Servers) {
    let mut entered = None;
    servers.each(|scope, server| {
        let jump = match sink.dialect() {
            Dialect::Iptables => scope,
            Dialect::Nft => Scope::Both,
        };
        if entered != Some(jump) {
            put(sink, RAW_PREROUTING, jump, vec![], Target::Jump(Chain::IstioInbound));
            entered = Some(jump);
        }
        let udp = || sink.port_protocol(Protocol::Udp);
        let asks = with_server(vec![udp(), TO_DNS], server.map(to));
        let answers = with_server(vec![udp(), FROM_DNS], server.map(from));
        put(sink, RAW_OUT, scope, asks, CLIENT_ZONE);
        put(sink, RAW_IN, scope, answers, RESOLVER_ZONE);
    });
}

fn put(sink: &mut Sink, spot: Spot, scope: Scope, matches: Vec<Match>, target: Target) {
    match scope {
        Scope::Both => sink.append(spot, matches, target),
        Scope::Only(family) => sink.append_only(spot, family, matches, target),
    }
}

fn to(server: Cidr) -> Match {
    Match::Destination(Sense::Is, server)
}

fn from(server: Cidr) -> Match {
    Match::Source(Sense::Is, server)
}

fn with_server(mut matches: Vec<Match>, server: Option<Match>) -> Vec<Match> {
    matches.extend(server);
    matches
}

/// Whose port 53 is captured.
enum Servers {
    /// Everybody's.
    Any,
    /// These hosts', IPv4 first.
    Only(Vec<Cidr>),
}

fn servers(dns: &Dns) -> Servers {
    match dns {
        Dns::Off => Servers::Only(Vec::new()),
        Dns::All => Servers::Any,
        Dns::Servers { v4, v6 } => {
            let v4 = v4.iter().map(|&address| Cidr { address: address.into(), length: 32 });
            let v6 = v6.iter().map(|&address| Cidr { address: address.into(), length: 128 });
            Servers::Only(v4.chain(v6).collect())
        }
    }
}

impl Servers {
    fn cover(&self, family: Family) -> bool {
        match self {
            Self::Any => true,
            Self::Only(hosts) => hosts.iter().any(|host| host.family() == family),
        }
    }

    /// Calls `rule` once for everybody, or once for each host.
    fn each(&self, mut rule: impl FnMut(Scope, Option<Cidr>)) {
        match self {
            Self::Any => rule(Scope::Both, None),
            Self::Only(hosts) => hosts.iter().for_each(|&host| rule(Scope::Only(host.family()), Some(host))),
        }
    }
}
