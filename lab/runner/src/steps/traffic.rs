// SPDX-License-Identifier: Apache-2.0
//! Traffic: who answers whom, through which hops. Only positive evidence counts: an answer names its listener, and every
//! hop on the way names the destination that it saw.

pub mod captured;
mod foretold;
pub mod kept;
mod words;

use std::net::{IpAddr, SocketAddr};

use cluster::{Answer, ProxyHop, Segment, Stray, StrayEnding, Traffic, Workload};
use cucumber::{then, when};
use redirect::host::loopback;
use redirect::ruleset::Family;

use crate::steps::nodes;
use crate::steps::world::{LabWorld, Sent};
use crate::stop::{Step, Stop, expect_eq};
use words::{Ending, How, Line};

/// User and group of the app in every pod of the lab.
const APP: (u32, u32) = (1000, 1000);

/// The sources that the proxy uses towards its own app, so that rules can tell.
const INBOUND_SOURCES: [&str; 2] = ["127.0.0.6", "::6"];

/// The pod that scenarios introduce for traffic with what is not in the mesh.
const OUTSIDE: &str = "outside";

/// Prefix of a service.
const SERVICE: &str = "service \"";

/// Prefix of an address that the sender has on `lo`.
const OWN_ADDRESS: &str = "its address ";

/// `over IPv6`, `over net1` or both; `passes 15001 and 15006` names the proxies' ports in the order in which the packet meets them.
#[then(
    regex = r#"^(TCP|UDP) from ((?:the guest of )?"[^"]+") to ("[^"]+"|service "[^"]+"|the host outside|itself|its loopback address|its address [\d.]+) port (\d+)((?: over \w+)*(?: as (?:its proxy|its proxy's user|its proxy's group|root|user \d+|group \d+))?(?: from port \d+)?) (is direct|passes [\d and]+|ends at \d+)$"#
)]
async fn traffic(
    world: &mut LabWorld,
    transport: String,
    from: String,
    to: String,
    port: u16,
    how: How,
    ending: Ending,
) -> Step {
    let line = Line::new(&transport, &from, to, port, how);
    let sent = send(world, &line).await?;
    judge(world, &line, &sent, &ending).await
}

/// One packet of the pod to pod "outside" passes its proxy, and one from there.
pub(super) async fn redirected(world: &mut LabWorld, name: &str) -> Step {
    let drawn = world.lab()?.plan.drawn();
    let outside = drawn.map_or_else(|| OUTSIDE.to_owned(), |drawn| drawn.name(OUTSIDE));
    for (from, to, proxy) in [(name, &*outside, 15001), (&*outside, name, 15006)] {
        let line = Line::new("TCP", &format!("\"{from}\""), format!("\"{to}\""), 8080, How::default());
        let sent = send(world, &line).await?;
        judge(world, &line, &sent, &Ending::Passes(vec![proxy])).await?;
    }
    Ok(())
}

/// The answer is not looked at.
#[when(regex = r#"^"([^"]+)" sends (TCP|UDP) to "([^"]+)" port (\d+)$"#)]
async fn sends(world: &mut LabWorld, from: String, transport: String, to: String, port: u16) -> Step {
    let line = Line::new(&transport, &from, format!("\"{to}\""), port, How::default());
    send(world, &line).await.map(drop)
}

#[then(
    regex = r#"^a stray (FIN|SYN-ACK) from "([^"]+)" to "([^"]+)" port (\d+)((?: over IPv[46])?) (is reset|vanishes)$"#
)]
async fn stray(
    world: &mut LabWorld,
    segment: String,
    from: String,
    to: String,
    port: u16,
    how: How,
    ending: String,
) -> Step {
    world.run_pod(&from).await?;
    world.run_pod(&to).await?;
    let destination = address(world, &to, how.family.unwrap_or(Family::V4)).await?;
    let segment = if segment == "FIN" { Segment::FinAck } else { Segment::SynAck };
    let seen = world.workload(&from).await?.stray(&Stray { destination, port, segment }).await?;
    let wanted = if ending == "is reset" { StrayEnding::Reset } else { StrayEnding::Nothing };
    expect_eq("what came back", &seen, &wanted)
}

