// SPDX-License-Identifier: Apache-2.0
//! Addresses in the result of an ADD.

use std::net::IpAddr;

use serde_json::Value;

/// First interface of a pod.
pub const IFNAME: &str = "eth0";

/// The addresses of a result of any version, in order, with the interfaces that have them. Where a result does not say, it
/// is the first one.
#[must_use]
pub fn addresses(result: &Value) -> Vec<(String, IpAddr)> {
    let interface = |ip: &Value| {
        let index = usize::try_from(ip["interface"].as_u64()?).ok()?;
        result["interfaces"][index]["name"].as_str()
    };
    let listed = result["ips"].as_array().into_iter().flatten().map(|ip| (interface(ip), &ip["address"]));
    let oldest = ["ip4", "ip6"].map(|key| (None, &result[key]["ip"]));
    let parsed = |(name, text): (Option<&str>, &Value)| {
        let address = text.as_str()?.split('/').next()?.parse().ok()?;
        Some((name.unwrap_or(IFNAME).to_owned(), address))
    };
    listed.chain(oldest).filter_map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_in_the_order_of_the_result_and_with_their_interfaces() {
        let result = serde_json::json!({
            "interfaces": [{ "name": "lab0" }, { "name": "eth0" }, { "name": "lab1" }, { "name": "net1" }],
            "ips": [
                { "address": "fd00::2/64", "interface": 1 },
                { "address": "10.0.0.2/24" },
                { "address": "10.1.0.2/24", "interface": 3 },
            ],
        });
        let of = |name: &str, address: &str| (name.to_owned(), address.parse::<IpAddr>().unwrap());
        assert_eq!(
            addresses(&result),
            [of("eth0", "fd00::2"), of("eth0", "10.0.0.2"), of("net1", "10.1.0.2")]
        );
        let oldest = serde_json::json!({ "ip4": { "ip": "10.0.0.2/24" } });
        assert_eq!(addresses(&oldest), [of("eth0", "10.0.0.2")]);
    }
}
