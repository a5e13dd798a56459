// SPDX-License-Identifier: Apache-2.0
//! One expression after the other, as bytes. Which expressions a rule has is up to [`super::compat`] and [`super::native`].
//!
//! Nearly all bytes of an expression are known when the program is built (names, lengths, registers): a pod's rules are written
//! in a few hundred copies instead of some thousand.

use redirect::ruleset::Sense;

use super::set;
use crate::expression::write_among;
use crate::nft::{self, attribute, verdict};
use crate::wire::{Fixed, NESTED, Writer, aligned};

/// The longest content of a register.
const REGISTER_LENGTH: usize = 16;

/// Operand of a register expression.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    bytes: [u8; REGISTER_LENGTH],
    length: usize,
}

impl Content {
    /// The first 16 of these bytes.
    pub(super) fn new(from: &[u8]) -> Self {
        let mut bytes = [0; REGISTER_LENGTH];
        let length = from.len().min(REGISTER_LENGTH);
        for (to, from) in bytes.iter_mut().zip(from) {
            *to = *from;
        }
        Self { bytes, length }
    }

    /// A name and a NUL behind it.
    pub(super) fn with_nul(name: &[u8]) -> Self {
        let mut content = Self::new(name);
        content.length = (content.length + 1).min(REGISTER_LENGTH);
        content
    }
}

const fn expression<const N: usize>(name: &str) -> Fixed<N> {
    Fixed::new()
        .nest(attribute::LIST_ELEMENT)
        .name(attribute::EXPRESSION_NAME, name)
        .nest(attribute::EXPRESSION_DATA)
}

const META: [u8; 36] =
    expression("meta").be32(attribute::META_KEY, 0).be32(attribute::META_DESTINATION, nft::REGISTER).done();
const META_KEY: usize = 24;

const SET_META: [u8; 36] =
    expression("meta").be32(attribute::META_KEY, 0).be32(attribute::META_SOURCE, nft::REGISTER).done();

const CT: [u8; 32] =
    expression("ct").be32(attribute::CT_KEY, 0).be32(attribute::CT_DESTINATION, nft::REGISTER).done();
const SET_CT: [u8; 32] =
    expression("ct").be32(attribute::CT_KEY, 0).be32(attribute::CT_SOURCE, nft::REGISTER).done();
const CT_KEY: usize = 20;

const REDIRECT: [u8; 36] = expression("redir")
    .be32(attribute::REDIRECT_MINIMUM, nft::REGISTER)
    .be32(attribute::REDIRECT_FLAGS, nft::NAT_RANGE_PORT)
    .done();

const TPROXY: [u8; 36] =
    expression("tproxy").be32(attribute::TPROXY_FAMILY, 0).be32(attribute::TPROXY_PORT, nft::REGISTER).done();
const TPROXY_FAMILY: usize = 24;

const PAYLOAD: [u8; 52] = expression("payload")
    .be32(attribute::PAYLOAD_DESTINATION, nft::REGISTER)
    .be32(attribute::PAYLOAD_BASE, 0)
    .be32(attribute::PAYLOAD_OFFSET, 0)
    .be32(attribute::PAYLOAD_LENGTH, 0)
    .done();
const PAYLOAD_BASE: usize = 32;
const PAYLOAD_OFFSET: usize = 40;
const PAYLOAD_LENGTH: usize = 48;

/// Without the value.
const COMPARE: [u8; 40] = expression("cmp")
    .be32(attribute::COMPARE_SOURCE, nft::REGISTER)
    .be32(attribute::COMPARE_OPERATION, 0)
    .nest(attribute::COMPARE_DATA)
    .head(attribute::DATA_VALUE, 0)
    .done();
/// Where the lengths of what the value lies in are: element, data, `COMPARE_DATA`.
const COMPARE_NESTS: [usize; 3] = [0, 12, 32];
const COMPARE_OPERATION: usize = 28;
const COMPARE_VALUE: usize = 36;

const RANGE: [u8; 60] = expression("range")
    .be32(attribute::RANGE_SOURCE, nft::REGISTER)
    .be32(attribute::RANGE_OPERATION, 0)
    .head(attribute::RANGE_FROM | NESTED, 8)
    .head(attribute::DATA_VALUE, 2)
    .room(4)
    .head(attribute::RANGE_TO | NESTED, 8)
    .head(attribute::DATA_VALUE, 2)
    .room(4)
    .done();
const RANGE_OPERATION: usize = 32;
const RANGE_FROM: usize = 44;
const RANGE_TO: usize = 56;

