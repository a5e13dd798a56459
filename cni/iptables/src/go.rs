// SPDX-License-Identifier: Apache-2.0
//! Numbers and durations as Go's flag library reads them.

use std::time::Duration;

/// Malformed value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoError {
    /// Not a 16-bit number.
    #[error("{0:?} is not a number from 0 to 65535")]
    Number(String),
    #[error("{0:?} is not a duration like 5s or 1m30s")]
    Duration(String),
}

/// `strconv.ParseUint(text, 0, 16)`, without underscores.
///
/// # Errors
/// Anything else.
pub fn parse_number(text: &str) -> Result<u16, GoError> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    let error = || GoError::Number(text.to_owned());
    if digits.starts_with('+') {
        return Err(error());
    }
    u16::from_str_radix(digits, radix).map_err(|_| error())
}

/// The units of a duration, in nanoseconds. A longer name comes before one that it begins with.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// `time.ParseDuration`. A negative one has passed already: it is zero here.
///
/// # Errors
/// Anything else.
pub fn parse_duration(text: &str) -> Result<Duration, GoError> {
    let error = || GoError::Duration(text.to_owned());
    let (negative, mut rest) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() || nanoseconds == 0.0 && text.len() < 2 {
        let end = rest.find(|byte: char| !byte.is_ascii_digit() && byte != '.').ok_or_else(error)?;
        let (number, tail) = rest.split_at(end);
        let (unit, scale) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(error)?;
        nanoseconds += number.parse::<f64>().map_err(|_| error())? * scale;
        rest = &tail[unit.len()..];
    }
    // Go holds 290 years.
    let longest = 9.2e18;
    if nanoseconds > longest {
        return Err(error());
    }
    Ok(if negative { Duration::ZERO } else { Duration::from_secs_f64(nanoseconds / 1e9) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let ms = |text: &str| parse_duration(text).map(|duration| duration.as_millis());
        for (text, want) in [
            ("5s", 5000),
            ("1m30s", 90_000),
            ("1.5s", 1500),
            (".5s", 500),
            ("1.s", 1000),
            ("250ms", 250),
            ("1h", 3_600_000),
            ("1500us", 1),
            ("1500µs", 1),
            ("0", 0),
            ("+2s", 2000),
            ("-2s", 0),
            ("0s", 0),
        ] {
            assert_eq!(ms(text), Ok(want), "{text}");
        }
        for text in
            ["", "5", "s", ".s", "5 s", "5x", "1m30", "1e3s", "+", "-", "5s ", "1..2s", "99999999999h"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_read_in_go_s_notations() {
        for (text, want) in
            [("0", 0), ("15002", 15002), ("0x3a9a", 15002), ("0o17", 15), ("017", 15), ("0b11", 3)]
        {
            assert_eq!(parse_number(text), Ok(want), "{text}");
        }
        for text in ["", "-1", "+1", "65536", "0x", "08", "1 ", "0x+1", "port"] {
            assert!(parse_number(text).is_err(), "{text}");
        }
    }
}
