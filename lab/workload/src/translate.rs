// SPDX-License-Identifier: Apache-2.0
//! What kube-proxy and a CNI have in a node's nat chains: addresses of services are translated to those of pods, and addresses of pods to the
//! node's where they leave the cluster. One table for each family, replaced as a whole.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use anyhow::Context as _;
use cluster::Transport;
use serde::Deserialize;

use crate::basenet::conf::Range;
use crate::disturb::stranger::{
    ANSWERED, DELETE_TABLE, MAKING, NESTED, NEW_CHAIN, NEW_RULE, NEW_TABLE, attribute, commit, message,
};

const TABLE: &[u8] = b"lab-services\0";
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// `NF_INET_PRE_ROUTING`, `NF_INET_LOCAL_OUT`, `NF_INET_POST_ROUTING`
const HOOKS: [(&[u8], u32, i32); 3] =
    [(b"prerouting\0", 0, DESTINATION), (b"output\0", 3, DESTINATION), (b"postrouting\0", 4, SOURCE)];
/// `NF_IP_PRI_NAT_DST`, `NF_IP_PRI_NAT_SRC`
const DESTINATION: i32 = -100;
const SOURCE: i32 = 100;

/// A kernel without IPv6 has none, and no table of that family.
const IPV6_SETTINGS: &str = "/proc/sys/net/ipv6";

/// Everything that is to be translated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Translations {
    services: Vec<Service>,
    masqueraded: Vec<Masquerade>,
}

/// Address of a service, and that of the pod behind it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Service {
    transport: Transport,
    from: SocketAddr,
    to: SocketAddr,
}

/// What leaves a range of pods, unless it is for the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Masquerade {
    pods: Range,
    cluster: Range,
}

impl FromStr for Translations {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

/// Replaces the translations of the calling process' network namespace by those on standard input.
pub fn run() -> anyhow::Result<()> {
    replace(&serde_json::from_reader(io::stdin()).context("the translations")?)
}

/// The same by these.
pub fn replace(wanted: &Translations) -> anyhow::Result<()> {
    for family in [IPV4, IPV6] {
        let is_of = |address: IpAddr| address.is_ipv4() == (family == IPV4);
        let services: Vec<_> = wanted.services.iter().filter(|service| is_of(service.from.ip())).collect();
        let masqueraded: Vec<_> = wanted.masqueraded.iter().filter(|one| is_of(one.pods.network)).collect();
        if family == IPV6 && !Path::new(IPV6_SETTINGS).exists() {
            continue;
        }
        commit(&transaction(family, &services, &masqueraded))
            .context("the kernel rejected the translations")?;
    }
    Ok(())
}

fn transaction(family: u8, services: &[&Service], masqueraded: &[&Masquerade]) -> Vec<Vec<u8>> {
    let table = attribute(1, TABLE);
    let mut all = vec![
        message(NEW_TABLE, MAKING, family, [0, 0], &table),
        message(DELETE_TABLE, ANSWERED, family, [0, 0], &table),
        message(NEW_TABLE, MAKING, family, [0, 0], &table),
    ];
    for (name, hook, priority) in HOOKS {
        let hook = [attribute(1, &hook.to_be_bytes()), attribute(2, &priority.to_be_bytes())].concat();
        let chain = [table.clone(), attribute(3, name), attribute(NESTED | 4, &hook), attribute(7, b"nat\0")]
            .concat();
        all.push(message(NEW_CHAIN, MAKING, family, [0, 0], &chain));
    }
    let mut rule = |chain: &[u8], expressions: &[Vec<u8>]| {
        let body =
            [table.clone(), attribute(2, chain), attribute(NESTED | 4, &expressions.concat())].concat();
        all.push(message(NEW_RULE, MAKING, family, [0, 0], &body));
    };
    for service in services {
        for (chain, ..) in HOOKS.iter().filter(|(_, _, priority)| *priority == DESTINATION) {
            rule(chain, &of_service(family, service));
        }
    }
    for masquerade in masqueraded {
        rule(HOOKS[2].0, &of_masquerade(family, masquerade));
    }
    all
}

fn of_service(family: u8, service: &Service) -> Vec<Vec<u8>> {
    const TRANSPORT_HEADER: u32 = 2;
    const DESTINATION_PORT: u32 = 2;
    const DNAT: u32 = 1;
    let protocol: u8 = if service.transport == Transport::Tcp { 6 } else { 17 };
    let nat = [
        attribute(1, &DNAT.to_be_bytes()),
        attribute(2, &u32::from(family).to_be_bytes()),
        attribute(3, &1_u32.to_be_bytes()),
        attribute(5, &2_u32.to_be_bytes()),
    ];
    let whole = if family == IPV4 { 32 } else { 128 };
    let mut all = address(family, Side::Destination, service.from.ip(), whole, EQUAL);
    all.extend([
        l4_protocol(),
        compare(EQUAL, &[protocol]),
        payload(TRANSPORT_HEADER, DESTINATION_PORT, 2),
        compare(EQUAL, &service.from.port().to_be_bytes()),
        immediate(1, &octets(service.to.ip())),
        immediate(2, &service.to.port().to_be_bytes()),
        expression(b"nat\0", &nat.concat()),
    ]);
    all
}

fn of_masquerade(family: u8, masquerade: &Masquerade) -> Vec<Vec<u8>> {
    let Masquerade { pods, cluster } = masquerade;
    let mut all = address(family, Side::Source, pods.network, pods.length, EQUAL);
    all.extend(address(family, Side::Destination, cluster.network, cluster.length, DIFFERENT));
    all.push(attribute(NESTED | 1, &attribute(1, b"masq\0")));
    all
}

#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
}

