// SPDX-License-Identifier: Apache-2.0
//! The sets of ports that a native rule asks for (`tcp dport != { 53, 15008 }`): each is made for its rule alone, has no name and
//! goes with it.

use redirect::ruleset::{Match, Rule};

use super::begin_message;
use super::rule::{TCP, protocol};
use crate::home::Home;
use crate::nft::{attribute, message};
use crate::wire::{CREATE, Writer};

/// The kernel puts a number in place of `%d`.
pub(super) const NAME: &[u8] = b"__set%d";

/// nft's number for the type of ports.
const TYPE_PORT: u32 = 13;
const PORT_LENGTH: u32 = 2;

/// Writes the messages that make a rule's sets; tells their numbers in the transaction.
pub(super) fn create(out: &mut Writer, home: Home, wanted: &Rule) -> Vec<u32> {
    let several = wanted.matches.iter().filter_map(|condition| match condition {
        Match::DestinationPorts(_, ports) if ports.len() > 1 => Some(ports),
        _ => None,
    });
    several.map(|ports| one(out, home, protocol(wanted), ports)).collect()
}

fn one(out: &mut Writer, home: Home, protocol: Option<u8>, ports: &[u16]) -> u32 {
    begin_message(out, message::NEW_SET, CREATE, home.family.number());
    let id = out.sequence();
    out.name(attribute::SET_TABLE, home.table_name().as_bytes());
    out.name(attribute::SET_NAME, NAME);
    out.be32(attribute::SET_FLAGS, crate::nft::SET_ANONYMOUS);
    out.be32(attribute::SET_KEY_TYPE, TYPE_PORT);
    out.be32(attribute::SET_KEY_LENGTH, PORT_LENGTH);
    out.be32(attribute::SET_ID, id);
    let description = out.nest(attribute::SET_DESCRIPTION);
    out.be32(attribute::SET_DESCRIPTION_SIZE, u32::try_from(ports.len()).unwrap_or(u32::MAX));
    out.close(description);
    out.attribute(attribute::SET_USERDATA, userdata(protocol));

    begin_message(out, message::NEW_SET_ELEMENT, CREATE, home.family.number());
    out.name(attribute::ELEMENTS_TABLE, home.table_name().as_bytes());
    out.name(attribute::ELEMENTS_SET, NAME);
    out.be32(attribute::ELEMENTS_SET_ID, id);
    let elements = out.nest(attribute::ELEMENTS);
    for port in ports {
        let element = out.nest(attribute::LIST_ELEMENT);
        let key = out.nest(attribute::ELEMENT_KEY);
        out.attribute(attribute::DATA_VALUE, port.to_be_bytes());
        out.close(key);
        out.close(element);
    }
    out.close(elements);
    id
}

/// What nft notes for itself, as type, length and value: the keys are in network order, and hold a header's destination port.
fn userdata(protocol: Option<u8>) -> [u8; 28] {
    const BYTE_ORDER: u8 = 0;
    const KEY: u8 = 3;
    const KEY_LENGTH: u8 = 20;
    const BIG_ENDIAN: u32 = 2;
    /// `EXPR_PAYLOAD`
    const PAYLOAD: u32 = 7;
    const UDP_HEADER: u32 = 6;
    const TCP_HEADER: u32 = 8;
    const DESTINATION_PORT: u32 = 2;
    let header = if protocol == Some(TCP) { TCP_HEADER } else { UDP_HEADER };
    let [o0, o1, o2, o3] = BIG_ENDIAN.to_ne_bytes();
    let [e0, e1, e2, e3] = PAYLOAD.to_ne_bytes();
    let [h0, h1, h2, h3] = header.to_ne_bytes();
    let [p0, p1, p2, p3] = DESTINATION_PORT.to_ne_bytes();
    [
        BYTE_ORDER, 4, o0, o1, o2, o3, KEY, KEY_LENGTH, 0, 4, e0, e1, e2, e3, 1, 12, 0, 4, h0, h1, h2, h3, 1,
        4, p0, p1, p2, p3,
    ]
}
