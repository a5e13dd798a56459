// SPDX-License-Identifier: Apache-2.0
//! Values as iptables and nft write them.

use std::net::IpAddr;
use std::str::FromStr;

use crate::ruleset::Cidr;

/// A number: decimal or hexadecimal.
pub(super) fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `MARK[/MASK]`: the mark if the mask has all bits, `Some(None)` if it has not, `None` if it is no mark.
pub(super) fn whole_mark(text: &str) -> Option<Option<u32>> {
    let (mark, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    let (mark, mask) = (number(mark)?, number(mask)?);
    Some((mask == u32::MAX).then_some(mark))
}

/// `ADDRESS[/LENGTH]`; a mask that is written as an address is read if it is a prefix.
pub(super) fn cidr(text: &str) -> Option<Cidr> {
    let (address, length) = text.split_once('/').unwrap_or((text, ""));
    let address = IpAddr::from_str(address).ok()?;
    let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        "" => bits,
        length => match length.parse() {
            Ok(length) => length,
            Err(_) => prefix_length(length)?,
        },
    };
    (length <= bits).then_some(Cidr { address, length })
}

/// `ADDRESS/MASK`, both written as addresses.
pub(super) fn is_masked(text: &str) -> bool {
    text.split_once('/')
        .is_some_and(|(address, mask)| [address, mask].iter().all(|part| IpAddr::from_str(part).is_ok()))
}

fn prefix_length(mask: &str) -> Option<u8> {
    let bits = std::net::Ipv4Addr::from_str(mask).ok()?.to_bits();
    let length = bits.leading_ones();
    let whole = bits.checked_shl(length).unwrap_or(0) == 0;
    whole.then(|| u8::try_from(length).ok())?
}
