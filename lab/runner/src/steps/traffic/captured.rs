// SPDX-License-Identifier: Apache-2.0
//! Packets of an application, seen on the interfaces of its pod. An answer tells the way of a connection; a capture sees each of its packets,
//! the last ones included.

use std::net::IpAddr;
use std::ops::Range;

use cluster::hand::{Capture, Count, Direction, Flow, Packet, Transport as Ports};
use cluster::{Traffic, Transport};
use cucumber::{given, then, when};
use redirect::ruleset::Family;

use super::{APP, address};
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop};

/// Packets that are kept as evidence.
const KEPT: u32 = 2000;
/// First source port of the application's connections: below those that the kernel chooses, so that no other connection has one of them.
const FIRST: u16 = 20_001;

/// A capture, and the connections in it.
#[derive(Debug)]
pub struct Captured {
    capture: Capture,
    /// Source ports of the application.
    ports: Range<u16>,
    destination: Option<(IpAddr, u16)>,
}

/// All interfaces of the pod, from now on.
#[given(regex = r#"^the packets of "([^"]+)" are captured$"#)]
async fn captured(world: &mut LabWorld, name: String) -> Step {
    world.run_pod(&name).await?;
    let workload = world.workload(&name).await?;
    let capture = workload.hand().await?.capture(workload.network_namespace()?, KEPT, None).await?;
    world.captured = Some(Captured { capture, ports: FIRST..FIRST, destination: None });
    Ok(())
}

/// One after the other, each to its end; the answers are not looked at.
#[when(regex = r#"^its application opens (\d+) TCP connections to "([^"]+)" port (\d+)( over IPv6)?$"#)]
async fn opens(world: &mut LabWorld, count: u16, to: String, port: u16, family: String) -> Step {
    world.run_pod(&to).await?;
    let family = if family.is_empty() { Family::V4 } else { Family::V6 };
    let destination = address(world, &to, family).await?;
    let captured = world.captured.as_mut().ok_or_else(|| Stop::harness("no packets are captured"))?;
    (captured.ports, captured.destination) = (FIRST..FIRST + count, Some((destination, port)));
    let traffic = captured.ports.clone().map(|source_port| Traffic {
        transport: Transport::Tcp,
        destination,
        port,
        uid: APP.0,
        gid: APP.1,
        source_port,
    });
    let from = world.it.clone();
    world.workload(&from).await?.send_all(&traffic.collect::<Vec<_>>()).await?;
    Ok(())
}

/// Packets of its connections on any interface but `lo`; those that its proxy sends in their place have other ports.
#[then(regex = r"^(\d+) packets of its application left the pod past its proxy$")]
async fn past_the_proxy(world: &mut LabWorld, wanted: u64) -> Step {
    let captured = world.captured.take().ok_or_else(|| Stop::harness("no packets are captured"))?;
    let (address, port) = captured.destination.ok_or_else(|| Stop::harness("nobody sent anything"))?;
    let (packets, counts) = captured.capture.stop().await?;
    if counts.lost > 0 {
        return Err(Stop::harness(format!("the kernel dropped {} packets of the capture", counts.lost)));
    }
    let of_application = |flow: &Flow| match flow.transport {
        Ports::Tcp { source, .. } => captured.ports.contains(&source),
        _ => false,
    };
    let leaves = |flow: &Flow, interface: &str, direction| {
        direction == Direction::Out && interface != "lo" && of_application(flow)
    };
    let proxys = |count: &Count| {
        let to = (count.flow.destination, count.flow.transport);
        matches!(to, (of, Ports::Tcp { destination, .. }) if of == address && destination == port)
            && count.direction == Direction::Out
            && !of_application(&count.flow)
    };
    let past = counts.sum(|count| leaves(&count.flow, &count.interface, count.direction));
    if past == wanted {
        // Nobody can leave who does not send.
        let seen = counts.sum(|count| of_application(&count.flow));
        let carried = counts.sum(proxys);
        world.notes.push(format!("{seen} packets of the application, {carried} of its proxy"));
        return match (seen, carried) {
            (0, _) => Err(Stop::harness("the capture saw no packet of the application")),
            (_, 0) => Err(Stop::wrong("its proxy carried nothing on")),
            _ => Ok(()),
        };
    }
    let left = |packet: &&Packet| leaves(&packet.flow, &packet.interface, packet.direction);
    Err(Stop::wrong(format!("{past} did, the first as {:?}", packets.iter().find(left))))
}
