// SPDX-License-Identifier: Apache-2.0
//! An address with the length of its prefix, as results write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address with the length of its prefix: `10.1.2.3/24`. The bits beyond the prefix are kept. An IPv4-mapped address (RFC 4291 2.5.5.2) is
/// the IPv4 address, as Go has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub addr: IpAddr,
    /// At most 32 or 128.
    pub prefix: u8,
}

/// Malformed [`Cidr`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address with a prefix length")]
pub struct CidrError(pub String);

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (addr, prefix) = text.split_once('/')?;
            let addr: IpAddr = addr.parse().ok()?;
            let longest = if addr.is_ipv4() { 32 } else { 128 };
            // The number parser would take a sign.
            let digits = prefix.bytes().all(|b| b.is_ascii_digit());
            let prefix: u8 = prefix.parse().ok().filter(|p| digits && *p <= longest)?;
            let canonical = addr.to_canonical();
            let is_mapped = canonical != addr;
            Some(Self { addr: canonical, prefix: if is_mapped { prefix.saturating_sub(96) } else { prefix } })
        };
        parse().ok_or_else(|| CidrError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_bits_are_kept() {
        for text in ["10.1.2.3/24", "0.0.0.0/0", "fd00::3/64", "::/0", "1.2.3.4/32"] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), text);
        }
        assert_eq!("FD00:0::3/064".parse::<Cidr>().unwrap().to_string(), "fd00::3/64");
    }

    #[test]
    fn a_mapped_address_is_of_its_own_family() {
        for (text, want) in [("::ffff:10.0.0.1/120", "10.0.0.1/24"), ("::ffff:10.0.0.1/64", "10.0.0.1/0")] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), want);
        }
    }

    #[test]
    fn what_is_no_cidr_is_refused() {
        for text in [
            "",
            "/",
            "10.1.2.3",
            "10.1.2.3/",
            "10.1.2.3/33",
            "10.1.2.3/+24",
            "10.1.2.3/-1",
            "::1/129",
            "fe80::1%eth0/64",
            "10.1.2/24",
            "010.1.2.3/24",
            " 10.1.2.3/24",
        ] {
            assert_eq!(text.parse::<Cidr>(), Err(CidrError(text.to_owned())));
        }
    }
}
