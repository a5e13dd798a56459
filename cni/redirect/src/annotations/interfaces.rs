// SPDX-License-Identifier: Apache-2.0
//! Lists of interfaces in annotations: plain names, no wildcards.

use std::borrow::Cow;

use crate::go::Quoted;

/// The longest name the kernel holds (`IFNAMSIZ` less the NUL).
const LONGEST: usize = 15;

/// A bad element of a list of interfaces.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InterfaceError {
    /// Nothing between two commas.
    #[error("empty interface name")]
    Empty,
    /// Longer than the kernel allows.
    #[error("interface name {} too long (max 15 chars)", Quoted(.0))]
    TooLong(String),
    /// Does not start with a letter, or has something else than letters, digits, `_`, `.` and `-`.
    #[error("interface name {} contains invalid characters", Quoted(.0))]
    Characters(String),
}

/// Reads a list of interfaces; blanks around a name do not count.
///
/// # Errors
/// The first bad name.
pub fn read_interfaces(list: &str) -> Result<Vec<Cow<'static, str>>, InterfaceError> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    list.split(',').map(|name| check(name.trim()).map(|()| Cow::Owned(name.trim().to_owned()))).collect()
}

fn check(name: &str) -> Result<(), InterfaceError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    match name.as_bytes() {
        [] => Err(InterfaceError::Empty),
        bytes if bytes.len() > LONGEST => Err(InterfaceError::TooLong(name.to_owned())),
        [first, rest @ ..] if first.is_ascii_alphabetic() && rest.iter().all(|&byte| fits(byte)) => Ok(()),
        _ => Err(InterfaceError::Characters(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_kept_in_order() {
        assert_eq!(read_interfaces(" k6t-eth0 ,bond0.20"), Ok(vec!["k6t-eth0".into(), "bond0.20".into()]));
        assert_eq!(read_interfaces(""), Ok(vec![]));
    }

    #[test]
    fn bad_names_are_refused_in_upstream_s_words() {
        for (list, message) in [
            (" ", "empty interface name"),
            ("eth0,,eth1", "empty interface name"),
            ("waytoolonginterface", r#"interface name "waytoolonginterface" too long (max 15 chars)"#),
            ("net1+", r#"interface name "net1+" contains invalid characters"#),
            ("1eth", r#"interface name "1eth" contains invalid characters"#),
            ("eth0, e h", r#"interface name "e h" contains invalid characters"#),
        ] {
            assert_eq!(read_interfaces(list).map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }
}
