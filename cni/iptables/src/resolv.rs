// SPDX-License-Identifier: Apache-2.0
//! The resolvers in `resolv.conf`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of all `nameserver` lines, by family, in order. What is no address, or one with a zone, which no rule can
/// hold, is left out.
#[must_use]
pub fn nameservers(text: &str) -> (Vec<Ipv4Addr>, Vec<Ipv6Addr>) {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        match words.next().map(str::parse) {
            Some(Ok(IpAddr::V4(address))) => v4.push(address),
            Some(Ok(IpAddr::V6(address))) => v6.push(address),
            Some(Err(_)) | None => {}
        }
    }
    (v4, v6)
}