/// `NFT_CMP_EQ`, `NFT_CMP_NEQ`
const EQUAL: u32 = 0;
const DIFFERENT: u32 = 1;

/// Compares the bytes that a range has fixed: its length is of whole bytes.
fn address(family: u8, side: Side, range: IpAddr, length: u8, sense: u32) -> Vec<Vec<u8>> {
    const NETWORK_HEADER: u32 = 1;
    let offset = match (family, side) {
        (IPV4, Side::Source) => 12,
        (IPV4, Side::Destination) => 16,
        (_, Side::Source) => 8,
        (_, Side::Destination) => 24,
    };
    let mut fixed = octets(range);
    fixed.truncate(usize::from(length / 8));
    vec![payload(NETWORK_HEADER, offset, u32::from(length / 8)), compare(sense, &fixed)]
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn expression(name: &[u8], data: &[u8]) -> Vec<u8> {
    attribute(NESTED | 1, &[attribute(1, name), attribute(NESTED | 2, data)].concat())
}

/// Loads a part of a header into the first register.
fn payload(base: u32, offset: u32, length: u32) -> Vec<u8> {
    let parts = [1, base, offset, length];
    let data: Vec<_> =
        (1..).zip(parts).flat_map(|(kind, value)| attribute(kind, &value.to_be_bytes())).collect();
    expression(b"payload\0", &data)
}

fn l4_protocol() -> Vec<u8> {
    const L4_PROTOCOL: u32 = 16;
    let data = [attribute(1, &1_u32.to_be_bytes()), attribute(2, &L4_PROTOCOL.to_be_bytes())].concat();
    expression(b"meta\0", &data)
}

/// Compares the first register.
fn compare(sense: u32, value: &[u8]) -> Vec<u8> {
    let data = [
        attribute(1, &1_u32.to_be_bytes()),
        attribute(2, &sense.to_be_bytes()),
        attribute(NESTED | 3, &attribute(1, value)),
    ];
    expression(b"cmp\0", &data.concat())
}

fn immediate(register: u32, value: &[u8]) -> Vec<u8> {
    let data = [attribute(1, &register.to_be_bytes()), attribute(NESTED | 2, &attribute(1, value))];
    expression(b"immediate\0", &data.concat())
}
