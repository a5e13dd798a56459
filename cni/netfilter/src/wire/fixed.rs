// SPDX-License-Identifier: Apache-2.0
//! Attributes that are laid out when the program is built. What changes from rule to rule is patched into a copy.

use super::{ATTRIBUTE_HEADER, NESTED, aligned};

/// Builds exactly `N` bytes of attributes; a mistake in a length stops the build.
pub(crate) struct Fixed<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Fixed<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    const fn put(mut self, bytes: &[u8]) -> Self {
        let mut index = 0;
        while index < bytes.len() {
            self.bytes[self.at + index] = bytes[index];
            index += 1;
        }
        self.at += bytes.len();
        self
    }

    /// The header of an attribute whose payload has this length.
    #[expect(clippy::cast_possible_truncation, reason = "u16::try_from is not const; N is far below 64 KiB")]
    pub(crate) const fn head(self, kind: u16, payload: usize) -> Self {
        let length = payload + ATTRIBUTE_HEADER;
        assert!(length <= N);
        self.put(&(length as u16).to_ne_bytes()).put(&kind.to_ne_bytes())
    }

    /// The header of an attribute that holds attributes and everything that follows.
    pub(crate) const fn nest(self, kind: u16) -> Self {
        let payload = N - self.at - ATTRIBUTE_HEADER;
        self.head(kind | NESTED, payload)
    }

    /// An attribute that holds a name, with its NUL.
    pub(crate) const fn name(self, kind: u16, name: &str) -> Self {
        let mut built = self.head(kind, name.len() + 1).put(name.as_bytes());
        built.at = aligned(built.at + 1);
        built
    }

    /// An attribute that holds a number in network order.
    pub(crate) const fn be32(self, kind: u16, number: u32) -> Self {
        self.head(kind, 4).put(&number.to_be_bytes())
    }

    /// Room that is patched later.
    pub(crate) const fn room(mut self, length: usize) -> Self {
        self.at += length;
        self
    }

    pub(crate) const fn done(self) -> [u8; N] {
        assert!(self.at == N);
        self.bytes
    }
}
