// SPDX-License-Identifier: Apache-2.0
//! Lists of ports in annotations: decimal numbers of 16 bits, no ranges, no empty elements.

use crate::go::{Quoted, UintError, parse_port};

/// A list of ports that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("portList {} invalid: {error}", Quoted(list))]
pub struct PortListError {
    /// The whole list, as given.
    pub list: String,
    /// Its first bad element.
    pub error: PortError,
}

/// An element of a list that is no port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed parsing port {}: {error}", Quoted(token))]
pub struct PortError {
    /// The element, blanks included.
    pub token: String,
    /// Error in `token`.
    pub error: UintError,
}

/// Checks a list of ports. `*` alone is accepted for every list, an exclusion's included, where it ends as an element
/// that no rule can hold.
///
/// # Errors
/// The first element that is no port.
pub fn check_ports(list: &str) -> Result<(), PortListError> {
    let trimmed = list.trim();
    if list == "*" || trimmed.is_empty() {
        return Ok(());
    }
    for token in trimmed.split(',') {
        if let Err(error) = parse_port(token.trim()) {
            let error = PortError { token: token.to_owned(), error };
            return Err(PortListError { list: list.to_owned(), error });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_lists_pass() {
        for list in ["", "  ", "*", "80", "0", "65535", " 80 , 443 ", "80,\n90", "00080"] {
            assert_eq!(check_ports(list), Ok(()), "{list:?}");
        }
    }

    #[test]
    fn bad_lists_are_refused_in_upstream_s_words() {
        for (list, message) in [
            (
                "80,",
                r#"portList "80," invalid: failed parsing port "": strconv.ParseUint: parsing "": invalid syntax"#,
            ),
            (
                "80, x ",
                r#"portList "80, x " invalid: failed parsing port " x": strconv.ParseUint: parsing "x": invalid syntax"#,
            ),
            (
                " * ",
                r#"portList " * " invalid: failed parsing port "*": strconv.ParseUint: parsing "*": invalid syntax"#,
            ),
            (
                "70000",
                r#"portList "70000" invalid: failed parsing port "70000": strconv.ParseUint: parsing "70000": value out of range"#,
            ),
        ] {
            assert_eq!(check_ports(list).map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }
}
