// SPDX-License-Identifier: Apache-2.0
//! The same packets in real namespaces: pods are started through the real plugin, every packet is a real one, and the
//! counters of all rules are read before and after it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use cluster::{Answer, Cluster as _, LiveRule, PodStart, Traffic, Transport, Workload};
use futures::{StreamExt as _, TryStreamExt as _};
use redirect::packet::Outcome;
use redirect::ruleset::Family;
use truth::random::Random;

use super::data::{Group, PacketSpec, Peer, PodSpec, Way};
use super::evaluate::{self, Addresses, Expected, PROXY_PORTS, RuleId};
use crate::plan::Plan;
use crate::pod::{Pod, Proxy, ProxyMode};
use crate::tier::{Families, Tier};

/// What was seen of one packet.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The packet, as the data writes it.
    pub packet: String,
    /// The family that it was sent in.
    pub family: Family,
    /// What the evaluator expects.
    pub expected: Expected,
    /// What the answer says of the outcome; a sentence if it says something else.
    pub outcome: Result<Outcome, String>,
    /// The rules whose counters moved.
    pub moved: BTreeSet<RuleId>,
}

/// What was seen of one pod.
#[derive(Debug, Clone)]
pub struct PodSeen {
    /// Its group.
    pub group: String,
    /// Its name.
    pub name: String,
    /// All rules that it must have, with their texts.
    pub rules: Vec<(RuleId, String)>,
    /// Rules that the namespace holds, and the evaluator does not know, or the reverse.
    pub strangers: Vec<RuleId>,
    /// Its packets.
    pub packets: Vec<Seen>,
}

/// Runs every group on one node: pods side by side, a pod's packets one after the other.
pub async fn run(plan: &Plan, tier: &Tier, groups: &[Group]) -> anyhow::Result<Vec<PodSeen>> {
    let pods: Vec<_> =
        groups.iter().flat_map(|group| group.pods.iter().map(move |pod| (group, pod))).collect();
    let ports = outside_ports(&pods);
    let (outside, beyond) =
        futures::try_join!(outsider(tier, "outside", &ports), outsider(tier, "beyond", &ports))?;
    let surroundings = Surroundings { tier, outside: outside.as_ref(), beyond: beyond.as_ref(), plan };
    let work = pods.into_iter().map(|(group, spec)| surroundings.pod(group, spec));
    futures::stream::iter(work).buffered(plan.jobs.max(1)).try_collect().await
}

/// What the pods outside the mesh must listen on.
fn outside_ports(pods: &[(&Group, &PodSpec)]) -> Vec<String> {
    let packets = pods.iter().flat_map(|(group, spec)| group.packets.iter().chain(&spec.packets));
    let ports: BTreeSet<String> =
        packets.filter(|packet| matches!(packet.way, Way::Out(_))).map(endpoint).collect();
    ports.into_iter().collect()
}

fn endpoint(packet: &PacketSpec) -> String {
    match packet.transport {
        Transport::Tcp => format!("tcp:{}", packet.port),
        Transport::Udp => format!("udp:{}", packet.port),
    }
}

async fn outsider(tier: &Tier, name: &str, ports: &[String]) -> anyhow::Result<Box<dyn Workload>> {
    let mut pod = Pod::plain(name, "default");
    pod.families = Families::V4V6;
    pod.ports = ports.to_vec();
    started(tier, &pod).await
}

async fn started(tier: &Tier, pod: &Pod) -> anyhow::Result<Box<dyn Workload>> {
    match tier.start_pod(&pod.namespace, &pod.name, pod.object()).await? {
        PodStart::Running { .. } => Ok(tier.workload(&pod.namespace, &pod.name).await?),
        other => bail!("pod {:?} did not start: {other:?}", pod.name),
    }
}

/// What the pods of one node share.
struct Surroundings<'a> {
    tier: &'a Tier,
    outside: &'a dyn Workload,
    beyond: &'a dyn Workload,
    plan: &'a Plan,
}

