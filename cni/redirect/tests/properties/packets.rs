// SPDX-License-Identifier: Apache-2.0
//! Random packets.

use std::net::{IpAddr, Ipv4Addr};

use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use redirect::packet::{Connection, Hook, Layer4, Packet};

use crate::configs::{address, id, interface};

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![select(vec![53, 80, 443, 15006, 15008, 15020, 15053]), any::<u16>()]
}

fn layer4() -> impl Strategy<Value = Layer4> {
    prop_oneof![
        4 => (port(), port()).prop_map(|(source, destination)| Layer4::Tcp { source, destination }),
        2 => (port(), port()).prop_map(|(source, destination)| Layer4::Udp { source, destination }),
        1 => any::<u8>().prop_map(Layer4::Other),
    ]
}

/// Any packet, of one family.
pub(crate) fn packet() -> impl Strategy<Value = Packet> {
    let hook = select(vec![Hook::Prerouting, Hook::Output]);
    let states =
        [Connection::New, Connection::New, Connection::Established, Connection::Related, Connection::Invalid];
    let marks = || prop_oneof![Just(0), Just(1337), Just(1338), any::<u32>()];
    let owner = (option::of(id()), option::of(id()));
    let state = (select(states.to_vec()), marks(), marks());
    (hook, address(), address(), layer4(), interface(), owner, state).prop_map(
        |(hook, source, destination, layer4, interface, (uid, gid), (connection, mark, connmark))| Packet {
            hook,
            source: like(source, destination),
            destination,
            layer4,
            interface,
            uid,
            gid,
            connection,
            mark,
            connmark,
        },
    )
}

/// `address`, or its counterpart in the other's family.
fn like(address: IpAddr, other: IpAddr) -> IpAddr {
    match (address, other) {
        (IpAddr::V4(address), IpAddr::V6(_)) => IpAddr::V6(address.to_ipv6_mapped()),
        (IpAddr::V6(address), IpAddr::V4(_)) => IpAddr::V4(address.to_ipv4().unwrap_or(Ipv4Addr::BROADCAST)),
        (address, _) => address,
    }
}
