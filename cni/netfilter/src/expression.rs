// SPDX-License-Identifier: Apache-2.0
//! The expressions of a rule, read back; pure. Two rules are the same if their expressions are, whatever their counters and
//! the order of attributes, which differs between what is sent and what kernels list.

mod counter;
mod read;
mod set;

use crate::nft::verdict;
use crate::wire::{Malformed, attributes};

pub(crate) use counter::take_counter;
pub(crate) use read::one;
pub(crate) use set::{keys, spell_out, write_among};

/// An expression of a rule, in the forms that iptables-nft writes, and nft for rules like ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Expression<'a> {
    /// Loads something that is known of the packet.
    Meta {
        /// `NFT_META_*`
        key: u32,
        /// Where to.
        register: u32,
    },
    /// Sets something of the packet.
    SetMeta {
        /// `NFT_META_*`
        key: u32,
        /// Where from.
        register: u32,
    },
    /// Loads something that is known of the packet's connection.
    Ct {
        /// `NFT_CT_*`
        key: u32,
        /// Where to.
        register: u32,
    },
    /// Sets something of the packet's connection.
    SetCt {
        /// `NFT_CT_*`
        key: u32,
        /// Where from.
        register: u32,
    },
    /// Loads a value.
    Immediate {
        /// The value.
        value: &'a [u8],
        /// Where to.
        register: u32,
    },
    /// Loads bytes of the packet.
    Payload {
        /// `NFT_PAYLOAD_*_HEADER`
        base: u32,
        /// First byte.
        offset: u32,
        /// In bytes.
        length: u32,
        /// Where to.
        register: u32,
    },
    /// Masks a register.
    Mask {
        /// The register, before and after.
        register: u32,
        /// Bits to keep.
        mask: &'a [u8],
    },
    /// Compares a register with a value.
    Compare {
        /// The register.
        register: u32,
        /// `NFT_CMP_*`
        operation: u32,
        /// The value.
        value: &'a [u8],
    },
    /// Compares a register with a range.
    Range {
        /// The register.
        register: u32,
        /// `NFT_RANGE_*`
        operation: u32,
        /// Lower end, included.
        from: &'a [u8],
        /// Upper end, included.
        to: &'a [u8],
    },
    /// Looks up a register among some values. The kernel lists a set and what is in it elsewhere; a snapshot has them here.
    Among {
        /// The register.
        register: u32,
        /// True if it must not be.
        inverted: bool,
        /// The values, sorted, as a list of attributes: see [`values`].
        values: &'a [u8],
    },
    /// Redirects the packet to a port of this machine.
    Redirect {
        /// The register with the port; the lower end where there are two.
        from: u32,
        /// The register with the upper end.
        to: u32,
        /// `NF_NAT_RANGE_*`
        flags: u32,
    },
    /// Hands the packet to the socket at a port of this machine.
    Tproxy {
        /// The family of packets; 0 is any.
        family: u32,
        /// The register with the port.
        port: u32,
    },
    /// Counts.
    Counter,
    /// Ends the rule.
    Verdict {
        /// `NF_*` or `NFT_*`
        code: i32,
        /// The chain of a jump.
        chain: Option<&'a [u8]>,
    },
    /// An xtables match.
    Match(Extension<'a>),
    /// An xtables target.
    Target(Extension<'a>),
    /// Anything else.
    Other {
        /// Its name.
        name: &'a [u8],
        /// Its data, as listed.
        data: &'a [u8],
    },
}

/// An xtables extension with its C structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extension<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Version of its structure.
    pub revision: u32,
    /// The structure.
    pub info: &'a [u8],
}

/// Reads a list of expressions.
///
/// # Errors
/// If it is malformed.
pub fn parse(list: &[u8]) -> Result<Vec<Expression<'_>>, Malformed> {
    attributes(list).map(|element| element.and_then(|(_, element)| one(element))).collect()
}

/// The chain that a rule jumps or goes to.
#[must_use]
pub fn jumps_to(list: &[u8]) -> Option<&[u8]> {
    parse(list).ok()?.into_iter().find_map(|expression| match expression {
        Expression::Verdict { code: verdict::JUMP | verdict::GOTO, chain } => chain,
        _ => None,
    })
}

/// The values of an [`Expression::Among`].
pub fn values(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    attributes(list).filter_map(Result::ok).map(|(_, value)| value)
}
