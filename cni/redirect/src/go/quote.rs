// SPDX-License-Identifier: Apache-2.0
//! `strconv.Quote`, which is also `%q`.

use std::fmt::{self, Write as _};

use protocol::text::quoted_length;

/// Displays a string as Go's `strconv.Quote` does; of one that is longer than [`QUOTED`](protocol::text::QUOTED), its begin and its length.
///
/// Printable characters follow Rust's Unicode tables. They agree with Go's but for characters that a newer
/// Unicode version has assigned.
#[derive(Debug, Clone, Copy)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.0.split_at(quoted_length(self.0));
        out.write_char('"')?;
        for character in shown.chars() {
            write_character(out, character)?;
        }
        out.write_char('"')?;
        if rest.is_empty() { Ok(()) } else { write!(out, "… ({} bytes)", self.0.len()) }
    }
}

fn write_character(out: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    match character {
        '"' | '\\' => {
            out.write_char('\\')?;
            out.write_char(character)
        }
        '\u{7}' => out.write_str("\\a"),
        '\u{8}' => out.write_str("\\b"),
        '\u{c}' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\u{b}' => out.write_str("\\v"),
        _ if is_print(character) => out.write_char(character),
        '\0'..' ' | '\u{7f}' => write!(out, "\\x{:02x}", u32::from(character)),
        '\u{80}'..='\u{ffff}' => write!(out, "\\u{:04x}", u32::from(character)),
        _ => write!(out, "\\U{:08x}", u32::from(character)),
    }
}

/// `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
fn is_print(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // `str::escape_debug` asks the standard library's own "is it printable" for every character but the first, for which
    // it also escapes combining ones; hence the letter in front.
    let mut buffer = [b'a', 0, 0, 0, 0];
    let end = 1 + character.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..end]).is_ok_and(|text| text.escape_debug().nth(1) == Some(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut() {
        let error = Quoted(&"\u{1}".repeat(250_000)).to_string();
        assert_eq!(error, format!("\"{}\"… (250000 bytes)", "\\x01".repeat(256)));
    }

    #[test]
    fn quotes_as_go_does() {
        for (text, quoted) in [
            ("80,", r#""80,""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#),
            ("\u{0}\u{1f}\u{7f}", r#""\x00\x1f\x7f""#),
            ("é☺\u{301}", "\"é☺\u{301}\""),
            ("\u{a0}\u{200b}\u{ad}", r#""\u00a0\u200b\u00ad""#),
            ("\u{e0001}\u{1f600}", "\"\\U000e0001\u{1f600}\""),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted);
        }
    }
}
