// SPDX-License-Identifier: Apache-2.0
//! What the evaluator says of a pod's packets: from the same object that the API holds, by the same decisions that the
//! plugin makes, but with nothing applied anywhere.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context as _, bail};
use protocol::pod::PodFacts;
use redirect::host::{Environment, Host, decide_addresses};
use redirect::packet::{Hook, Outcome};
use redirect::ruleset::{Family, Ruleset};
use redirect::{Enrolment, enrol, generate, text};

use super::data::{PacketSpec, Sender, Way};
use super::flow::{Flow, Owner, loopback};
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

/// The flow of a packet between these addresses.
pub fn flow(spec: &PacketSpec, family: Family, pod: &Pod, addresses: &Addresses) -> anyhow::Result<Flow> {
    let own = Addresses::pick(&addresses.pod, family)?;
    let outside = Addresses::pick(&addresses.outside, family)?;
    let (hook, source, destination, to_itself) = match spec.way {
        Way::Out(super::data::Peer::Outside) => (Hook::Output, own, outside, false),
        Way::Out(super::data::Peer::Beyond) => {
            (Hook::Output, own, Addresses::pick(&addresses.beyond, family)?, false)
        }
        Way::In => (Hook::Prerouting, outside, own, false),
        Way::Own => (Hook::Output, own, own, true),
        Way::Loopback => (Hook::Output, loopback(family), loopback(family), true),
    };
    Ok(Flow {
        hook,
        transport: spec.transport,
        source: spec.source.unwrap_or(source),
        destination: SocketAddr::new(destination, spec.port),
        to_itself,
        client: owner(spec.sender, pod),
        app: APP,
        proxy: Owner { uid: pod.proxy_uid(), gid: pod.proxy_gid() },
    })
}

/// Who a sender is in this pod.
#[must_use]
pub fn owner(sender: Sender, pod: &Pod) -> Owner {
    let proxy = Owner { uid: pod.proxy_uid(), gid: pod.proxy_gid() };
    match sender {
        Sender::App => APP,
        Sender::Proxy => proxy,
        Sender::ProxyUser => Owner { uid: proxy.uid, gid: APP.gid },
        Sender::ProxyGroup => Owner { uid: APP.uid, gid: proxy.gid },
        Sender::Root => Owner { uid: 0, gid: 0 },
    }
}

/// What the evaluator expects of a flow.
#[must_use]
pub fn expect(rules: &Ruleset, flow: &Flow, family: Family) -> Expected {
    let verdicts = flow.walk(rules);
    let moved = verdicts
        .iter()
        .flat_map(|verdict| &verdict.steps)
        .map(|step| RuleId {
            family: family_name(family),
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