impl Surroundings<'_> {
    async fn pod(&self, group: &Group, spec: &PodSpec) -> anyhow::Result<PodSeen> {
        let mut packets: Vec<(PacketSpec, Family)> = group
            .packets
            .iter()
            .chain(&spec.packets)
            .flat_map(|packet| packet.families(spec.families).map(|family| (packet.clone(), family)))
            .collect();
        // What one leaves behind must not matter to the next.
        Random::new(self.plan.seed, &spec.name).shuffle(&mut packets);
        let pod = self.describe(spec, &packets)?;
        let workload = started(self.tier, &pod).await?;
        let addresses = Addresses {
            pod: workload.addresses(),
            outside: self.outside.addresses(),
            beyond: self.beyond.addresses(),
        };
        let rules = evaluate::ruleset_of(&pod, &addresses.pod).with_context(|| spec.name.clone())?;
        let known = evaluate::all_rules(&rules);
        let network = evaluate::network(&pod, &addresses.pod);
        let mut before = counters(workload.rules().await?);
        let mut seen = PodSeen {
            group: group.group.clone(),
            name: spec.name.clone(),
            strangers: strangers(&known, &before),
            rules: known,
            packets: Vec::with_capacity(packets.len()),
        };
        for (packet, family) in packets {
            let first = evaluate::packet(&packet, family, &pod, &addresses)?;
            let sender = evaluate::owner(packet.sender, &pod);
            let traffic = Traffic {
                transport: packet.transport,
                destination: first.destination,
                port: packet.port,
                uid: sender.uid,
                gid: sender.gid,
                source: packet.source,
                source_port: 0,
            };
            let from = if packet.way == Way::In { self.outside } else { workload.as_ref() };
            let answer = from.send(&traffic).await?;
            let after = counters(workload.rules().await?);
            seen.packets.push(Seen {
                packet: packet.to_string(),
                family,
                expected: evaluate::expect(&rules, &network, &first),
                outcome: classify(
                    &answer,
                    &SocketAddr::new(first.destination, packet.port).to_string(),
                    packet.port,
                ),
                moved: moved(&before, &after, family),
            });
            before = after;
        }
        Ok(seen)
    }

    /// The pod of a specification, with its app listening on everything that is sent to it.
    fn describe(&self, spec: &PodSpec, packets: &[(PacketSpec, Family)]) -> anyhow::Result<Pod> {
        let mut pod = Pod::meshed(&spec.name, "shop");
        pod.families = spec.families;
        let proxy = Proxy::default();
        pod.proxy = Some(Proxy {
            uid: spec.uid.or(proxy.uid),
            gid: spec.gid.or(proxy.gid),
            env: spec.env.clone(),
            mode: ProxyMode::Sink,
            ..proxy
        });
        let ports: BTreeSet<String> = packets
            .iter()
            .map(|(packet, _)| packet)
            .filter(|packet| !matches!(packet.way, Way::Out(_)))
            .filter(|packet| packet.transport == Transport::Udp || !PROXY_PORTS.contains(&packet.port))
            .map(endpoint)
            .collect();
        pod.ports = ports.into_iter().collect();
        for (key, value) in &spec.annotations {
            pod.annotations.insert(key.clone(), self.fill_in(value, spec.families)?);
        }
        Ok(pod)
    }

    fn fill_in(&self, text: &str, families: Families) -> anyhow::Result<String> {
        let mut text = text.to_owned();
        for family in families.list() {
            for (peer, workload) in [(Peer::Outside, self.outside), (Peer::Beyond, self.beyond)] {
                let name = match (peer, family) {
                    (Peer::Outside, Family::V4) => "{outside}",
                    (Peer::Outside, Family::V6) => "{outside6}",
                    (Peer::Beyond, Family::V4) => "{beyond}",
                    (Peer::Beyond, Family::V6) => "{beyond6}",
                };
                let address = Addresses::pick(&workload.addresses(), family)?;
                text = text.replace(name, &address.to_string());
            }
        }
        Ok(text)
    }
}

/// What an answer says of the outcome: only positive evidence counts.
fn classify(answer: &Answer, destination: &str, port: u16) -> Result<Outcome, String> {
    match answer {
        Answer::App { port: on, via, .. } if via.is_empty() && *on == port => Ok(Outcome::Untouched),
        Answer::Proxy { hop } if hop.port == port => Ok(Outcome::Untouched),
        // The kernel does not tell a datagram's original destination.
        Answer::Proxy { hop } if hop.original == destination || hop.port == 15053 => {
            Ok(Outcome::Redirected { port: hop.port })
        }
        other => Err(format!("{other:?}")),
    }
}

type Counters = BTreeMap<RuleId, u64>;

fn counters(rules: Vec<LiveRule>) -> Counters {
    rules
        .into_iter()
        .filter_map(|rule| {
            let family = match rule.family.as_str() {
                "ip" => "ip",
                "ip6" => "ip6",
                _ => return None,
            };
            let LiveRule { table, chain, position, packets, .. } = rule;
            Some((RuleId { family, table, chain, position }, packets))
        })
        .collect()
}

/// The rules of the packet's family whose counters moved. In the other family only the kernel itself sends now and then:
/// it looks for neighbours.
fn moved(before: &Counters, after: &Counters, family: Family) -> BTreeSet<RuleId> {
    let family = evaluate::family_name(family);
    after
        .iter()
        .filter(|(id, count)| id.family == family && before.get(id) != Some(count))
        .map(|(id, _)| id.clone())
        .collect()
}

fn strangers(known: &[(RuleId, String)], live: &Counters) -> Vec<RuleId> {
    let known: BTreeSet<&RuleId> = known.iter().map(|(id, _)| id).collect();
    let live: BTreeSet<&RuleId> = live.keys().collect();
    known.symmetric_difference(&live).map(|id| (*id).clone()).collect()
}

#[cfg(test)]
mod tests {
    use cluster::ProxyHop;

    use super::*;

    fn proxy(port: u16, original: &str) -> Answer {
        Answer::Proxy { hop: ProxyHop { port, original: original.into(), peer: "10.0.0.1:5".into() } }
    }

    #[test]
    fn only_positive_evidence_is_an_outcome() {
        let app = Answer::App { port: 80, peer: String::new(), via: Vec::new() };
        assert_eq!(classify(&app, "10.0.0.2:80", 80), Ok(Outcome::Untouched));
        assert!(classify(&app, "10.0.0.2:81", 81).is_err());
        assert!(classify(&Answer::Silence, "10.0.0.2:80", 80).is_err());
        assert!(classify(&Answer::Refused, "10.0.0.2:80", 80).is_err());
    }

    #[test]
    fn a_hop_counts_only_with_the_right_original_destination() {
        assert_eq!(
            classify(&proxy(15001, "10.0.0.2:80"), "10.0.0.2:80", 80),
            Ok(Outcome::Redirected { port: 15001 })
        );
        assert!(classify(&proxy(15001, "10.0.0.3:80"), "10.0.0.2:80", 80).is_err());
        assert_eq!(
            classify(&proxy(15021, "10.0.0.2:15021"), "10.0.0.2:15021", 15021),
            Ok(Outcome::Untouched)
        );
    }
}
