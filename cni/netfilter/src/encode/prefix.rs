// SPDX-License-Identifier: Apache-2.0
//! An address prefix as the bytes of a packet that it is about.

use std::net::IpAddr;

use redirect::ruleset::Cidr;

use super::Unencodable;
use super::list::{Content, List};
use super::rule::Side;
use crate::nft::header;

/// Part of a packet to load, and its wanted value. A prefix of whole bytes loads just those; any other, also the empty one, loads
/// the whole address and masks it.
pub(super) struct Prefix {
    offset: u32,
    length: usize,
    mask: Option<Content>,
    value: Content,
}

impl Prefix {
    /// The prefix at one end of a packet's way.
    pub(super) fn new(side: Side, cidr: Cidr) -> Result<Self, Unencodable> {
        let mut mask = [0; 16];
        let mut address = [0; 16];
        let (whole, offset) = match cidr.address {
            IpAddr::V4(v4) => {
                address[..4].copy_from_slice(&v4.octets());
                (4, if side == Side::Source { 12 } else { 16 })
            }
            IpAddr::V6(v6) => {
                address = v6.octets();
                (16, if side == Side::Source { 8 } else { 24 })
            }
        };
        let bits = usize::from(cidr.length);
        if bits > whole * 8 {
            return Err(Unencodable::Prefix(cidr));
        }
        for (index, (mask, byte)) in mask.iter_mut().zip(&mut address).enumerate() {
            let kept = bits.saturating_sub(index * 8).min(8);
            *mask = u8::MAX.checked_shl(8 - u32::try_from(kept).unwrap_or(0)).unwrap_or(0);
            *byte &= *mask;
        }
        let ends_on_byte = bits > 0 && bits.is_multiple_of(8);
        let length = if ends_on_byte { bits / 8 } else { whole };
        let content = |bytes: &[u8; 16]| Content::new(bytes.get(..length).unwrap_or(bytes));
        let mask = (!ends_on_byte).then(|| content(&mask));
        Ok(Self { offset, length, mask, value: content(&address) })
    }

    /// Writes its expressions.
    pub(super) fn write(&self, list: &mut List<'_>, operation: u32) {
        list.payload(header::NETWORK, self.offset, self.length);
        if let Some(mask) = self.mask {
            list.mask(mask);
        }
        list.compare(operation, self.value);
    }
}
