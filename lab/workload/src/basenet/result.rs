// SPDX-License-Identifier: Apache-2.0
//! The plugin's result, in the form of each version of the specification.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::conf::{Call, Conf};
use super::link::{Wired, gateway, host_length};

/// Supported versions.
pub const VERSIONS: [&str; 7] = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"];

/// Reply to VERSION.
#[must_use]
pub fn versions() -> Value {
    json!({ "cniVersion": VERSIONS[VERSIONS.len() - 1], "supportedVersions": VERSIONS })
}

/// An interface of a pod.
#[derive(Debug)]
pub struct Attached {
    /// Its call.
    pub call: Call,
    /// Index of its network.
    pub network: u8,
    pub addresses: Vec<IpAddr>,
    pub wired: Wired,
}

/// Result of ADD. The oldest versions have one interface only.
#[must_use]
pub fn render(conf: &Conf, all: &[Attached]) -> Value {
    match (conf.cni_version.as_str(), all.first()) {
        ("0.1.0" | "0.2.0", Some(first)) => by_family(&conf.cni_version, &first.addresses),
        (version, _) => by_interface(version, all),
    }
}

fn prefix(address: IpAddr) -> String {
    format!("{address}/{}", host_length(address))
}

fn default_route(of: IpAddr) -> Value {
    json!({ "dst": if of.is_ipv4() { "0.0.0.0/0" } else { "::/0" }, "gw": gateway(of, 0) })
}

fn by_family(version: &str, addresses: &[IpAddr]) -> Value {
    let mut result = json!({ "cniVersion": version, "dns": {} });
    for (key, v4) in [("ip4", true), ("ip6", false)] {
        if let Some(address) = addresses.iter().find(|address| address.is_ipv4() == v4) {
            result[key] = json!({
                "ip": prefix(*address),
                "gateway": gateway(*address, 0),
                "routes": [default_route(*address)],
            });
        }
    }
    result
}

fn by_interface(version: &str, all: &[Attached]) -> Value {
    let (mut interfaces, mut ips) = (Vec::new(), Vec::new());
    for Attached { call, network, addresses, wired } in all {
        interfaces.push(json!({ "name": call.host_ifname(), "mac": wired.host_mac }));
        for address in addresses {
            let gateway = gateway(*address, *network);
            let mut ip =
                json!({ "address": prefix(*address), "gateway": gateway, "interface": interfaces.len() });
            if version.starts_with('0') {
                ip["version"] = json!(if address.is_ipv4() { "4" } else { "6" });
            }
            ips.push(ip);
        }
        interfaces.push(json!({ "name": call.ifname, "mac": wired.pod_mac, "sandbox": call.netns }));
    }
    let first = all.first().map_or(&[][..], |first| &first.addresses);
    json!({
        "cniVersion": version,
        "interfaces": interfaces,
        "ips": ips,
        "routes": first.iter().map(|address| default_route(*address)).collect::<Vec<_>>(),
        "dns": {},
    })
}

/// Index of the pod's end of its first pair.
const FIRST: u64 = 1;

/// The addresses of the first interface in a result of any version, in order.
#[must_use]
pub fn addresses(result: &Value) -> Vec<IpAddr> {
    let listed = result["ips"].as_array().into_iter().flatten();
    let listed = listed.filter(|ip| ip["interface"] == FIRST).map(|ip| &ip["address"]);
    let by_family = ["ip4", "ip6"].map(|key| &result[key]["ip"]);
    listed.chain(by_family).filter_map(|text| text.as_str()?.split('/').next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basenet::conf::CniCommand;

    #[test]
    fn addresses_survive_every_version_in_order() {
        let wanted: Vec<IpAddr> = vec!["fd00::2".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let call = Call {
            command: CniCommand::Add,
            container_id: "c".to_owned(),
            netns: Some("/n".into()),
            ifname: "eth0".to_owned(),
        };
        for version in VERSIONS {
            let text = format!(r#"{{"cniVersion":"{version}","stateDir":"/x"}}"#);
            let conf = Conf::parse(text.as_bytes()).unwrap();
            let wired = Wired { host_mac: String::new(), pod_mac: String::new() };
            let first = Attached { call: call.clone(), network: 0, addresses: wanted.clone(), wired };
            let wired = Wired { host_mac: String::new(), pod_mac: String::new() };
            let other = "10.1.0.2".parse().unwrap();
            let second = Attached { call: call.clone(), network: 1, addresses: vec![other], wired };
            let result = render(&conf, &[first, second]);
            assert_eq!(result["cniVersion"], version);
            let mut got = addresses(&result);
            if version < "0.3.0" {
                got.reverse();
            }
            assert_eq!(got, wanted, "{version}");
        }
    }
}
