// SPDX-License-Identifier: Apache-2.0
//! Netlink messages and attributes as bytes: a writer that streams into one buffer, and readers that take any bytes and never
//! panic. What the numbers mean is up to others.

mod fixed;

use std::ops::Range;

pub(crate) use fixed::Fixed;

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

/// What netlink pads a length to.
pub(crate) const fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// An attribute that is not complete yet.
#[must_use]
pub(crate) struct Open(usize);

/// Writes messages one behind the other. Each gets its place in the batch as sequence number, the first being 1.
///
/// The buffer is zeroed ahead of what is written, so that padding needs no write, and most writes are of a length that is known
/// when the program is built: a batch of 40 rules is some 3,000 writes, and half of a pod's set-up time if each is a call.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// How much was written.
    at: usize,
    /// Where the message begins that is being written or was written last.
    last: usize,
    sequence: u32,
    overlong: bool,
}

impl Writer {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], at: 0, last: 0, sequence: 0, overlong: false }
    }

    /// Begins a message; the one before it, if any, is complete.
    pub(crate) fn message(&mut self, kind: u16, flags: u16) {
        self.finish();
        self.sequence += 1;
        self.last = self.at;
        let [k0, k1] = kind.to_ne_bytes();
        let [f0, f1] = (REQUEST | flags).to_ne_bytes();
        let [s0, s1, s2, s3] = self.sequence.to_ne_bytes();
        self.raw([0, 0, 0, 0, k0, k1, f0, f1, s0, s1, s2, s3, 0, 0, 0, 0]);
    }

    /// Asks for an acknowledgement of the message that was begun last.
    pub(crate) fn acknowledge(&mut self) {
        if let Some(flags) = self.bytes.get_mut(self.last + 6..self.last + 8) {
            let with = u16::from_ne_bytes([flags[0], flags[1]]) | ACK;
            flags.copy_from_slice(&with.to_ne_bytes());
        }
    }

    /// Bytes of the message itself, between header and attributes, or a whole attribute; a multiple of four.
    #[inline]
    pub(crate) fn raw<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some(place) = self.bytes.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut) {
            *place = bytes;
            self.at += N;
        } else {
            self.grow(N);
            self.slice(&bytes);
        }
    }

    fn slice(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        if end > self.bytes.len() {
            self.grow(bytes.len());
        }
        if let Some(place) = self.bytes.get_mut(self.at..end) {
            place.copy_from_slice(bytes);
            self.at = end;
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        self.bytes.resize((self.bytes.len() * 2).max(aligned(self.at + more)), 0);
    }

    /// An attribute.
    #[inline]
    pub(crate) fn attribute<const N: usize>(&mut self, kind: u16, data: [u8; N]) {
        self.head(kind, N);
        self.raw(data);
        self.pad();
    }

    /// An attribute of a length that is not known when the program is built.
    pub(crate) fn bytes(&mut self, kind: u16, data: &[u8]) {
        self.head(kind, data.len());
        self.slice(data);
        self.pad();
    }

    /// An attribute that holds a name, with its NUL.
    pub(crate) fn name(&mut self, kind: u16, name: &[u8]) {
        self.head(kind, name.len() + 1);
        self.slice(name);
        self.raw([0]);
        self.pad();
    }

    /// An attribute that holds a number in network order.
    #[inline]
    pub(crate) fn be32(&mut self, kind: u16, number: u32) {
        let [k0, k1] = kind.to_ne_bytes();
        let [l0, l1] = 8_u16.to_ne_bytes();
        let [n0, n1, n2, n3] = number.to_be_bytes();
        self.raw([l0, l1, k0, k1, n0, n1, n2, n3]);
    }

    /// An attribute that holds a long number in network order.
    pub(crate) fn be64(&mut self, kind: u16, number: u64) {
        self.attribute(kind, number.to_be_bytes());
    }

    /// The header of an attribute.
    #[inline]
    fn head(&mut self, kind: u16, payload: usize) {
        let length = self.length(payload + ATTRIBUTE_HEADER);
        let [l0, l1] = length.to_ne_bytes();
        let [k0, k1] = kind.to_ne_bytes();
        self.raw([l0, l1, k0, k1]);
    }

    /// Begins an attribute that holds attributes.
    #[inline]
    pub(crate) fn nest(&mut self, kind: u16) -> Open {
        let open = Open(self.at);
        self.head(kind | NESTED, 0);
        open
    }

    /// Ends an attribute that holds attributes.
    #[inline]
    pub(crate) fn close(&mut self, Open(start): Open) {
        let length = self.length(self.at - start);
        if let Some(place) = self.bytes.get_mut(start..).and_then(<[u8]>::first_chunk_mut) {
            *place = length.to_ne_bytes();
        }
    }

    /// What an attribute's length field can hold. One of more than 64 KiB cannot be written: see [`Writer::overlong`].
    #[inline]
    fn length(&mut self, length: usize) -> u16 {
        u16::try_from(length).unwrap_or_else(|_| {
            self.overlong = true;
            u16::MAX
        })
    }

    #[inline]
    fn pad(&mut self) {
        self.at = aligned(self.at);
        if self.at > self.bytes.len() {
            self.grow(0);
        }
    }

    /// Whether an attribute was too long for its length field.
    pub(crate) fn overlong(&self) -> bool {
        self.overlong
    }

    /// The payload of the first attribute, where attributes are written without a message.
    pub(crate) fn first_payload(&self) -> &[u8] {
        self.bytes.get(ATTRIBUTE_HEADER..self.at).unwrap_or_default()
    }

    fn finish(&mut self) {
        let length = u32::try_from(self.at - self.last).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(self.last..).and_then(<[u8]>::first_chunk_mut)
            && self.at > 0
        {
            *place = length.to_ne_bytes();
        }
    }

    /// All messages.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.finish();
        self.bytes.truncate(self.at);
        self.bytes
    }
}

/// A message as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// What follows the header.
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
