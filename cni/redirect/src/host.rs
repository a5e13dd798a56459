// SPDX-License-Identifier: Apache-2.0
//! Inputs from the place where rules are applied: the addresses of the namespace, and the few settings that are
//! read from the environment of the process that applies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::go::PrefixError;
use crate::list::{self, Selection};
use crate::ruleset::{Cidr, Family, Id};

/// Choice of address families of a pod (`ISTIO_DUAL_STACK`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stack {
    /// The first address decides: a pod whose first address is IPv4 gets no IPv6 rules.
    #[default]
    FirstAddress,
    /// Any IPv6 address counts.
    Dual,
}

/// Address families of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressFamilies {
    /// The namespace's first own address.
    pub first: IpAddr,
    /// True if IPv6 rules are written.
    pub ipv6: bool,
}

/// The namespace has no address beside loopback and link-local ones: its network is not set up yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no valid local IP address found")]
pub struct NoLocalAddress;

/// Decides from a namespace's addresses, in the kernel's order, whether IPv6 rules are written.
///
/// Loopback and link-local addresses do not count, and neither does [`INBOUND_V6`], which is there only because rules were
/// applied before.
///
/// # Errors
/// Nothing is left.
pub fn decide_addresses(
    addresses: impl IntoIterator<Item = IpAddr>,
    stack: Stack,
) -> Result<AddressFamilies, NoLocalAddress> {
    let mut own =
        addresses.into_iter().map(|address| address.to_canonical()).filter(|address| is_ordinary(*address));
    let first = own.next().ok_or(NoLocalAddress)?;
    let ipv6 = first.is_ipv6() || (stack == Stack::Dual && own.any(|address| address.is_ipv6()));
    Ok(AddressFamilies { first, ipv6 })
}

/// True if an address counts for [`decide_addresses`]: other hosts can send packets there.
#[must_use]
pub fn is_ordinary(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.segments()[0] & 0xff0f == 0xff02,
    };
    !link_local && !address.is_loopback() && address != INBOUND_V6.address
}

/// The address that REDIRECT writes into a packet of the pod itself.
#[must_use]
pub fn loopback(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::LOCALHOST.into(),
        Family::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// The address from which the proxy opens inbound connections to the app, so that rules can tell them apart.
pub const INBOUND_V4: Cidr = Cidr { address: IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 6)), length: 32 };

/// [`INBOUND_V4`] for IPv6. `lo` does not have it by itself: whoever applies rules adds it.
pub const INBOUND_V6: Cidr =
    Cidr { address: IpAddr::V6(std::net::Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6)), length: 128 };

/// `127.0.0.1/32`
pub const LOOPBACK_V4: Cidr = Cidr { address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), length: 32 };

/// `::1/128`
pub const LOOPBACK_V6: Cidr = Cidr { address: IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), length: 128 };

/// Settings that come from the environment of the process that applies the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Groups whose outbound traffic is captured ([`Environment::GROUPS`]).
    pub groups_include: Selection<Id>,
    /// Groups whose outbound traffic is not ([`Environment::GROUPS_EXCLUDE`]); counts only beside `*`.
    pub groups_exclude: Vec<Id>,
    /// Loopback prefix in IPv4 rules ([`Environment::LOOPBACK`]).
    pub loopback: Cidr,
}

impl Default for Environment {
    fn default() -> Self {
        Self { groups_include: Selection::All, groups_exclude: Vec::new(), loopback: LOOPBACK_V4 }
    }
}

impl Environment {
    /// The variable of the captured groups; `*` if it is not set, none if it is empty.
    pub const GROUPS: &'static str = "ISTIO_OUTBOUND_OWNER_GROUPS";
    /// The variable of the groups that are not captured.
    pub const GROUPS_EXCLUDE: &'static str = "ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE";
    /// The variable of the IPv4 loopback prefix.
    pub const LOOPBACK: &'static str = "ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR";