const COUNTER: [u8; 44] = expression("counter")
    .head(attribute::COUNTER_BYTES, 8)
    .room(8)
    .head(attribute::COUNTER_PACKETS, 8)
    .room(8)
    .done();

/// Without the value.
const IMMEDIATE: [u8; 40] = expression("immediate")
    .be32(attribute::IMMEDIATE_DESTINATION, nft::REGISTER)
    .nest(attribute::IMMEDIATE_DATA)
    .head(attribute::DATA_VALUE, 0)
    .done();
/// Where the lengths of what the value lies in are: element, data, `IMMEDIATE_DATA`.
const IMMEDIATE_NESTS: [usize; 3] = [0, 20, 32];
const IMMEDIATE_VALUE: usize = 36;

const VERDICT: [u8; 48] = expression("immediate")
    .be32(attribute::IMMEDIATE_DESTINATION, nft::VERDICT_REGISTER)
    .nest(attribute::IMMEDIATE_DATA)
    .nest(attribute::DATA_VERDICT)
    .be32(attribute::VERDICT_CODE, 0)
    .done();
/// Where the lengths of what a jump's chain lies in are: element, data, `IMMEDIATE_DATA`, `DATA_VERDICT`.
const VERDICT_NESTS: [usize; 4] = [0, 20, 32, 36];
const VERDICT_CODE: usize = 44;

/// An extension of `N` bytes, the last `M` of them its structure, which is patched in.
#[derive(Clone, Copy)]
pub(super) struct Template<const N: usize, const M: usize>([u8; N]);

pub(super) const fn extension<const N: usize, const M: usize>(
    kind: &str,
    name: &str,
    revision: u32,
) -> Template<N, M> {
    let built = expression(kind)
        .name(attribute::EXTENSION_NAME, name)
        .be32(attribute::EXTENSION_REVISION, revision)
        .head(attribute::EXTENSION_INFO, M)
        .room(M);
    Template(built.done())
}

/// The expressions of one rule while they are written.
pub(super) struct List<'a> {
    out: &'a mut Writer,
    count: usize,
}

fn patch<const N: usize, const M: usize>(bytes: &mut [u8; N], at: usize, with: [u8; M]) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = with;
    }
}

fn lengthen<const N: usize>(bytes: &mut [u8; N], at: usize, by: usize) {
    if let Some(place) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        let length = u16::from_ne_bytes(*place).saturating_add(u16::try_from(by).unwrap_or(u16::MAX));
        *place = length.to_ne_bytes();
    }
}

impl<'a> List<'a> {
    pub(super) fn new(out: &'a mut Writer) -> Self {
        Self { out, count: 0 }
    }