/// Address of a started pod.
pub(super) async fn address(world: &mut LabWorld, name: &str, family: Family) -> Result<IpAddr, Stop> {
    let addresses = world.workload(name).await?.addresses();
    if addresses.is_empty() {
        return Err(Stop::wrong(format!("{name:?} runs without an address: the chain gave it none")));
    }
    let found = addresses.iter().copied().find(|address| is_of(*address, family));
    found.ok_or_else(|| Stop::harness(format!("{name:?} has no {family:?} address among {addresses:?}")))
}

fn is_of(address: IpAddr, family: Family) -> bool {
    address.is_ipv4() == (family == Family::V4)
}

async fn send(world: &mut LabWorld, line: &Line) -> Result<Sent, Stop> {
    world.run_pod(&line.from.pod).await?;
    let destination = destination(world, line).await?;
    let (uid, gid) = owner(world, line)?;
    let traffic = Traffic {
        transport: line.transport,
        destination,
        port: line.port,
        uid,
        gid,
        source_port: line.how.source_port,
    };
    let answer = from(world, line).await?.send(&traffic).await?;
    let sent = Sent { from: line.from.pod.clone(), traffic, answer };
    world.traffic.push(sent.clone());
    Ok(sent)
}

/// Sending pod, or the guest in it.
async fn from(world: &mut LabWorld, line: &Line) -> Result<Box<dyn Workload>, Stop> {
    let workload = world.workload(&line.from.pod).await?;
    Ok(if line.from.is_guest { workload.guest()? } else { workload })
}

async fn destination(world: &mut LabWorld, line: &Line) -> Result<IpAddr, Stop> {
    let name = match line.to.trim_matches('"') {
        "its loopback address" => return Ok(loopback(line.family())),
        own if own.starts_with(OWN_ADDRESS) => {
            return own.trim_start_matches(OWN_ADDRESS).parse().map_err(Stop::harness);
        }
        "the host outside" => return nodes::outside(line.family()),
        service if service.starts_with(SERVICE) => {
            return nodes::address_of_service(world, service.trim_start_matches(SERVICE)).await;
        }
        "itself" => &line.from.pod,
        other => other,
    };
    world.run_pod(name).await?;
    let Some(interface) = &line.how.interface else { return address(world, name, line.family()).await };
    let addresses = world.workload(name).await?.addresses_on(interface);
    let found = addresses.into_iter().find(|address| is_of(*address, line.family()));
    found.ok_or_else(|| Stop::harness(format!("{name:?} has no such address on {interface}")))
}

fn owner(world: &mut LabWorld, line: &Line) -> Result<(u32, u32), Stop> {
    let pod = world.pod(&line.from.pod)?;
    let Some(owner) = line.how.owner.as_deref() else { return Ok(APP) };
    let number = owner.rsplit(' ').next().and_then(|number| number.parse().ok());
    Ok(match (owner, number) {
        ("its proxy", _) => pod.proxy_process(),
        ("its proxy's user", _) => (pod.proxy_uid(), APP.1),
        ("its proxy's group", _) => (APP.0, pod.proxy_gid()),
        ("root", _) => (0, 0),
        (user, Some(uid)) if user.starts_with("user ") => (uid, APP.1),
        (group, Some(gid)) if group.starts_with("group ") => (APP.0, gid),
        _ => return Err(Stop::harness(format!("{owner:?} is no sender"))),
    })
}

/// Every address that the sender may be seen with.
async fn sender(world: &mut LabWorld, line: &Line) -> Result<Client, Stop> {
    if world.pod(&line.from.pod)?.host_network {
        return Ok(Client::Node);
    }
    let mut all = from(world, line).await?.addresses();
    if let Some(interface) = &line.how.interface {
        all.extend(world.workload(&line.from.pod).await?.addresses_on(interface));
    }
    Ok(Client::Sender(all))
}

