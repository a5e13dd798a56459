// SPDX-License-Identifier: Apache-2.0
//! Forecasts of `istio-iptables explain`, compared with the packet's fate.

use cluster::Transport;
use cluster::hand::{Network, PROMPT, Run};
use cucumber::then;
use redirect::ruleset::Family;
use serde_json::Value;

use super::words::{Ending, How, Line};
use super::{address, destination, judge, owner, send};
use crate::binaries::TOOL;
use crate::steps::world::LabWorld;
use crate::stop::{Step, Stop, expect_eq};

/// In the words of a packet that is sent. `explain` has the plugin's environment.
#[then(
    regex = r#"^explain foretells that (TCP|UDP) from "([^"]+)" to ("[^"]+"|itself|its loopback address) port (\d+)((?: over \w+)*(?: as (?:its proxy|its proxy's user|its proxy's group|root|user \d+|group \d+))?) (is direct|passes [\d and]+|ends at \d+)$"#
)]
async fn foretold(
    world: &mut LabWorld,
    transport: String,
    from: String,
    to: String,
    port: u16,
    how: How,
    ending: Ending,
) -> Step {
    let line = Line::new(&transport, &from, to, port, how);
    let said = explain(world, &line).await?;
    let wanted = match &ending {
        Ending::Direct => None,
        Ending::Passes(ports) => ports.first().copied(),
        Ending::EndsAt(port) => Some(*port).filter(|port| *port != line.port),
    };
    expect_eq("the port that explain names", &port_of(&said)?, &wanted)?;
    if wanted.is_some() && said["steps"].as_array().is_none_or(Vec::is_empty) {
        return Err(Stop::wrong(format!("no rule is named in {said}")));
    }
    let sent = send(world, &line).await?;
    judge(world, &line, &sent, &ending).await
}

fn port_of(said: &Value) -> Result<Option<u16>, Stop> {
    let port = said["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    match said["outcome"].as_str() {
        Some("untouched") => Ok(None),
        Some("redirected" | "intercepted") => Ok(port),
        _ => Err(Stop::wrong(format!("explain says {said}"))),
    }
}

/// Asks about the packet as the pod that has the rules sees it: the one of the mesh that sends it, else the one that gets it.
async fn explain(world: &mut LabWorld, line: &Line) -> Result<Value, Stop> {
    let to = line.to.trim_matches('"').to_owned();
    let is_inbound = world.pod(&line.from.pod)?.proxy.is_none();
    let subject = if is_inbound { to } else { line.from.pod.clone() };
    world.run_pod(&line.from.pod).await?;
    world.run_pod(&subject).await?;
    let transport = if line.transport == Transport::Tcp { "tcp" } else { "udp" };
    let destination = bracketed(destination(world, line).await?, line);
    let (uid, gid) = owner(world, line)?;
    let packet = match line.to.as_str() {
        _ if is_inbound => {
            let source = address(world, &line.from.pod, line.family()).await?;
            format!("in {transport} {destination} from {source}")
        }
        "itself" => format!("own {transport} {destination} uid {uid} gid {gid}"),
        "its loopback address" => format!("loopback {transport} {destination} uid {uid} gid {gid}"),
        _ => format!("out {transport} {destination} uid {uid} gid {gid}"),
    };
    let environment = world.node.plugin_env.clone();
    let subject = world.name_of(&subject)?;
    let cluster = world.cluster().await?;
    let object = cluster.pod(&subject).await?.ok_or_else(|| Stop::harness("it has no object"))?;
    let words = [TOOL, "explain", "--pod", "-", "-o", "json", "--packet", &packet];
    let run = Run { stdin: object.to_string(), environment, ..Run::new(Network::Node, words, PROMPT) };
    let answer = cluster.node()?.hand().await?.run(run).await?;
    let packets = answer.json()["packets"].take();
    match packets.as_array().map(Vec::as_slice) {
        Some([one]) if answer.exit == Some(0) => Ok(one.clone()),
        _ => Err(Stop::wrong(format!("explain of {packet:?} answered {answer:?}"))),
    }
}

fn bracketed(address: std::net::IpAddr, line: &Line) -> String {
    match line.family() {
        Family::V4 => format!("{address}:{}", line.port),
        Family::V6 => format!("[{address}]:{}", line.port),
    }
}
