// SPDX-License-Identifier: Apache-2.0
//! The sets of ports that a native rule asks for (`tcp dport != { 53, 15008 }`): each is made for its rule alone, has no name and
//! goes with it.

use redirect::ruleset::{Match, Rule};

use super::begin_message;
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
    several.map(|ports| one(out, home, ports)).collect()
}

fn one(out: &mut Writer, home: Home, ports: &[u16]) -> u32 {
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
    out.attribute(attribute::SET_USERDATA, userdata());

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

/// The byte order of the keys, without which nft lists them wrongly. nft adds an expression that has the type of the keys
/// (`NFTNL_UDATA_SET_KEY_TYPEOF`): numbers of its source code, not of an interface; one that a node's nft cannot read crashes it
/// (istio#58492). The type of the keys says enough.
fn userdata() -> [u8; 6] {
    const BYTE_ORDER: u8 = 0;
    const BIG_ENDIAN: u32 = 2;
    let [b0, b1, b2, b3] = BIG_ENDIAN.to_ne_bytes();
    [BYTE_ORDER, 4, b0, b1, b2, b3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_data_is_what_every_nft_reads_alike() {
        let all = userdata();
        assert_eq!(all[..2], [0, 4], "a byte order, in four bytes, and nothing after it");
        assert_eq!(u32::from_ne_bytes([all[2], all[3], all[4], all[5]]), 2);
    }
}
