// SPDX-License-Identifier: Apache-2.0
//! The counters in a list of expressions.

use crate::nft::attribute;
use crate::snapshot::Counter;
use crate::wire::{Malformed, be64, spans, text};

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
