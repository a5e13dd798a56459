// SPDX-License-Identifier: Apache-2.0
//! Bounds of output. Its beginning and its end are kept, with the number of bytes that were left out between them.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Bytes that are kept of one output.
pub const OUTPUT: usize = 1 << 20;

/// Output as it comes.
#[derive(Debug)]
pub struct Bounded {
    /// Bytes that each end may have.
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: usize,
}

impl Bounded {
    /// Output of which `most` bytes are kept.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { half: most / 2, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend(first);
        let last = &rest[rest.len().saturating_sub(self.half)..];
        self.tail.extend(last);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.left_out += rest.len() - last.len() + over;
    }

    /// Begin and end of what was added, with the number of bytes between them.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let mut all = self.head;
        if self.left_out > 0 {
            all.extend(mark(self.left_out).into_bytes());
        }
        all.extend(self.tail);
        all
    }
}

fn mark(left_out: usize) -> String {
    format!("… {left_out} bytes left out …")
}

/// A text of `most` bytes, and the mark, at most.
#[must_use]
pub fn bounded(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return text.into();
    }
    let head = text.floor_char_boundary(most / 2);
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!("{}{}{}", &text[..head], mark(tail - head), &text[tail..]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_kept_whatever_the_pieces_are() {
        let all: Vec<u8> = (b'a'..=b'z').collect();
        for piece in [1, 2, 3, 7, 26] {
            let mut output = Bounded::new(6);
            all.chunks(piece).for_each(|bytes| output.push(bytes));
            assert_eq!(String::from_utf8(output.bytes()).unwrap(), "abc… 20 bytes left out …xyz", "{piece}");
        }
        let mut output = Bounded::new(26);
        output.push(&all);
        assert_eq!(output.bytes(), all);
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        assert_eq!(bounded("short", 5), "short");
        assert_eq!(bounded("ääääää", 6), "ä… 8 bytes left out …ä");
    }
}
