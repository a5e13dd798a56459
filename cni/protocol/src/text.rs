// SPDX-License-Identifier: Apache-2.0
//! Text of strangers (annotations, names of chains and interfaces, lines of others' files) on its way to people: no terminal obeys it, and it is
//! bounded.

use std::borrow::Cow;
use std::fmt;

/// Longest quotation of a stranger's text, in bytes.
pub const QUOTED: usize = 256;

/// A text on one line: control characters are escaped, line ends included.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, char::is_control)
}

/// A text of several lines: control characters are escaped, but for line ends.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character.is_control() && character != '\n')
}

fn escaped(text: &str, is_escaped: fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let escape = |character: char| match is_escaped(character) {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Where a quotation of a text ends: at its end, or after [`QUOTED`] bytes, where a character ends.
#[must_use]
pub fn quoted_length(text: &str) -> usize {
    text.floor_char_boundary(QUOTED)
}

/// Displays a text's first [`QUOTED`] bytes, and of a longer one its length.
#[derive(Debug, Clone, Copy)]
pub struct Shortened<'a>(pub &'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.0.split_at(quoted_length(self.0));
        out.write_str(shown)?;
        if rest.is_empty() { Ok(()) } else { write!(out, "… ({} bytes)", self.0.len()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_terminal_obeys_a_stranger() {
        let hostile = "ISTIO_\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}1m\nnext";
        assert_eq!(one_line(hostile), r"ISTIO_\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}1m\nnext");
        assert_eq!(lines(hostile), "ISTIO_\\u{1b}]0;owned\\u{7}\\u{1b}[31m\\u{9b}1m\nnext");
        assert!(matches!(one_line("chain ä is missing"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_quotation_has_256_bytes_at_most() {
        let long = "ä".repeat(1000);
        let shown = Shortened(&long).to_string();
        assert_eq!(shown, format!("{}… (2000 bytes)", "ä".repeat(128)));
        let odd = format!("x{long}");
        assert_eq!(quoted_length(&odd), 255);
        for short in ["", "80,443", &"x".repeat(QUOTED)] {
            assert_eq!(Shortened(short).to_string(), short);
        }
    }
}
