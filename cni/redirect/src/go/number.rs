// SPDX-License-Identifier: Apache-2.0
//! `strconv.ParseUint(s, 10, 16)` and `strconv.ParseBool`.

use serde::{Deserialize, Serialize};

use super::quote::Quoted;

/// Kind of an error in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UintErrorKind {
    /// Empty, or a character that is no digit comes first.
    #[error("invalid syntax")]
    Syntax,
    /// It does not fit; found before any character that is no digit.
    #[error("value out of range")]
    Range,
}

/// `strconv.ParseUint`'s error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseUint: parsing {}: {kind}", Quoted(text))]
pub struct UintError {
    /// The input.
    pub text: String,
    /// Error in `text`.
    pub kind: UintErrorKind,
}

/// Reads a decimal number of 16 bits: digits only, leading zeros allowed.
///
/// # Errors
/// As Go reports it: whichever is met first from the left, a character that is no digit or an overflow.
pub fn parse_port(text: &str) -> Result<u16, UintError> {
    let error = |kind| UintError { text: text.to_owned(), kind };
    if text.is_empty() {
        return Err(error(UintErrorKind::Syntax));
    }
    let mut value: u16 = 0;
    for digit in text.bytes() {
        if !digit.is_ascii_digit() {
            return Err(error(UintErrorKind::Syntax));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u16::from(digit - b'0')))
            .ok_or_else(|| error(UintErrorKind::Range))?;
    }
    Ok(value)
}

/// `strconv.ParseBool`'s error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("strconv.ParseBool: parsing {}: invalid syntax", Quoted(.0))]
pub struct BoolError(pub String);

/// Reads one of Go's twelve spellings of a truth value.
///
/// # Errors
/// Any other text, the empty one included.
pub fn parse_bool(text: &str) -> Result<bool, BoolError> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(BoolError(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_go_reads_them() {
        for (text, port) in [("0", 0), ("80", 80), ("00080", 80), ("65535", 65535)] {
            assert_eq!(parse_port(text), Ok(port));
        }
        for (text, message) in [
            ("", r#"strconv.ParseUint: parsing "": invalid syntax"#),
            ("-1", r#"strconv.ParseUint: parsing "-1": invalid syntax"#),
            ("+1", r#"strconv.ParseUint: parsing "+1": invalid syntax"#),
            ("65536", r#"strconv.ParseUint: parsing "65536": value out of range"#),
            ("70000x", r#"strconv.ParseUint: parsing "70000x": value out of range"#),
            ("7000x0", r#"strconv.ParseUint: parsing "7000x0": invalid syntax"#),
        ] {
            assert_eq!(parse_port(text).map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }

    #[test]
    fn truth_values_are_case_sensitive() {
        assert_eq!(parse_bool("True"), Ok(true));
        assert_eq!(parse_bool("f"), Ok(false));
        assert_eq!(
            parse_bool("yes").map_err(|error| error.to_string()),
            Err(r#"strconv.ParseBool: parsing "yes": invalid syntax"#.to_owned())
        );
        assert!(parse_bool("tRUE").is_err());
    }
}
