// SPDX-License-Identifier: Apache-2.0
//! Netlink messages and attributes as bytes; what the numbers mean is up to others. Here are the readers, which take any bytes and
//! never panic; [`writer`] streams into one buffer, [`fixed`] lays out at build time.

mod fixed;
mod writer;

use std::ops::Range;

pub(crate) use fixed::Fixed;
pub(crate) use writer::Writer;

/// Bytes that are not what they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed netlink message")]
pub struct Malformed;

/// Length of `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;
/// Length of `struct nlattr`.
const ATTRIBUTE_HEADER: usize = 4;
/// Everything that netlink holds is padded to this.
const ALIGNMENT: usize = 4;
/// `NLA_F_NESTED`, which iptables sets and the kernel ignores.
pub(crate) const NESTED: u16 = 0x8000;
/// `NLA_TYPE_MASK`: without the flags for nested and for network byte order.
const TYPE_MASK: u16 = 0x3fff;

/// `NLM_F_REQUEST`
pub(crate) const REQUEST: u16 = 0x1;
/// `NLM_F_ACK`
pub(crate) const ACK: u16 = 0x4;
/// `NLM_F_DUMP_INTR`: what is listed changed meanwhile.
pub(crate) const DUMP_INTERRUPTED: u16 = 0x10;
/// `NLM_F_EXCL`
pub(crate) const EXCL: u16 = 0x200;
/// `NLM_F_DUMP`
pub(crate) const DUMP: u16 = 0x300;
/// `NLM_F_CREATE`
pub(crate) const CREATE: u16 = 0x400;
/// `NLM_F_APPEND`
pub(crate) const APPEND: u16 = 0x800;

/// `NLMSG_ERROR`, which also carries acknowledgements.
pub(crate) const ERROR: u16 = 2;
/// `NLMSG_DONE`: a list ends.
pub(crate) const DONE: u16 = 3;

/// Length as netlink pads it.
pub(crate) const fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// A message as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// Bytes after the header.
    pub(crate) body: &'a [u8],
}

impl Message<'_> {
    /// The error number of an error message; 0 acknowledges.
    pub(crate) fn errno(&self) -> Result<i32, Malformed> {
        let raw = i32::from_ne_bytes(fixed(self.body.get(..4))?);
        Ok(raw.checked_neg().unwrap_or(i32::MAX))
    }
}

/// The messages in a datagram, or in a batch.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Result<Message<'_>, Malformed>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let message = first_message(bytes);
        bytes = match message {
            Ok((_, length)) => bytes.get(aligned(length)..).unwrap_or_default(),
            Err(_) => &[],
        };
        Some(message.map(|(message, _)| message))
    })
}

fn first_message(bytes: &[u8]) -> Result<(Message<'_>, usize), Malformed> {
    let header: [u8; HEADER] = fixed(bytes.get(..HEADER))?;
    let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = header;
    let length = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).map_err(|_| Malformed)?;
    let body = bytes.get(HEADER..length).ok_or(Malformed)?;
    let kind = u16::from_ne_bytes([k0, k1]);
    let flags = u16::from_ne_bytes([f0, f1]);
    let sequence = u32::from_ne_bytes([s0, s1, s2, s3]);
    Ok((Message { kind, flags, sequence, body }, length))
}

/// A request of one message under another sequence number.
pub(crate) fn with_sequence(request: &[u8], sequence: u32) -> Vec<u8> {
    let mut request = request.to_vec();
    if let Some(place) = request.get_mut(8..12) {
        place.copy_from_slice(&sequence.to_ne_bytes());
    }
    request
}

/// The error message that a datagram begins with, which may be cut: the sequence number of the message that it is about, and
/// the error number, 0 for an acknowledgement.
pub(crate) fn acknowledgement(datagram: &[u8]) -> Result<(u32, i32), Malformed> {
    let [_, _, _, _, k0, k1, _, _, s0, s1, s2, s3, _, _, _, _] = fixed(datagram.get(..HEADER))?;
    if u16::from_ne_bytes([k0, k1]) != ERROR {
        return Err(Malformed);
    }
    let errno = i32::from_ne_bytes(fixed(datagram.get(HEADER..HEADER + 4))?);
    Ok((u32::from_ne_bytes([s0, s1, s2, s3]), errno.checked_neg().unwrap_or(i32::MAX)))
}

/// The attributes in `bytes`: type without flags, and where the payload lies.
pub(crate) fn spans(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, Range<usize>), Malformed>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return None;
        }
        let span = first_span(rest).map(|(kind, length)| (kind, at + ATTRIBUTE_HEADER..at + length));
        at = match &span {
            Ok((_, payload)) => aligned(payload.end),
            Err(_) => bytes.len(),
        };
        Some(span)
    })
}

fn first_span(bytes: &[u8]) -> Result<(u16, usize), Malformed> {
    let [l0, l1, k0, k1] = fixed(bytes.get(..ATTRIBUTE_HEADER))?;
    let length = usize::from(u16::from_ne_bytes([l0, l1]));
    if length < ATTRIBUTE_HEADER || length > bytes.len() {
        return Err(Malformed);
    }
    Ok((u16::from_ne_bytes([k0, k1]) & TYPE_MASK, length))
}

/// The attributes in `bytes`: type without flags, and payload.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Malformed>> + '_ {
    spans(bytes).map(|span| span.map(|(kind, payload)| (kind, bytes.get(payload).unwrap_or_default())))
}

/// A payload of known length.
pub(crate) fn fixed<const N: usize>(payload: Option<&[u8]>) -> Result<[u8; N], Malformed> {
    payload.and_then(|payload| payload.try_into().ok()).ok_or(Malformed)
}

/// A number in network order.
pub(crate) fn be32(payload: &[u8]) -> Result<u32, Malformed> {
    fixed(Some(payload)).map(u32::from_be_bytes)
}

/// A long number in network order.
pub(crate) fn be64(payload: &[u8]) -> Result<u64, Malformed> {
    fixed(Some(payload)).map(u64::from_be_bytes)
}

/// A name up to its NUL, which may be missing.
pub(crate) fn text(payload: &[u8]) -> &[u8] {
    payload.split(|byte| *byte == 0).next().unwrap_or_default()
}
