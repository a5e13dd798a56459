// SPDX-License-Identifier: Apache-2.0
//! Comma lists of settings: how a value becomes ports, prefixes, interfaces and owners.
//!
//! Empty elements are dropped (`80,` is one port) and so are blanks around an element. This reads, it does not validate:
//! what an annotation may say is decided in [`crate::annotations`], and what a rule cannot hold stays
//! [`Port::Verbatim`] or [`Id::Name`] for whoever writes the rule.
//!
//! A command line's lists are read by the same functions. Upstream hands an element on with its blanks, and the tools that
//! read the rule drop them; here they never get that far.

use std::borrow::Cow;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::go::{PrefixError, parse_port, parse_prefix};
use crate::ruleset::{Cidr, Id, Port};

/// All of a kind (`*`), or the ones listed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Selection<T> {
    /// `*`
    All,
    /// These, in the order given; an empty list is none.
    List(Vec<T>),
}

impl<T> Selection<T> {
    /// The listed ones; none for [`Selection::All`].
    #[must_use]
    pub fn listed(&self) -> &[T] {
        match self {
            Self::All => &[],
            Self::List(list) => list,
        }
    }
}

impl<T: Display> Display for Selection<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("*"),
            Self::List(list) => out.write_str(&spell(list)),
        }
    }
}

/// A comma list of these elements.
#[must_use]
pub fn spell<T: Display>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// The elements of a comma list.
pub fn elements(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|element| !element.is_empty())
}

/// Reads a list of ports. `*` is not special here: as an element it stays verbatim, and no packet's port is `*`.
#[must_use]
pub fn ports(list: &str) -> Vec<Port> {
    elements(list).map(port).collect()
}

/// Reads one port or `low:high`. A leading zero means nothing: `080` is port 80, as validation reads it.
#[must_use]
pub fn port(token: &str) -> Port {
    let range = || {
        let (low, high) = token.split_once(':')?;
        let (low, high) = (parse_port(low).ok()?, parse_port(high).ok()?);
        (low <= high).then_some(Port::Range(low, high))
    };
    match parse_port(token) {
        Ok(port) => Port::One(port),
        Err(_) => range().unwrap_or_else(|| Port::Verbatim(token.to_owned())),
    }
}

/// Reads the ports whose inbound traffic is captured: `*`, a list, or nothing at all for none.
#[must_use]
pub fn inbound_ports(list: &str) -> Option<Selection<Port>> {
    match list.trim() {
        "" => None,
        "*" => Some(Selection::All),
        list => Some(Selection::List(ports(list))),
    }
}

/// Reads a list of prefixes.
///
/// # Errors
/// The first that is none, `*` included.
pub fn cidrs(list: &str) -> Result<Vec<Cidr>, PrefixError> {
    list.split(',').filter(|element| !element.is_empty()).map(parse_prefix).collect()
}

/// Reads a list of prefixes that may be `*`.
///
/// # Errors
/// The first that is none.
pub fn ranges(list: &str) -> Result<Selection<Cidr>, PrefixError> {
    match list {
        "*" => Ok(Selection::All),
        list => cidrs(list).map(Selection::List),
    }
}

/// Reads a list of interface names.
#[must_use]
pub fn interfaces(list: &str) -> Vec<Cow<'static, str>> {
    elements(list).map(|name| Cow::Owned(name.to_owned())).collect()
}

/// Reads a list of users or groups.
#[must_use]
pub fn ids(list: &str) -> Vec<Id> {
    elements(list).map(id).collect()
}

/// Reads a list of groups that may be `*`.
#[must_use]
pub fn groups(list: &str) -> Selection<Id> {
    match list {
        "*" => Selection::All,
        list => Selection::List(ids(list)),
    }
}

/// Reads one user or group. A number is one only in its plain form: `007` would be octal to iptables, and 2^32-1 is
/// nobody's id. Anything else is a name.
#[must_use]
pub fn id(token: &str) -> Id {
    let plain = token == "0" || !token.starts_with(['0', '+']);
    match token.parse::<u32>() {
        Ok(number) if plain && number != u32::MAX => Id::Number(number),
        _ => Id::Name(token.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_empty_elements_mean_nothing() {
        assert_eq!(ports(" 80 ,, 443,"), [Port::One(80), Port::One(443)]);
        assert_eq!(interfaces(" eth0 ,\tnet1,"), ["eth0", "net1"]);
        assert_eq!(ports(""), []);
        assert_eq!(inbound_ports(" "), None);
        assert_eq!(inbound_ports(","), Some(Selection::List(vec![])));
    }

    #[test]
    fn what_is_no_port_stays_verbatim() {
        for token in ["*", "http", "0x50", "65536", "90:80", "1:2:3", "-1", ":80"] {
            assert_eq!(port(token), Port::Verbatim(token.to_owned()));
        }
        for (token, bounds) in [
            ("30000:", Some((30000, u16::MAX))),
            (":1023", Some((0, 1023))),
            (":", Some((0, u16::MAX))),
            ("8000:8010", Some((8000, 8010))),
            ("90:80", None),
            ("65536:", None),
            ("http", None),
        ] {
            assert_eq!((port(token).to_string(), port(token).bounds()), (token.to_owned(), bounds));
        }
        assert_eq!(port("8000:8010"), Port::Range(8000, 8010));
        assert_eq!(port("080"), Port::One(80));
    }

    #[test]
    fn ids_are_numbers_only_in_plain_form() {
        assert_eq!(id("0"), Id::Number(0));
        assert_eq!(id("4294967294"), Id::Number(u32::MAX - 1));
        for name in ["4294967295", "007", "+7", "-1", "1-9", "java", "4294967296"] {
            assert_eq!(id(name), Id::Name(name.to_owned()));
        }
    }

    #[test]
    fn ranges_are_strict() {
        assert_eq!(ranges("*"), Ok(Selection::All));
        assert_eq!(ranges(""), Ok(Selection::List(vec![])));
        assert_eq!(cidrs("10.0.0.0/8,").map(|list| list.len()), Ok(1));
        assert!(cidrs("*").is_err());
        assert!(cidrs("10.0.0.0/8, 11.0.0.0/8").is_err());
    }
}