    /// Reads the settings; `get` looks a variable up.
    ///
    /// # Errors
    /// The loopback prefix is none.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, EnvironmentError> {
        let mut read = Self::default();
        if let Some(groups) = get(Self::GROUPS) {
            read.groups_include = list::groups(&groups);
        }
        if let Some(groups) = get(Self::GROUPS_EXCLUDE) {
            read.groups_exclude = list::ids(&groups);
        }
        if let Some(loopback) = get(Self::LOOPBACK) {
            read.loopback = crate::go::parse_prefix(&loopback).map_err(EnvironmentError::Loopback)?;
        }
        Ok(read)
    }
}

/// A variable of the environment that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvironmentError {
    /// [`Environment::LOOPBACK`] is no prefix.
    #[error("failed to read {}", Environment::LOOPBACK)]
    Loopback(#[source] PrefixError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv6(addresses: &[&str], stack: Stack) -> Result<bool, NoLocalAddress> {
        let parsed: Vec<IpAddr> = addresses.iter().filter_map(|text| text.parse().ok()).collect();
        assert_eq!(parsed.len(), addresses.len());
        decide_addresses(parsed, stack).map(|families| families.ipv6)
    }

    #[test]
    fn the_first_address_decides() {
        assert_eq!(
            ipv6(&["127.0.0.1", "::1", "10.9.0.2", "fe80::1", "fd00:9::2"], Stack::FirstAddress),
            Ok(false)
        );
        assert_eq!(ipv6(&["127.0.0.1", "fe80::1", "fd00:9::2", "10.9.0.2"], Stack::FirstAddress), Ok(true));
    }

    #[test]
    fn dual_stack_looks_at_all() {
        assert_eq!(ipv6(&["10.9.0.2", "fe80::1", "fd00:9::2"], Stack::Dual), Ok(true));
        assert_eq!(ipv6(&["10.9.0.2", "fe80::1"], Stack::Dual), Ok(false));
    }

    /// Upstream goes through the addresses and keeps the answer of the last one that it looked at.
    fn last_looked_at(addresses: &[&str], stack: Stack) -> Result<bool, NoLocalAddress> {
        let mut answer = Err(NoLocalAddress);
        for address in addresses {
            if address.starts_with("127.") || address.starts_with("fe80:") {
                continue;
            }
            answer = Ok(address.contains(':'));
            if stack == Stack::FirstAddress || answer == Ok(true) {
                break;
            }
        }
        answer
    }

    #[test]
    fn any_order_of_addresses_gives_upstream_s_answer() {
        let kinds = ["127.0.0.1", "fe80::1", "10.9.0.2", "fd00:9::2"];
        for order in 0..4usize.pow(5) {
            let addresses: Vec<&str> = (0..5).map(|at| kinds[order / 4usize.pow(at) % 4]).collect();
            for stack in [Stack::FirstAddress, Stack::Dual] {
                assert_eq!(
                    ipv6(&addresses, stack),
                    last_looked_at(&addresses, stack),
                    "{addresses:?} {stack:?}"
                );
            }
        }
        assert_eq!(ipv6(&["10.9.0.2", "fd00:9::2", "10.9.0.3"], Stack::Dual), Ok(true));
    }

    #[test]
    fn loopback_link_local_and_our_own_helper_do_not_count() {
        let none = ["127.0.0.1", "127.3.2.1", "::1", "169.254.1.1", "224.0.0.5", "fe80::1", "ff02::1", "::6"];
        assert_eq!(ipv6(&none, Stack::FirstAddress), Err(NoLocalAddress));
        assert_eq!(ipv6(&none, Stack::Dual), Err(NoLocalAddress));
        assert_eq!(ipv6(&["::ffff:10.9.0.2"], Stack::FirstAddress), Ok(false));
    }

    #[test]
    fn the_environment_knows_unset_from_empty() {
        assert_eq!(Environment::read(|_| None), Ok(Environment::default()));
        let empty = Environment::read(|name| (name == Environment::GROUPS).then(String::new));
        assert_eq!(empty.map(|read| read.groups_include), Ok(Selection::List(vec![])));
        assert!(Environment::read(|_| Some("x".to_owned())).is_err());
    }
}