    /// Number of expressions written.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn add<const N: usize>(&mut self, expression: [u8; N]) {
        self.out.raw(expression);
        self.count += 1;
    }

    pub(super) fn meta(&mut self, key: u32) {
        let mut bytes = META;
        patch(&mut bytes, META_KEY, key.to_be_bytes());
        self.add(bytes);
    }

    pub(super) fn set_meta(&mut self, key: u32) {
        let mut bytes = SET_META;
        patch(&mut bytes, META_KEY, key.to_be_bytes());
        self.add(bytes);
    }

    pub(super) fn ct(&mut self, key: u32) {
        let mut bytes = CT;
        patch(&mut bytes, CT_KEY, key.to_be_bytes());
        self.add(bytes);
    }

    pub(super) fn set_ct(&mut self, key: u32) {
        let mut bytes = SET_CT;
        patch(&mut bytes, CT_KEY, key.to_be_bytes());
        self.add(bytes);
    }

    /// To the port in the register.
    pub(super) fn redirect(&mut self) {
        self.add(REDIRECT);
    }

    /// To the port in the register, for packets of this family.
    pub(super) fn tproxy(&mut self, family: u32) {
        let mut bytes = TPROXY;
        patch(&mut bytes, TPROXY_FAMILY, family.to_be_bytes());
        self.add(bytes);
    }

    /// Loads a value.
    pub(super) fn immediate(&mut self, value: Content) {
        let mut bytes = IMMEDIATE;
        for nest in IMMEDIATE_NESTS {
            lengthen(&mut bytes, nest, aligned(value.length));
        }
        lengthen(&mut bytes, IMMEDIATE_VALUE, value.length);
        self.add(bytes);
        self.content(value);
    }

    pub(super) fn payload(&mut self, base: u32, offset: u32, length: usize) {
        let mut bytes = PAYLOAD;
        patch(&mut bytes, PAYLOAD_BASE, base.to_be_bytes());
        patch(&mut bytes, PAYLOAD_OFFSET, offset.to_be_bytes());
        patch(&mut bytes, PAYLOAD_LENGTH, u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        self.add(bytes);
    }

    pub(super) fn compare(&mut self, operation: u32, value: Content) {
        let mut bytes = COMPARE;
        patch(&mut bytes, COMPARE_OPERATION, operation.to_be_bytes());
        for nest in COMPARE_NESTS {
            lengthen(&mut bytes, nest, aligned(value.length));
        }
        lengthen(&mut bytes, COMPARE_VALUE, value.length);
        self.add(bytes);
        self.content(value);
    }

    /// A register's content and its padding.
    fn content(&mut self, content: Content) {
        for word in content.bytes.as_chunks::<4>().0.iter().take(content.length.div_ceil(4)) {
            self.out.raw(*word);
        }
    }

    pub(super) fn range(&mut self, operation: u32, from: [u8; 2], to: [u8; 2]) {
        let mut bytes = RANGE;
        patch(&mut bytes, RANGE_OPERATION, operation.to_be_bytes());
        patch(&mut bytes, RANGE_FROM, from);
        patch(&mut bytes, RANGE_TO, to);
        self.add(bytes);
    }

    pub(super) fn counter(&mut self) {
        self.add(COUNTER);
    }

    pub(super) fn verdict(&mut self, code: i32) {
        let mut bytes = VERDICT;
        patch(&mut bytes, VERDICT_CODE, code.to_be_bytes());
        self.add(bytes);
    }

    pub(super) fn jump(&mut self, chain: &str) {
        let mut bytes = VERDICT;
        patch(&mut bytes, VERDICT_CODE, verdict::JUMP.to_be_bytes());
        for nest in VERDICT_NESTS {
            lengthen(&mut bytes, nest, aligned(4 + chain.len() + 1));
        }
        self.add(bytes);
        self.out.name(attribute::VERDICT_CHAIN, chain.as_bytes());
    }

    pub(super) fn extension<const N: usize, const M: usize>(
        &mut self,
        Template(mut bytes): Template<N, M>,
        info: [u8; M],
    ) {
        patch(&mut bytes, N - M, info);
        self.add(bytes);
    }

    /// Rare: prefixes that do not end on a byte.
    pub(super) fn mask(&mut self, mask: Content) {
        let element = self.out.nest(attribute::LIST_ELEMENT);
        self.out.name(attribute::EXPRESSION_NAME, b"bitwise");
        let data = self.out.nest(attribute::EXPRESSION_DATA);
        self.out.be32(attribute::BITWISE_SOURCE, nft::REGISTER);
        self.out.be32(attribute::BITWISE_DESTINATION, nft::REGISTER);
        self.out.be32(attribute::BITWISE_LENGTH, u32::try_from(mask.length).unwrap_or(u32::MAX));
        let nothing = Content { bytes: [0; REGISTER_LENGTH], length: mask.length };
        for (kind, content) in [(attribute::BITWISE_MASK, mask), (attribute::BITWISE_XOR, nothing)] {
            let open = self.out.nest(kind);
            self.out.bytes(attribute::DATA_VALUE, content.bytes.get(..content.length).unwrap_or_default());
            self.out.close(open);
        }
        self.out.close(data);
        self.out.close(element);
        self.count += 1;
    }

    /// Rare: whether the register is in a set that the transaction makes.
    pub(super) fn lookup(&mut self, sense: Sense, set: u32) {
        let element = self.out.nest(attribute::LIST_ELEMENT);
        self.out.name(attribute::EXPRESSION_NAME, b"lookup");
        let data = self.out.nest(attribute::EXPRESSION_DATA);
        self.out.name(attribute::LOOKUP_SET, set::NAME);
        self.out.be32(attribute::LOOKUP_SET_ID, set);
        self.out.be32(attribute::LOOKUP_SOURCE, nft::REGISTER);
        self.out.be32(attribute::LOOKUP_FLAGS, if sense == Sense::Not { nft::LOOKUP_INVERTED } else { 0 });
        self.out.close(data);
        self.out.close(element);
        self.count += 1;
    }

    /// The same with the set's elements in place of its number.
    pub(super) fn among(&mut self, sense: Sense, ports: &[u16]) {
        let inverted = sense == Sense::Not;
        write_among(self.out, nft::REGISTER, inverted, ports.iter().map(|port| port.to_be_bytes().to_vec()));
        self.count += 1;
    }
}
