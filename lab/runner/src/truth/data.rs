// SPDX-License-Identifier: Apache-2.0
//! The truth table's data: one YAML file a group, each with pods and the packets that they send and get.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use cluster::Transport;
use redirect::ruleset::Family;
use serde::Deserialize;
use truth::Unreachable;

use crate::tier::Families;

/// A group of pods that together must move every rule that they have.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What the group is about.
    pub group: String,
    /// Rules that no packet can reach, and why.
    #[serde(default)]
    pub unreachable: Vec<Unreachable>,
    /// Packets of every pod.
    #[serde(default)]
    pub packets: Vec<PacketSpec>,
    /// The pods.
    pub pods: Vec<PodSpec>,
}

/// One pod.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodSpec {
    /// Its name.
    pub name: String,
    /// The addresses that its node gives it.
    #[serde(default)]
    pub families: Families,
    /// Annotations. `{outside}` and `{beyond}` stand for those pods' IPv4 addresses, `{outside6}` and `{beyond6}` for IPv6.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// The proxy's environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The proxy's user.
    #[serde(default)]
    pub uid: Option<i64>,
    /// The proxy's group.
    #[serde(default)]
    pub gid: Option<i64>,
    /// Packets of this pod alone.
    #[serde(default)]
    pub packets: Vec<PacketSpec>,
}

/// A packet, in the words of the data: `out tcp outside 8080 as proxy`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PacketSpec {
    /// Where it comes from and goes to.
    pub way: Way,
    /// TCP or UDP.
    pub transport: Transport,
    /// Only this family; every family that the pod has if absent.
    pub family: Option<Family>,
    /// The destination port.
    pub port: u16,
    /// The source address, if not the kernel's choice.
    pub source: Option<IpAddr>,
    /// Who sends it.
    pub sender: Sender,
}

/// Where a packet comes from and goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the pod to another.
    Out(Peer),
    /// From another pod to the pod.
    In,
    /// From the pod to its own address.
    Own,
    /// From the pod to the loopback address.
    Loopback,
}

/// A pod outside the mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// The first.
    Outside,
    /// The second, for rules that tell destinations apart.
    Beyond,
}

/// Who sends a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The app.
    App,
    /// The proxy: its user and its group.
    Proxy,
    /// The proxy's user in the app's group.
    ProxyUser,
    /// The app's user in the proxy's group.
    ProxyGroup,
    /// Root.
    Root,
}

const SENDERS: [(&str, Sender); 5] = [
    ("app", Sender::App),
    ("proxy", Sender::Proxy),
    ("proxy-user", Sender::ProxyUser),
    ("proxy-group", Sender::ProxyGroup),
    ("root", Sender::Root),
];

const TRANSPORTS: [(&str, Transport, Option<Family>); 6] = [
    ("tcp", Transport::Tcp, None),
    ("tcp4", Transport::Tcp, Some(Family::V4)),
    ("tcp6", Transport::Tcp, Some(Family::V6)),
    ("udp", Transport::Udp, None),
    ("udp4", Transport::Udp, Some(Family::V4)),
    ("udp6", Transport::Udp, Some(Family::V6)),
];

/// A text that is no packet.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0:?} is no packet: out TRANSPORT outside|beyond PORT, or in|own|loopback TRANSPORT PORT, then [from ADDRESS] [as SENDER]"
)]
pub struct NoPacket(String);

impl TryFrom<String> for PacketSpec {
    type Error = NoPacket;

    fn try_from(text: String) -> Result<Self, NoPacket> {
        text.parse()
    }
}

impl FromStr for PacketSpec {
    type Err = NoPacket;

    fn from_str(text: &str) -> Result<Self, NoPacket> {
        parse(text).ok_or_else(|| NoPacket(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PacketSpec> {
    let mut words = text.split_whitespace();
    let way = words.next()?;
    let name = words.next()?;
    let (_, transport, family) = TRANSPORTS.into_iter().find(|(known, ..)| *known == name)?;
    let way = match way {
        "out" => Way::Out(match words.next()? {
            "outside" => Peer::Outside,
            "beyond" => Peer::Beyond,
            _ => return None,
        }),
        "in" => Way::In,
        "own" => Way::Own,
        "loopback" => Way::Loopback,
        _ => return None,
    };
    let port = words.next()?.parse().ok()?;
    let mut spec = PacketSpec { way, transport, family, port, source: None, sender: Sender::App };
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word {
            "from" => spec.source = Some(value.parse().ok()?),
            "as" => spec.sender = SENDERS.into_iter().find(|(known, _)| *known == value)?.1,
            _ => return None,
        }
    }
    Some(spec)
}

impl fmt::Display for PacketSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = TRANSPORTS
            .into_iter()
            .find(|(_, transport, family)| *transport == self.transport && *family == self.family);
        let transport = transport.map_or("?", |(name, ..)| name);
        match self.way {
            Way::Out(Peer::Outside) => write!(out, "out {transport} outside {}", self.port)?,
            Way::Out(Peer::Beyond) => write!(out, "out {transport} beyond {}", self.port)?,
            Way::In => write!(out, "in {transport} {}", self.port)?,
            Way::Own => write!(out, "own {transport} {}", self.port)?,
            Way::Loopback => write!(out, "loopback {transport} {}", self.port)?,
        }
        if let Some(source) = self.source {
            write!(out, " from {source}")?;
        }
        match SENDERS.into_iter().find(|(_, sender)| *sender == self.sender && *sender != Sender::App) {
            Some((name, _)) => write!(out, " as {name}"),
            None => Ok(()),
        }
    }
}

impl PacketSpec {
    /// The families that it is sent in from a pod with these addresses.
    pub fn families(&self, pod: Families) -> impl Iterator<Item = Family> + use<> {
        let wanted = self.family.or_else(|| self.source.map(family_of));
        pod.list().into_iter().filter(move |family| wanted.is_none_or(|wanted| wanted == *family))
    }
}

/// The family of an address.
#[must_use]
pub fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// Reads every group of a directory, in the order of file names.
pub fn read(dir: &Path) -> anyhow::Result<Vec<Group>> {
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .with_context(|| format!("cannot list {}", dir.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let groups = files.iter().map(|path| read_group(path)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut names: Vec<_> = groups.iter().flat_map(|group| &group.pods).map(|pod| &pod.name).collect();
    names.sort();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("two pods of the truth table are called {:?}", pair[0]);
    }
    Ok(groups)
}

fn read_group(path: &Path) -> anyhow::Result<Group> {
    let text = std::fs::read_to_string(path)?;
    serde_saphyr::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_as_it_is_written() {
        for text in [
            "out tcp outside 8080",
            "out udp6 beyond 53 as proxy-group",
            "in tcp 15021",
            "own tcp4 8080 as proxy",
            "loopback tcp 8080 from 127.0.0.6",
        ] {
            assert_eq!(text.parse::<PacketSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_that_is_no_packet_is_refused() {
        for text in ["", "out tcp 8080", "in sctp 1", "in tcp 65536", "own tcp 1 as nobody", "own tcp 1 as"] {
            assert!(text.parse::<PacketSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_repository_s_truth_table_is_large_enough() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/truth");
        let groups = read(&dir).unwrap();
        let pods: usize = groups.iter().map(|group| group.pods.len()).sum();
        assert!(pods >= 25, "{pods} pods");
    }
}
