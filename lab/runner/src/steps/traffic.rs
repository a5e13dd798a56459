// SPDX-License-Identifier: Apache-2.0
//! Traffic: who answers whom, through which hops. Only positive evidence counts: an answer names its listener, and every
//! hop on the way names the destination that it saw.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use cluster::{Answer, ProxyHop, Traffic, Transport};
use cucumber::{then, when};
use redirect::ruleset::Family;

use crate::stop::{Step, Stop};
use crate::truth::data::family_of;
use crate::truth::flow::loopback;
use crate::world::{LabWorld, Sent};

/// The app's user and group in every pod of the lab.
const APP: (u32, u32) = (1000, 1000);

/// The sources that the proxy uses towards its own app, so that rules can tell.
const INBOUND_SOURCES: [&str; 2] = ["127.0.0.6", "::6"];

/// How traffic is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    /// The addressee's app answers, and nothing was in between.
    Direct,
    /// The addressee's app answers, after these ports of proxies.
    Passes(Vec<u16>),
    /// A proxy answers by itself, on this port.
    EndsAt(u16),
}

impl FromStr for Ending {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let port = |text: &str| text.parse::<u16>().map_err(|_| format!("{text:?} is no port"));
        if text == "is direct" {
            Ok(Self::Direct)
        } else if let Some(ports) = text.strip_prefix("passes ") {
            ports.split(" and ").map(port).collect::<Result<_, _>>().map(Self::Passes)
        } else if let Some(at) = text.strip_prefix("ends at ") {
            port(at).map(Self::EndsAt)
        } else {
            Err(format!("{text:?} is no ending of traffic"))
        }
    }
}

/// One line of a feature, as it says who sends what to whom.
struct Line {
    from: String,
    to: String,
    transport: Transport,
    port: u16,
    family: Family,
    sender: String,
}

#[then(
    regex = r#"^(TCP|UDP) from "([^"]+)" to ("[^"]+"|itself|its loopback address) port (\d+)((?: over IPv[46])?)((?: as (?:its proxy|its proxy's user|its proxy's group|root|user \d+))?) (is direct|passes [\d and]+|ends at \d+)$"#
)]
#[expect(clippy::too_many_arguments, reason = "one for each part of the sentence")]
async fn traffic(
    world: &mut LabWorld,
    transport: String,
    from: String,
    to: String,
    port: u16,
    over: String,
    sender: String,
    ending: Ending,
) -> Step {
    let line = Line {
        from,
        to,
        transport: if transport == "TCP" { Transport::Tcp } else { Transport::Udp },
        port,
        family: if over.ends_with('6') { Family::V6 } else { Family::V4 },
        sender: sender.trim().to_owned(),
    };
    let sent = send(world, &line).await?;
    judge(world, &line, &sent, &ending).await
}

#[when(regex = r#"^"([^"]+)" sends (TCP|UDP) to "([^"]+)" port (\d+)$"#)]
async fn sends(world: &mut LabWorld, from: String, transport: String, to: String, port: u16) -> Step {
    let transport = if transport == "TCP" { Transport::Tcp } else { Transport::Udp };
    let to = format!("\"{to}\"");
    let line = Line { from, to, transport, port, family: Family::V4, sender: String::new() };
    send(world, &line).await.map(drop)
}

/// The address of a started pod.
async fn address(world: &mut LabWorld, name: &str, family: Family) -> Result<IpAddr, Stop> {
    let addresses = world.workload(name).await?.addresses();
    let found = addresses.iter().copied().find(|address| family_of(*address) == family);
    found.ok_or_else(|| Stop::harness(format!("{name:?} has no {family:?} address among {addresses:?}")))
}

async fn send(world: &mut LabWorld, line: &Line) -> Result<Sent, Stop> {
    world.run_pod(&line.from).await?;
    let destination = match line.to.trim_matches('"') {
        "itself" => address(world, &line.from, line.family).await?,
        "its loopback address" => loopback(line.family),
        name => {
            world.run_pod(name).await?;
            address(world, name, line.family).await?
        }
    };
    let (uid, gid) = sender(world, line)?;
    let traffic = Traffic { transport: line.transport, destination, port: line.port, uid, gid, source: None };
    let answer = world.workload(&line.from).await?.send(&traffic).await?;
    let sent = Sent { from: line.from.clone(), traffic, answer };
    world.traffic.push(sent.clone());
    Ok(sent)
}

fn sender(world: &mut LabWorld, line: &Line) -> Result<(u32, u32), Stop> {
    let pod = world.pod(&line.from)?;
    let proxy = (pod.proxy_uid(), pod.proxy_gid());
    Ok(match line.sender.as_str() {
        "" => APP,
        "as its proxy" => proxy,
        "as its proxy's user" => (proxy.0, APP.1),
        "as its proxy's group" => (APP.0, proxy.1),
        "as root" => (0, 0),
        other => {
            let uid = other.rsplit(' ').next().and_then(|uid| uid.parse().ok());
            (uid.ok_or_else(|| Stop::harness(format!("{other:?} is no sender")))?, APP.1)
        }
    })
}

async fn judge(world: &mut LabWorld, line: &Line, sent: &Sent, ending: &Ending) -> Step {
    let destination = SocketAddr::new(sent.traffic.destination, line.port).to_string();
    let wrong = |what: &str| Err(Stop::wrong(format!("{what}: the answer was {:?}", sent.answer)));
    let (port, peer, via) = match (&sent.answer, ending) {
        (Answer::App { port, peer, via }, Ending::Direct | Ending::Passes(_)) => (*port, peer, via),
        (Answer::Proxy { hop }, Ending::EndsAt(at)) if hop.port == *at => {
            originals(std::slice::from_ref(hop), &destination)?;
            // What the proxy's inbound side had caught and carried on would come from an address of its own.
            let client = address(world, &line.from, line.family).await?;
            if parse_peer(&hop.peer)?.ip() == client {
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
    if port != line.port {
        return wrong(&format!("the app's port {port} answered and not {}", line.port));
    }
    originals(via, &destination)?;
    let client = address(world, &line.from, line.family).await?;
    let peer = parse_peer(peer)?;
    let inbound = wanted.last() == Some(&15006);
    let right = if inbound {
        INBOUND_SOURCES.contains(&peer.ip().to_string().as_str())
    } else {
        peer.ip() == client || peer.ip() == sent.traffic.destination
    };
    if right { Ok(()) } else { wrong(&format!("the app saw {peer} as its client")) }
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
    fn endings_are_read() {
        assert_eq!("is direct".parse(), Ok(Ending::Direct));
        assert_eq!("passes 15001 and 15006".parse(), Ok(Ending::Passes(vec![15001, 15006])));
        assert_eq!("ends at 15021".parse(), Ok(Ending::EndsAt(15021)));
        assert!("vanishes".parse::<Ending>().is_err());
    }

    #[test]
    fn a_hop_must_know_the_destination() {
        let hop = |original: &str| ProxyHop { port: 15001, original: original.into(), peer: String::new() };
        assert!(originals(&[hop("10.0.0.1:80")], "10.0.0.1:80").is_ok());
        assert!(originals(&[hop("127.0.0.1:15001")], "10.0.0.1:80").is_err());
    }
}