async fn judge(world: &mut LabWorld, line: &Line, sent: &Sent, ending: &Ending) -> Step {
    let destination = SocketAddr::new(sent.traffic.destination, line.port).to_string();
    let wrong = |what: &str| Err(Stop::wrong(format!("{what}: the answer was {:?}", sent.answer)));
    let (port, peer, via) = match (&sent.answer, ending) {
        (Answer::App { port, peer, via }, Ending::Direct | Ending::Passes(_)) => (*port, peer, via),
        (Answer::Proxy { hop }, Ending::EndsAt(at)) if hop.port == *at => {
            originals(std::slice::from_ref(hop), &destination)?;
            // Traffic forwarded by the proxy's inbound side would come from an address of its own.
            let client = parse_peer(&hop.peer)?.ip();
            if sender(world, line).await?.is(client) {
                return Ok(());
            }
            return wrong(&format!("the proxy saw {} as its client", hop.peer));
        }
        _ => return wrong(&format!("{ending:?} was wanted")),
    };
    let wanted: &[u16] = if let Ending::Passes(ports) = ending { ports } else { &[] };
    let hops: Vec<u16> = via.iter().map(|hop| hop.port).collect();
    if hops != wanted {
        return wrong(&format!("it passed {hops:?} and not {wanted:?}"));
    }
    if port != port_behind(world, line).await? {
        return wrong(&format!("the app's port {port} answered and not {}", line.port));
    }
    originals(via, &destination)?;
    let client = client_of_app(world, line, wanted).await?;
    let peer = parse_peer(peer)?;
    if client.is(peer.ip()) { Ok(()) } else { wrong(&format!("the app saw {peer} as its client")) }
}

/// The app's port: a service may have another.
async fn port_behind(world: &mut LabWorld, line: &Line) -> Result<u16, Stop> {
    match line.to.strip_prefix(SERVICE) {
        Some(service) => nodes::port_of_service(world, service.trim_matches('"')).await,
        None => Ok(line.port),
    }
}

/// Client address that an app must see.
enum Client {
    /// The proxy in front of it.
    Helper,
    /// The sender, by one of these addresses.
    Sender(Vec<IpAddr>),
    /// A node, by whichever of its addresses is nearest to the pod.
    Node,
}

impl Client {
    fn is(&self, address: IpAddr) -> bool {
        let is_helper = INBOUND_SOURCES.contains(&address.to_string().as_str());
        match self {
            Self::Helper => is_helper,
            Self::Sender(all) => all.contains(&address),
            Self::Node => !is_helper && !address.is_loopback(),
        }
    }
}

async fn client_of_app(world: &mut LabWorld, line: &Line, hops: &[u16]) -> Result<Client, Stop> {
    if line.to == "the host outside" && !world.node.pods_are_routed {
        return Ok(Client::Sender(nodes::addresses(world, &line.from.pod).await?));
    }
    let name = if line.to.starts_with('"') { line.to.trim_matches('"') } else { &line.from.pod };
    let caught_inbound = hops.last() == Some(&15006);
    if caught_inbound && !world.pod(name)?.is_tproxy() {
        return Ok(Client::Helper);
    }
    let Client::Sender(mut all) = sender(world, line).await? else { return Ok(Client::Node) };
    // Traffic that a proxy forwards for a guest comes from the pod.
    if !hops.is_empty() {
        all.extend(world.workload(&line.from.pod).await?.addresses());
    }
    if line.to == "its loopback address" || line.to.starts_with(OWN_ADDRESS) {
        all.push(loopback(line.family()));
    }
    Ok(Client::Sender(all))
}

fn parse_peer(text: &str) -> Result<SocketAddr, Stop> {
    text.parse().map_err(|_| Stop::harness(format!("{text:?} is no peer")))
}

/// Every proxy on the way must know where the traffic was addressed to. (A datagram's original destination is beyond it.)
fn originals(via: &[ProxyHop], destination: &str) -> Step {
    match via.iter().find(|hop| hop.original != destination && hop.port != 15053) {
        None => Ok(()),
        Some(hop) => Err(Stop::wrong(format!(
            "the proxy's port {} took {} for the destination, which was {destination}",
            hop.port, hop.original
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_must_know_the_destination() {
        let hop = |original: &str| ProxyHop { port: 15001, original: original.into(), peer: String::new() };
        assert!(originals(&[hop("10.0.0.1:80")], "10.0.0.1:80").is_ok());
        assert!(originals(&[hop("127.0.0.1:15001")], "10.0.0.1:80").is_err());
    }
}
