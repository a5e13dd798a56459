// SPDX-License-Identifier: Apache-2.0
//! The expressions of a rule, read back; pure. Two rules are the same if their expressions are, whatever their counters and
//! the order of attributes, which differs between what is sent and what kernels list.

use crate::nft::{attribute, verdict};
use crate::wire::{Malformed, attributes, be32, be64, fixed, spans, text};

use crate::snapshot::Counter;

/// An expression of a rule, in the forms that iptables-nft writes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expression<'a> {
    /// Loads something that is known of the packet.
    Meta {
        /// `NFT_META_*`
        key: u32,
        /// Where to.
        register: u32,
    },
    /// Loads bytes of the packet.
    Payload {
        /// `NFT_PAYLOAD_*_HEADER`
        base: u32,
        /// First byte.
        offset: u32,
        /// How many.
        length: u32,
        /// Where to.
        register: u32,
    },
    /// Masks a register.
    Mask {
        /// The register, before and after.
        register: u32,
        /// What is kept.
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
    /// Whether a register lies in a range.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Which version of its structure.
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

/// Whether two lists of expressions say the same.
#[must_use]
pub fn same(one: &[u8], other: &[u8]) -> bool {
    one == other || matches!((parse(one), parse(other)), (Ok(one), Ok(other)) if one == other)
}

/// The chain that a rule jumps or goes to.
#[must_use]
pub fn jumps_to(list: &[u8]) -> Option<&[u8]> {
    parse(list).ok()?.into_iter().find_map(|expression| match expression {
        Expression::Verdict { code: verdict::JUMP | verdict::GOTO, chain } => chain,
        _ => None,
    })
}

fn one(element: &[u8]) -> Result<Expression<'_>, Malformed> {
    let (mut name, mut data) = (&[][..], &[][..]);
    for attribute in attributes(element) {
        match attribute? {
            (attribute::EXPRESSION_NAME, payload) => name = text(payload),
            (attribute::EXPRESSION_DATA, payload) => data = payload,
            _ => {}
        }
    }
    let known = match name {
        b"meta" => meta(data)?,
        b"payload" => payload(data)?,
        b"bitwise" => bitwise(data)?,
        b"cmp" => compare(data)?,
        b"range" => range(data)?,
        b"counter" => Some(Expression::Counter),
        b"immediate" => immediate(data)?,
        b"match" => extension(data)?.map(Expression::Match),
        b"target" => extension(data)?.map(Expression::Target),
        _ => None,
    };
    Ok(known.unwrap_or(Expression::Other { name, data }))
}

/// A kernel's attribute that this reader does not know may change the meaning, so the expression is not taken for a known one.
fn known<const N: usize>(data: &[u8]) -> Result<Option<[Option<&[u8]>; N]>, Malformed> {
    let mut fields = [None; N];
    for attribute in attributes(data) {
        let (kind, payload) = attribute?;
        match fields.get_mut(usize::from(kind)) {
            Some(field) => *field = Some(payload),
            None => return Ok(None),
        }
    }
    Ok(Some(fields))
}

fn number(field: Option<&[u8]>) -> Option<u32> {
    be32(field?).ok()
}

/// A register's content inside an attribute.
fn value(field: Option<&[u8]>) -> Option<&[u8]> {
    attributes(field?)
        .find_map(|attribute| attribute.ok().filter(|(kind, _)| *kind == attribute::DATA_VALUE))
        .map(|(_, payload)| payload)
}

fn meta(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, register, key]) = known(data)? else { return Ok(None) };
    Ok(number(key).zip(number(register)).map(|(key, register)| Expression::Meta { key, register }))
}

fn payload(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, register, base, offset, length]) = known(data)? else { return Ok(None) };
    let (Some(register), Some(base), Some(offset), Some(length)) =
        (number(register), number(base), number(offset), number(length))
    else {
        return Ok(None);
    };
    Ok(Some(Expression::Payload { base, offset, length, register }))
}

/// `NFT_BITWISE_MASK_XOR`, what older kernels do not say
const MASK_AND_XOR: u32 = 0;

fn bitwise(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, source, destination, _, mask, xor, operation]) = known(data)? else { return Ok(None) };
    let (Some(source), Some(destination), Some(mask), Some(xor)) =
        (number(source), number(destination), value(mask), value(xor))
    else {
        return Ok(None);
    };
    let plain = source == destination
        && xor.iter().all(|byte| *byte == 0)
        && operation.is_none_or(|operation| be32(operation) == Ok(MASK_AND_XOR));
    Ok(plain.then_some(Expression::Mask { register: source, mask }))
}

fn compare(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, register, operation, data]) = known(data)? else { return Ok(None) };
    let (Some(register), Some(operation), Some(value)) = (number(register), number(operation), value(data))
    else {
        return Ok(None);
    };
    Ok(Some(Expression::Compare { register, operation, value }))
}

fn range(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, register, operation, from, to]) = known(data)? else { return Ok(None) };
    let (Some(register), Some(operation), Some(from), Some(to)) =
        (number(register), number(operation), value(from), value(to))
    else {
        return Ok(None);
    };
    Ok(Some(Expression::Range { register, operation, from, to }))
}

fn immediate(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, _, Some(data)]) = known(data)? else { return Ok(None) };
    for attribute in attributes(data) {
        if let (attribute::DATA_VERDICT, verdict) = attribute? {
            let Some([_, Some(code), chain]) = known(verdict)? else { return Ok(None) };
            let code = i32::from_be_bytes(fixed(Some(code))?);
            return Ok(Some(Expression::Verdict { code, chain: chain.map(text) }));
        }
    }
    Ok(None)
}

fn extension(data: &[u8]) -> Result<Option<Extension<'_>>, Malformed> {
    let Some([_, Some(name), revision, Some(info)]) = known(data)? else { return Ok(None) };
    Ok(number(revision).map(|revision| Extension { name: text(name), revision, info }))
}

/// Takes the counters out of a list of expressions: sets them to zero and tells the first.
pub(crate) fn take_counter(list: &mut [u8]) -> Result<Option<Counter>, Malformed> {
    let mut found = Vec::new();
    for element in spans(list) {
        let (_, element) = element?;
        let body = list.get(element.clone()).ok_or(Malformed)?;
        let mut is_counter = false;
        for attribute in spans(body) {
            let (kind, span) = attribute?;
            let payload = body.get(span.clone()).ok_or(Malformed)?;
            match kind {
                attribute::EXPRESSION_NAME => is_counter = text(payload) == b"counter",
                attribute::EXPRESSION_DATA if is_counter => {
                    found.push(element.start + span.start..element.start + span.end);
                }
                _ => {}
            }
        }
    }
    let mut first = None;
    for place in found {
        let counter = zero(list.get_mut(place).ok_or(Malformed)?)?;
        first.get_or_insert(counter);
    }
    Ok(first)
}

/// Reads and clears the data of one counter.
fn zero(data: &mut [u8]) -> Result<Counter, Malformed> {
    let mut counter = Counter::default();
    let fields: Vec<_> = spans(data).collect::<Result<_, _>>()?;
    for (kind, span) in fields {
        let payload = data.get_mut(span).ok_or(Malformed)?;
        match kind {
            attribute::COUNTER_BYTES => counter.bytes = be64(payload)?,
            attribute::COUNTER_PACKETS => counter.packets = be64(payload)?,
            _ => continue,
        }
        payload.fill(0);
    }
    Ok(counter)
}
