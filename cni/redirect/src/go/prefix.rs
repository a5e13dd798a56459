// SPDX-License-Identifier: Apache-2.0
//! `netip.ParsePrefix`: an address, a slash and a length, and nothing else.
//!
//! The standard library's address parser accepts the same addresses, but says nothing about what is wrong with others. So
//! a good prefix takes the quick way, and only a bad one is read again, slowly, to find Go's words for it.

use std::net::IpAddr;

use super::quote::Quoted;
use crate::ruleset::Cidr;

/// `netip.ParsePrefix`'s error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("netip.ParsePrefix({}): {reason}", Quoted(text))]
pub struct PrefixError {
    /// The input.
    pub text: String,
    /// Error in `text`.
    pub reason: PrefixErrorReason,
}

/// Error in a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixErrorReason {
    /// A bare address, say.
    #[error("no '/'")]
    NoSlash,
    /// Malformed address before the last slash.
    #[error(transparent)]
    Address(AddressError),
    /// `fe80::1%eth0/64`
    #[error("IPv6 zones cannot be present in a prefix")]
    Zone,
    /// The length is no plain decimal number.
    #[error("bad bits after slash: {}", Quoted(.0))]
    Bits(String),
    /// Longer than the address.
    #[error("prefix length out of range")]
    Length,
}

/// `netip.ParseAddr`'s error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ParseAddr({}): {message}{}", Quoted(text), At(at))]
pub struct AddressError {
    /// The input.
    pub text: String,
    /// Error in `text`.
    pub message: &'static str,
    /// Unparsed rest of `text` at the error; empty if Go does not say.
    pub at: String,
}

struct At<'a>(&'a str);

impl std::fmt::Display for At<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(out, " (at {})", Quoted(self.0)) }
    }
}

/// Reads a prefix; host bits are kept.
///
/// # Errors
/// In Go's words.
pub fn parse_prefix(text: &str) -> Result<Cidr, PrefixError> {
    let error = |reason| PrefixError { text: text.to_owned(), reason };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| error(PrefixErrorReason::NoSlash))?;
    let address = match address.parse::<IpAddr>() {
        Ok(address) => address,
        Err(_) => return Err(error(why_no_address(address))),
    };
    // More than 19 digits overflow Go's int: that is "bad bits", fewer are "out of range".
    let plain = match bits.as_bytes() {
        [b'0'..=b'9'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit) && bits.parse::<i64>().is_ok(),
        _ => false,
    };
    if !plain {
        return Err(error(PrefixErrorReason::Bits(bits.to_owned())));
    }
    let limit = if address.is_ipv4() { 32 } else { 128 };
    match bits.parse::<u8>() {
        Ok(length) if length <= limit => Ok(Cidr { address, length }),
        _ => Err(error(PrefixErrorReason::Length)),
    }
}

/// Go's words for an address that could not be read. An IPv6 address with a zone is one for Go, but not in a prefix.
fn why_no_address(text: &str) -> PrefixErrorReason {
    let (message, at) = match text.bytes().find(|byte| matches!(byte, b'.' | b':' | b'%')) {
        Some(b'.') => match read_v4(text) {
            Err(error) => error,
            // Not reached: an address that Go can read is one for us, too.
            Ok(()) => ("unable to parse IP", ""),
        },
        Some(b':') => match read_v6(text) {
            Err(error) => error,
            Ok(()) => return PrefixErrorReason::Zone,
        },
        Some(_) => ("missing IPv6 address", ""),
        None => ("unable to parse IP", ""),
    };
    PrefixErrorReason::Address(AddressError { text: text.to_owned(), message, at: at.to_owned() })
}

/// Error message, and the unparsed rest.
type Trouble<'a> = (&'static str, &'a str);

fn read_v4(text: &str) -> Result<(), Trouble<'_>> {
    let bytes = text.as_bytes();
    let (mut value, mut digits, mut dots) = (0u32, 0, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(("IPv4 field has value >255", ""));
                }
            }
            b'.' => {
                if at == 0 || at + 1 == bytes.len() || bytes[at - 1] == b'.' {
                    return Err(("IPv4 field must have at least one digit", &text[at..]));
                }
                if dots == 3 {
                    return Err(("IPv4 address too long", ""));
                }
                (dots, value, digits) = (dots + 1, 0, 0);
            }
            _ => return Err(("unexpected character", &text[at..])),
        }
    }
    if dots < 3 { Err(("IPv4 address too short", "")) } else { Ok(()) }
}

fn read_v6(text: &str) -> Result<(), Trouble<'_>> {
    let mut rest = match text.split_once('%') {
        Some((_, "")) => return Err(("zone must be a non-empty string", "")),
        Some((address, _zone)) => address,
        None => text,
    };
    let mut fields = 0;
    let mut ellipsis = rest.starts_with("::");
    if ellipsis {
        rest = &rest[2..];
        if rest.is_empty() {
            return Ok(());
        }
    }
    while fields < 8 {
        let digits = hex_digits(rest)?;
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if !ellipsis && fields != 6 {
                return Err(("embedded IPv4 address must replace the final 2 fields of the address", rest));
            }
            if fields > 6 {
                return Err(("too many hex fields to fit an embedded IPv4 at the end of the address", rest));
            }
            read_v4(rest)?;
            (rest, fields) = ("", fields + 2);
            break;
        }
        fields += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        rest = after_colon(rest)?;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis {
                return Err(("multiple :: in address", rest));
            }
            (ellipsis, rest) = (true, after);
            if rest.is_empty() {
                break;
            }
        }
    }
    match (rest.is_empty(), fields < 8, ellipsis) {
        (false, ..) => Err(("trailing garbage after address", rest)),
        (true, true, false) => Err(("address string too short", "")),
        (true, false, true) => Err(("the :: must expand to at least one field of zeros", "")),
        _ => Ok(()),
    }
}

/// Number of leading hexadecimal digits of `rest`.
fn hex_digits(rest: &str) -> Result<usize, Trouble<'_>> {
    match rest.bytes().take_while(u8::is_ascii_hexdigit).count() {
        0 => Err(("each colon-separated field must have at least one digit", rest)),
        1..=4 => Ok(rest.bytes().take_while(u8::is_ascii_hexdigit).count()),
        _ => Err(("each group must have 4 or less digits", rest)),
    }
}

fn after_colon(rest: &str) -> Result<&str, Trouble<'_>> {
    match rest.strip_prefix(':') {
        None => Err(("unexpected character, want colon", rest)),
        Some("") => Err(("colon must be followed by more characters", rest)),
        Some(after) => Ok(after),
    }
}
