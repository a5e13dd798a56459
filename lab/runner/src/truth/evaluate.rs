// SPDX-License-Identifier: Apache-2.0
//! What the evaluator says of a pod's packets: from the same object that the API holds, by the same decisions that the
//! plugin makes, but with nothing applied anywhere.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context as _, bail};
use cluster::Transport;
use protocol::pod::PodFacts;
use redirect::host::{Environment, Host, decide_addresses, loopback};
use redirect::packet::{Connection, Hook, Layer4, Outcome, Packet};
use redirect::ruleset::{Cidr, Family, Ruleset};
use redirect::{Enrolment, enrol, generate, text};
use truth::flow::{self, Link, Owner, Shape, follow};

use super::data::{PacketSpec, Peer, Sender, Way};
use crate::pod::Pod;

/// One rule in a pod: what its counter is found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId {
    /// `ip` or `ip6`.
    pub family: &'static str,
    /// Table.
    pub table: String,
    /// Chain.
    pub chain: String,
    /// 1-based position.
    pub position: usize,
}

/// The app's user and group in every pod of the lab.
const APP: Owner = Owner { uid: 1000, gid: 1000 };

/// Ports that the proxy itself listens on: the app must leave them alone.
pub const PROXY_PORTS: [u16; 6] = [15001, 15006, 15020, 15021, 15053, 15090];

/// The pod's interface.
const ETH0: &str = "eth0";

/// A port that clients get and no rule names.
const EPHEMERAL: u16 = 40_000;

/// The addresses of a pod and of those that it talks to.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The pod's, in the sandbox' order.
    pub pod: Vec<IpAddr>,
    /// The first pod outside the mesh.
    pub outside: Vec<IpAddr>,
    /// The second.
    pub beyond: Vec<IpAddr>,
}

impl Addresses {
    /// The address of this family among several.
    pub fn pick(among: &[IpAddr], family: Family) -> anyhow::Result<IpAddr> {
        among
            .iter()
            .copied()
            .find(|address| super::data::family_of(*address) == family)
            .with_context(|| format!("no address of {family:?} among {among:?}"))
    }
}

/// The rules that a pod must get, as the plugin would decide them.
pub fn ruleset_of(pod: &Pod, addresses: &[IpAddr]) -> anyhow::Result<Ruleset> {
    let facts: PodFacts = serde_json::from_value(pod.object())?;
    let redirect = match enrol(&facts)? {
        Enrolment::Enrol(redirect) => redirect,
        Enrolment::Skip(reason) => bail!("it would be left alone: {reason}"),
    };
    // The kernel lists all of IPv4 before IPv6, whatever the order in which they were added; so the plugin sees them.
    let mut addresses = addresses.to_vec();
    addresses.sort_by_key(IpAddr::is_ipv6);
    let addresses = decide_addresses(addresses, redirect.stack.value)?;
    let config = redirect.config(&Host { addresses, environment: Environment::default() });
    Ok(generate::ruleset(&config)?)
}

/// What the evaluator expects of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Where the first packet ends up.
    pub outcome: Outcome,
    /// The rules whose counters move.
    pub moved: BTreeSet<RuleId>,
}

/// A pod's network and its processes, as the evaluator takes them. No pod of this table is in TPROXY mode.
#[must_use]
pub fn network(pod: &Pod, addresses: &[IpAddr]) -> flow::Pod {
    let link = |address: &IpAddr| {
        let length = if address.is_ipv4() { 32 } else { 128 };
        Link { name: ETH0.into(), address: Cidr { address: *address, length } }
    };
    flow::Pod {
        links: addresses.iter().map(link).collect(),
        routed_marks: Vec::new(),
        app: APP,
        proxy: proxy(pod),
        proxy_ports: PROXY_PORTS.into(),
    }
}

/// The first packet of a specification, between these addresses.
pub fn packet(spec: &PacketSpec, family: Family, pod: &Pod, addresses: &Addresses) -> anyhow::Result<Packet> {
    let own = Addresses::pick(&addresses.pod, family)?;
    let outside = Addresses::pick(&addresses.outside, family)?;
    let (source, destination) = match spec.way {
        Way::Out(Peer::Outside) => (own, outside),
        Way::Out(Peer::Beyond) => (own, Addresses::pick(&addresses.beyond, family)?),
        Way::In => (outside, own),
        Way::Own => (own, own),
        Way::Loopback => (loopback(family), loopback(family)),
    };
    let sender = (spec.way != Way::In).then(|| owner(spec.sender, pod));
    let (source_port, port) = (EPHEMERAL, spec.port);
    Ok(Packet {
        hook: if sender.is_some() { Hook::Output } else { Hook::Prerouting },
        source: spec.source.unwrap_or(source),
        destination,
        layer4: match spec.transport {
            Transport::Tcp => Layer4::Tcp { source: source_port, destination: port },
            Transport::Udp => Layer4::Udp { source: source_port, destination: port },
        },
        interface: ETH0.into(),
        uid: sender.map(|owner| owner.uid),
        gid: sender.map(|owner| owner.gid),
        connection: Connection::New,
        mark: 0,
        connmark: 0,
    })
}

fn proxy(pod: &Pod) -> Owner {
    Owner { uid: pod.proxy_uid(), gid: pod.proxy_gid() }
}

/// Who a sender is in this pod.
#[must_use]
pub fn owner(sender: Sender, pod: &Pod) -> Owner {
    let proxy = proxy(pod);
    match sender {
        Sender::App => APP,
        Sender::Proxy => proxy,
        Sender::ProxyUser => Owner { uid: proxy.uid, gid: APP.gid },
        Sender::ProxyGroup => Owner { uid: APP.uid, gid: proxy.gid },
        Sender::Root => Owner { uid: 0, gid: 0 },
    }
}

/// What the evaluator expects of a connection that begins with this packet.
#[must_use]
pub fn expect(rules: &Ruleset, network: &flow::Pod, first: &Packet) -> Expected {
    let shape = match first.layer4 {
        Layer4::Tcp { .. } => Shape::Stream,
        _ => Shape::Exchange,
    };
    let verdicts = follow(rules, network, first, shape).verdicts;
    let moved = verdicts
        .iter()
        .flat_map(|verdict| &verdict.steps)
        .map(|step| RuleId {
            family: family_name(first.family()),
            table: step.table.name().to_owned(),
            chain: step.chain.to_owned(),
            position: step.position,
        })
        .collect();
    Expected { outcome: verdicts.first().map_or(Outcome::Untouched, |verdict| verdict.outcome), moved }
}

/// Every rule of a ruleset with its text, as coverage names it: `nat ISTIO_OUTPUT -d 127.0.0.1/32 -j RETURN`.
#[must_use]
pub fn all_rules(rules: &Ruleset) -> Vec<(RuleId, String)> {
    let mut all = Vec::new();
    for family in rules.families() {
        for chain in rules.chains(family) {
            for (index, rule) in chain.rules.iter().enumerate() {
                let id = RuleId {
                    family: family_name(family),
                    table: chain.table.name().to_owned(),
                    chain: chain.chain.name().to_owned(),
                    position: index + 1,
                };
                let text = format!("{} {} {}", id.table, id.chain, text::rule(rules.dialect, rule));
                all.push((id, text));
            }
        }
    }
    all
}

/// The family as rules are found by.
#[must_use]
pub fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}
