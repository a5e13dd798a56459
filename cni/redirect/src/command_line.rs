// SPDX-License-Identifier: Apache-2.0
//! Validation of `istio-iptables` settings before anything else, with upstream's error messages. Lists are read
//! in [`crate::list`], booleans and numbers in [`crate::go`].

use crate::go::{PrefixError, parse_prefix};
use crate::list::Selection;
use crate::ruleset::{Cidr, Family, Id};

/// The most groups that one list of captured groups may have: they all go into one rule.
pub const GROUPS_LIMIT: usize = 64;

/// A setting that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// More than [`GROUPS_LIMIT`] captured groups.
    #[error(
        "number of owner groups whose outgoing traffic should be redirected to Envoy cannot exceed {GROUPS_LIMIT}, got {}: [{}]",
        .0.len(),
        Spaced(.0)
    )]
    Groups(Vec<Id>),
    /// The loopback prefix is none.
    #[error("failed to parse CIDR {text}: {error}")]
    Prefix {
        /// The input.
        text: String,
        /// Error in `text`; part of the message, as upstream has it.
        error: PrefixError,
    },
    /// The loopback prefix is of IPv6 or elsewhere.
    #[error("expected valid IPv4 loopback address in CIDR {text}; found {}", cidr.address)]
    NoLoopback {
        /// The input.
        text: String,
        /// The parsed prefix.
        cidr: Cidr,
    },
    /// The loopback prefix is wider than all of loopback.
    #[error("expected CIDR {text} to have mask in range [8, 32]; found {}", cidr.length)]
    LoopbackLength {
        /// The input.
        text: String,
        /// The parsed prefix.
        cidr: Cidr,
    },
}

struct Spaced<'a>(&'a [Id]);

impl std::fmt::Display for Spaced<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, id) in self.0.iter().enumerate() {
            write!(out, "{}{id}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Checks the captured groups.
///
/// # Errors
/// There are too many for one rule.
pub fn check_groups(include: &Selection<Id>) -> Result<(), SettingError> {
    match include {
        Selection::List(groups) if groups.len() > GROUPS_LIMIT => Err(SettingError::Groups(groups.clone())),
        _ => Ok(()),
    }
}

/// Reads the IPv4 loopback prefix.
///
/// # Errors
/// It is no prefix of IPv4 loopback addresses.
pub fn read_loopback(text: &str) -> Result<Cidr, SettingError> {
    let given = || text.to_owned();
    let cidr = parse_prefix(text).map_err(|error| SettingError::Prefix { text: given(), error })?;
    if cidr.family() != Family::V4 || !cidr.address.is_loopback() {
        return Err(SettingError::NoLoopback { text: given(), cidr });
    }
    if cidr.length < 8 {
        return Err(SettingError::LoopbackLength { text: given(), cidr });
    }
    Ok(cidr)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::list;

    #[test]
    fn sixty_four_groups_fit() {
        let list =
            |count: u32| list::groups(&(0..count).map(|id| id.to_string()).collect::<Vec<_>>().join(","));
        assert_eq!(check_groups(&list(64)), Ok(()));
        assert_eq!(check_groups(&Selection::All), Ok(()));
        let refused = check_groups(&list(65)).map_err(|error| error.to_string());
        let start = "number of owner groups whose outgoing traffic should be redirected to Envoy cannot exceed 64, got 65: [0 1 2 ";
        assert!(
            refused.as_ref().is_err_and(|text| text.starts_with(start) && text.ends_with(" 63 64]")),
            "{refused:?}"
        );
    }

    #[test]
    fn the_loopback_prefix_is_one() {
        for text in ["127.0.0.1/32", "127.0.0.1/8", "127.128.0.0/9"] {
            assert_eq!(read_loopback(text).map(|cidr| cidr.to_string()), Ok(text.to_owned()));
        }
        for (text, message) in [
            ("", r#"failed to parse CIDR : netip.ParsePrefix(""): no '/'"#),
            ("127.0.0.1", r#"failed to parse CIDR 127.0.0.1: netip.ParsePrefix("127.0.0.1"): no '/'"#),
            ("10.0.0.0/8", "expected valid IPv4 loopback address in CIDR 10.0.0.0/8; found 10.0.0.0"),
            ("::1/128", "expected valid IPv4 loopback address in CIDR ::1/128; found ::1"),
            ("127.0.0.0/7", "expected CIDR 127.0.0.0/7 to have mask in range [8, 32]; found 7"),
        ] {
            assert_eq!(read_loopback(text).map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }
}
