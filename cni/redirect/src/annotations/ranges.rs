// SPDX-License-Identifier: Apache-2.0
//! Lists of address ranges in annotations: prefixes with a length and without blanks.

use protocol::text::Shortened;

use super::InvalidValue;
use crate::go::{PrefixError, parse_prefix};
use crate::list::Selection;
use crate::ruleset::Cidr;

/// An element of a list that is no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed parsing cidr '{}': {error}", Shortened(cidr))]
pub struct RangeError {
    /// The element, as given.
    pub cidr: String,
    /// Error in `cidr`.
    pub error: PrefixError,
}

fn read_ranges(list: &str) -> Result<Vec<Cidr>, RangeError> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    list.split(',')
        .map(|cidr| parse_prefix(cidr).map_err(|error| RangeError { cidr: cidr.to_owned(), error }))
        .collect()
}

/// Reads the outbound ranges that are captured; `*` is all of them.
///
/// # Errors
/// The first element that is no prefix.
pub fn read_include_ranges(list: &str) -> Result<Selection<Cidr>, InvalidValue> {
    match list {
        "*" => Ok(Selection::All),
        list => read_ranges(list).map(Selection::List).map_err(InvalidValue::IncludeRanges),
    }
}

/// Reads the outbound ranges that are not captured; `*` is not one.
///
/// # Errors
/// The first element that is no prefix.
pub fn read_exclude_ranges(list: &str) -> Result<Vec<Cidr>, InvalidValue> {
    read_ranges(list).map_err(InvalidValue::ExcludeRanges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_star_stands_alone_and_only_for_inclusion() {
        assert_eq!(read_include_ranges("*"), Ok(Selection::All));
        assert_eq!(read_include_ranges(""), Ok(Selection::List(vec![])));
        assert_eq!(
            read_include_ranges("*,10.0.0.0/8").map_err(|error| error.to_string()),
            Err(r#"IPRanges invalid: failed parsing cidr '*': netip.ParsePrefix("*"): no '/'"#.to_owned())
        );
        assert_eq!(
            read_exclude_ranges("*").map_err(|error| error.to_string()),
            Err(r#"failed parsing cidr '*': netip.ParsePrefix("*"): no '/'"#.to_owned())
        );
    }

    #[test]
    fn host_bits_are_kept() {
        let text: Vec<String> = read_exclude_ranges("192.168.1.7/16,FD00:1::5/64")
            .into_iter()
            .flatten()
            .map(|cidr| cidr.to_string())
            .collect();
        assert_eq!(text, ["192.168.1.7/16", "fd00:1::5/64"]);
    }
}
