// SPDX-License-Identifier: Apache-2.0
//! One expression from its bytes.

use super::{Expression, Extension, set};
use crate::nft::{LOOKUP_INVERTED, attribute};
use crate::wire::{Malformed, attributes, be32, fixed, text};

pub(crate) fn one(element: &[u8]) -> Result<Expression<'_>, Malformed> {
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
        b"ct" => ct(data)?,
        b"payload" => payload(data)?,
        b"bitwise" => bitwise(data)?,
        b"cmp" => compare(data)?,
        b"range" => range(data)?,
        b"redir" => redirect(data)?,
        b"tproxy" => tproxy(data)?,
        set::AMONG => among(data)?,
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
    let Some([_, destination, key, source]) = known(data)? else { return Ok(None) };
    let Some(key) = number(key) else { return Ok(None) };
    Ok(match (number(destination), number(source)) {
        (Some(register), None) => Some(Expression::Meta { key, register }),
        (None, Some(register)) => Some(Expression::SetMeta { key, register }),
        _ => None,
    })
}

/// One that is about a direction is left to others.
fn ct(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, destination, key, None, source]) = known(data)? else { return Ok(None) };
    let Some(key) = number(key) else { return Ok(None) };
    Ok(match (number(destination), number(source)) {
        (Some(register), None) => Some(Expression::Ct { key, register }),
        (None, Some(register)) => Some(Expression::SetCt { key, register }),
        _ => None,
    })
}

/// Kernels list the upper end always, writers send it only where there is a range.
fn redirect(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, from, to, flags]) = known(data)? else { return Ok(None) };
    let Some(from) = number(from) else { return Ok(None) };
    let to = number(to).unwrap_or(from);
    Ok(Some(Expression::Redirect { from, to, flags: number(flags).unwrap_or(0) }))
}

/// One that names an address is left to others.
fn tproxy(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, family, None, port]) = known(data)? else { return Ok(None) };
    Ok(number(family).zip(number(port)).map(|(family, port)| Expression::Tproxy { family, port }))
}

fn among(data: &[u8]) -> Result<Option<Expression<'_>>, Malformed> {
    let Some([_, register, flags, Some(values)]) = known(data)? else { return Ok(None) };
    let Some((register, flags)) = number(register).zip(number(flags)) else { return Ok(None) };
    Ok(Some(Expression::Among { register, inverted: flags & LOOKUP_INVERTED != 0, values }))
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
    let Some([_, register, Some(data)]) = known(data)? else { return Ok(None) };
    for attribute in attributes(data) {
        match attribute? {
            (attribute::DATA_VERDICT, verdict) => {
                let Some([_, Some(code), chain]) = known(verdict)? else { return Ok(None) };
                let code = i32::from_be_bytes(fixed(Some(code))?);
                return Ok(Some(Expression::Verdict { code, chain: chain.map(text) }));
            }
            (attribute::DATA_VALUE, value) => {
                return Ok(number(register).map(|register| Expression::Immediate { value, register }));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn extension(data: &[u8]) -> Result<Option<Extension<'_>>, Malformed> {
    let Some([_, Some(name), revision, Some(info)]) = known(data)? else { return Ok(None) };
    Ok(number(revision).map(|revision| Extension { name: text(name), revision, info }))
}
