// SPDX-License-Identifier: Apache-2.0
//! Resolvers of a `resolv.conf`, parsed as upstream parses it. Opening the file is left to the caller.

use std::net::{IpAddr, Ipv6Addr};

use crate::config::Dns;

/// The resolvers of a `resolv.conf`, by family and in order: the first word behind each `nameserver`. What is no address is
/// passed over. An IPv6 address loses its zone, because a rule names an address only.
#[must_use]
pub fn servers(resolv_conf: &str) -> Dns {
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for line in resolv_conf.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some("nameserver") {
            continue;
        }
        match words.next().and_then(address) {
            Some(IpAddr::V4(address)) => v4.push(address),
            Some(IpAddr::V6(address)) => v6.push(address),
            None => {}
        }
    }
    Dns::Servers { v4, v6 }
}

fn address(word: &str) -> Option<IpAddr> {
    match word.split_once('%') {
        None => word.parse().ok(),
        Some((address, zone)) => {
            let address: Option<Ipv6Addr> = address.parse().ok();
            address.filter(|_| !zone.is_empty()).map(IpAddr::V6)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        match servers(text) {
            Dns::Servers { v4, v6 } => {
                (v4.iter().map(ToString::to_string).collect(), v6.iter().map(ToString::to_string).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_word_behind_nameserver_counts() {
        let text = "# nameserver 1.1.1.1\nsearch a.b\r\n\tnameserver\t10.96.0.10 # cluster\r\nnameserver 8.8.8.8 9.9.9.9\n\
                    nameserver fd00::a\nnameserver 2001:4860:4860:0:0:0:0:8888\noptions ndots:5\nnameserver ::ffff:1.2.3.4";
        let (v4, v6) = read(text);
        assert_eq!(v4, ["10.96.0.10", "8.8.8.8"]);
        assert_eq!(v6, ["fd00::a", "2001:4860:4860::8888", "::ffff:1.2.3.4"]);
    }

    #[test]
    fn what_is_no_address_is_passed_over() {
        for line in [
            "nameserver",
            "nameserver dns",
            "nameserver 010.0.0.1",
            "nameserver 1.2.3.4%e0",
            "Nameserver 1.1.1.1",
        ] {
            assert_eq!(read(line), (vec![], vec![]), "{line}");
        }
        assert_eq!(read("nameserver fe80::1%eth0").1, ["fe80::1"]);
        assert_eq!(read("nameserver fe80::1%").1, Vec::<String>::new());
        assert!(!servers("").is_on());
    }
}
