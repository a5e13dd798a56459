// SPDX-License-Identifier: Apache-2.0
//! Messages and attributes into one buffer.

use super::{ACK, ATTRIBUTE_HEADER, NESTED, REQUEST, aligned};

/// An attribute that is not complete yet.
#[must_use]
pub(crate) struct Open(usize);

/// Writes messages one behind the other. Each gets its place in the batch as sequence number, the first being 1.
///
/// The buffer is zeroed ahead of what is written, so that padding needs no write, and most writes are of a length that is known
/// when the program is built: a batch of 40 rules is some 3,000 writes, and half of a pod's set-up time if each is a call.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    /// Bytes written.
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

    /// The number of the message that was begun last.
    pub(crate) fn sequence(&self) -> u32 {
        self.sequence
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

    /// Value of an attribute's length field. One of more than 64 KiB cannot be written: see [`Writer::overlong`].
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

    /// True if an attribute was too long for its length field.
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
