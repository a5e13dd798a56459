// SPDX-License-Identifier: Apache-2.0
//! The plugin's result, in the form of each version of the specification.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::conf::{Call, Conf};
use super::link::{Wired, gateway, host_length};

/// The versions that the plugin speaks.
pub const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// The answer to VERSION.
#[must_use]
pub fn versions() -> Value {
    json!({ "cniVersion": VERSIONS[VERSIONS.len() - 1], "supportedVersions": VERSIONS })
}

/// The result of ADD.
#[must_use]
pub fn render(conf: &Conf, call: &Call, wired: &Wired, addresses: &[IpAddr]) -> Value {
    match conf.cni_version.as_str() {
        "0.1.0" | "0.2.0" => by_family(&conf.cni_version, addresses),
        version => by_interface(version, call, wired, addresses),
    }
}

fn prefix(address: IpAddr) -> String {
    format!("{address}/{}", host_length(address))
}

fn default_route(of: IpAddr) -> Value {
    json!({ "dst": if of.is_ipv4() { "0.0.0.0/0" } else { "::/0" }, "gw": gateway(of) })
}

fn by_family(version: &str, addresses: &[IpAddr]) -> Value {
    let mut result = json!({ "cniVersion": version, "dns": {} });
    for (key, v4) in [("ip4", true), ("ip6", false)] {
        if let Some(address) = addresses.iter().find(|address| address.is_ipv4() == v4) {
            result[key] = json!({
                "ip": prefix(*address),
                "gateway": gateway(*address),
                "routes": [default_route(*address)],
            });
        }
    }
    result
}

fn by_interface(version: &str, call: &Call, wired: &Wired, addresses: &[IpAddr]) -> Value {
    let ip = |address: &IpAddr| {
        let mut ip = json!({ "address": prefix(*address), "gateway": gateway(*address), "interface": 1 });
        if version.starts_with('0') {
            ip["version"] = json!(if address.is_ipv4() { "4" } else { "6" });
        }
        ip
    };
    json!({
        "cniVersion": version,
        "interfaces": [
            { "name": call.host_ifname(), "mac": wired.host_mac },
            { "name": call.ifname, "mac": wired.pod_mac, "sandbox": call.netns },
        ],
        "ips": addresses.iter().map(ip).collect::<Vec<_>>(),
        "routes": addresses.iter().map(|address| default_route(*address)).collect::<Vec<_>>(),
        "dns": {},
    })
}

/// The addresses of a result of any version, in order.
#[must_use]
pub fn addresses(result: &Value) -> Vec<IpAddr> {
    let listed = result["ips"].as_array().into_iter().flatten().map(|ip| &ip["address"]);
    let by_family = ["ip4", "ip6"].map(|key| &result[key]["ip"]);
    listed.chain(by_family).filter_map(|text| text.as_str()?.split('/').next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basenet::conf::Command;

    #[test]
    fn addresses_survive_every_version_in_order() {
        let wanted: Vec<IpAddr> = vec!["fd00::2".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let call = Call {
            command: Command::Add,
            container_id: "c".to_owned(),
            netns: Some("/n".into()),
            ifname: "eth0".to_owned(),
        };
        let wired = Wired { host_mac: String::new(), pod_mac: String::new() };
        for version in VERSIONS {
            let text = format!(r#"{{"cniVersion":"{version}","stateDir":"/x"}}"#);
            let conf = Conf::parse(text.as_bytes()).unwrap();
            let result = render(&conf, &call, &wired, &wanted);
            assert_eq!(result["cniVersion"], version);
            let mut got = addresses(&result);
            if version < "0.3.0" {
                got.reverse();
            }
            assert_eq!(got, wanted, "{version}");
        }
    }
}
