// SPDX-License-Identifier: Apache-2.0
//! Sets that rules ask for without a name of their own (`tcp dport != { 53, 15008 }`). The kernel lists such an expression with a
//! number that says nothing, and the elements elsewhere. Here the elements take the number's place, so that equal rules have equal
//! expressions.

use crate::nft::{self, attribute};
use crate::wire::{Malformed, Writer, attributes, be32, text};

/// The name of an expression with its elements. No kernel has it.
pub(super) const AMONG: &[u8] = b"among";
/// Name prefix of anonymous sets.
const ANONYMOUS: &[u8] = b"__set";

// Attributes of `among`.
const REGISTER: u16 = 1;
const FLAGS: u16 = 2;
const VALUES: u16 = 3;

/// An expression that looks a register up in a set.
struct Lookup<'a> {
    set: &'a [u8],
    register: u32,
    flags: u32,
}

/// Writes an expression with the elements of its set.
pub(crate) fn write_among(
    out: &mut Writer,
    register: u32,
    inverted: bool,
    values: impl IntoIterator<Item = Vec<u8>>,
) {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort();
    values.dedup();
    let element = out.nest(attribute::LIST_ELEMENT);
    out.name(attribute::EXPRESSION_NAME, AMONG);
    let data = out.nest(attribute::EXPRESSION_DATA);
    out.be32(REGISTER, register);
    out.be32(FLAGS, if inverted { nft::LOOKUP_INVERTED } else { 0 });
    let list = out.nest(VALUES);
    for value in &values {
        out.bytes(attribute::DATA_VALUE, value);
    }
    out.close(list);
    out.close(data);
    out.close(element);
}

/// Puts the elements of each set without a name in its place; `find` tells them by its number, or that there is more to the set
/// than its elements.
/// `None` if nothing is to be replaced.
pub(crate) fn spell_out<E: From<Malformed>>(
    list: &[u8],
    mut find: impl FnMut(&[u8]) -> Result<Option<Vec<Vec<u8>>>, E>,
) -> Result<Option<Vec<u8>>, E> {
    let mut out = Writer::with_capacity(0);
    let open = out.nest(attribute::RULE_EXPRESSIONS);
    let mut replaced = false;
    for element in attributes(list) {
        let (kind, element) = element?;
        let found = match lookup(element)? {
            Some(lookup) => find(lookup.set)?.map(|values| (lookup, values)),
            None => None,
        };
        match found {
            Some((lookup, values)) => {
                replaced = true;
                write_among(&mut out, lookup.register, lookup.flags & nft::LOOKUP_INVERTED != 0, values);
            }
            None => out.bytes(kind, element),
        }
    }
    out.close(open);
    Ok(replaced.then(|| out.first_payload().to_vec()))
}

/// An expression, if it looks up in a set without a name and does no more than that.
fn lookup(element: &[u8]) -> Result<Option<Lookup<'_>>, Malformed> {
    let (mut is_lookup, mut data) = (false, &[][..]);
    for attribute in attributes(element) {
        match attribute? {
            (attribute::EXPRESSION_NAME, payload) => is_lookup = text(payload) == b"lookup",
            (attribute::EXPRESSION_DATA, payload) => data = payload,
            _ => {}
        }
    }
    let mut lookup = Lookup { set: &[], register: 0, flags: 0 };
    for attribute in attributes(data).filter(|_| is_lookup) {
        match attribute? {
            (attribute::LOOKUP_SET, payload) => lookup.set = text(payload),
            (attribute::LOOKUP_SET_ID, _) => {}
            (attribute::LOOKUP_SOURCE, payload) => lookup.register = be32(payload)?,
            (attribute::LOOKUP_FLAGS, payload) => lookup.flags = be32(payload)?,
            _ => return Ok(None),
        }
    }
    Ok((is_lookup && lookup.set.starts_with(ANONYMOUS)).then_some(lookup))
}

/// The keys in the list of a set's elements; `None` if an element is more than a key.
pub(crate) fn keys(list: &[u8]) -> Result<Option<Vec<Vec<u8>>>, Malformed> {
    let mut keys = Vec::new();
    for element in attributes(list) {
        for attribute in attributes(element?.1) {
            let (attribute::ELEMENT_KEY, key) = attribute? else { return Ok(None) };
            for value in attributes(key) {
                keys.push(value?.1.to_vec());
            }
        }
    }
    Ok(Some(keys))
}
