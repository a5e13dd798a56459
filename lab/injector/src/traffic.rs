// SPDX-License-Identifier: Apache-2.0
//! Traffic settings of a pod: its annotations, else the mesh's. The result is written back as annotations, which is how a CNI plugin learns
//! of it, and becomes the arguments of the init container.

use serde_json::{Map, Value};

use crate::config::{Config, Mode};

pub(crate) const MODE: &str = "sidecar.istio.io/interceptionMode";
pub(crate) const STATUS_PORT: &str = "status.sidecar.istio.io/port";
pub(crate) const INCLUDE_RANGES: &str = "traffic.sidecar.istio.io/includeOutboundIPRanges";
pub(crate) const EXCLUDE_RANGES: &str = "traffic.sidecar.istio.io/excludeOutboundIPRanges";
pub(crate) const INCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/includeInboundPorts";
pub(crate) const EXCLUDE_INBOUND: &str = "traffic.sidecar.istio.io/excludeInboundPorts";
const INCLUDE_OUTBOUND: &str = "traffic.sidecar.istio.io/includeOutboundPorts";
pub(crate) const EXCLUDE_OUTBOUND: &str = "traffic.sidecar.istio.io/excludeOutboundPorts";
pub(crate) const REROUTE: &str = "istio.io/reroute-virtual-interfaces";
pub(crate) const KUBEVIRT: &str = "traffic.sidecar.istio.io/kubevirtInterfaces";
pub(crate) const EXCLUDE_INTERFACES: &str = "traffic.sidecar.istio.io/excludeInterfaces";

/// Ports of the proxy that are never captured, as an init container is told them.
const NEVER: &str = "15090,15021";

/// The proxy's usual user, by which a proxy that runs as root under TPROXY is named all the same.
const USUAL_UID: u32 = 1337;

/// Traffic settings of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Interception mode.
    pub mode: Mode,
    include_ranges: String,
    exclude_ranges: String,
    include_inbound: String,
    exclude_inbound: String,
    include_outbound: Optional,
    exclude_outbound: Optional,
    reroute: String,
    kubevirt: String,
    exclude_interfaces: String,
}

/// A setting that is written if somebody said something, though it be nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Optional {
    value: String,
    is_annotated: bool,
}

impl Optional {
    fn is_said(&self) -> bool {
        self.is_annotated || !self.value.is_empty()
    }
}

impl Traffic {
    /// Reads a pod's annotations, which were checked.
    pub(crate) fn of(annotations: &Map<String, Value>, config: &Config) -> Self {
        let own = |name: &str| annotations.get(name).and_then(Value::as_str);
        let or = |name: &str, mesh: &str| own(name).unwrap_or(mesh).to_owned();
        let optional = |name: &str, mesh: &str| Optional {
            value: or(name, mesh),
            is_annotated: annotations.contains_key(name),
        };
        let mode = own(MODE).and_then(Mode::read).unwrap_or(config.mode);
        let status = or(STATUS_PORT, &config.status_port.to_string());
        Self {
            mode,
            include_ranges: or(INCLUDE_RANGES, &config.include_ranges),
            exclude_ranges: or(EXCLUDE_RANGES, &config.exclude_ranges),
            include_inbound: or(INCLUDE_INBOUND, &config.include_inbound_ports),
            exclude_inbound: with_port(&or(EXCLUDE_INBOUND, &config.exclude_inbound_ports), &status),
            include_outbound: optional(INCLUDE_OUTBOUND, &config.include_outbound_ports),
            exclude_outbound: optional(EXCLUDE_OUTBOUND, &config.exclude_outbound_ports),
            reroute: or(REROUTE, ""),
            kubevirt: or(KUBEVIRT, ""),
            exclude_interfaces: or(EXCLUDE_INTERFACES, ""),
        }
    }

    /// Annotations for the plugin.
    pub(crate) fn annotations(&self) -> Vec<(&'static str, String)> {
        let always = [
            (MODE, self.mode.to_string()),
            (INCLUDE_INBOUND, self.include_inbound.clone()),
            (EXCLUDE_INBOUND, self.exclude_inbound.clone()),
        ];
        let unless_empty = [
            (INCLUDE_RANGES, &self.include_ranges),
            (EXCLUDE_RANGES, &self.exclude_ranges),
            (KUBEVIRT, &self.kubevirt),
            (REROUTE, &self.reroute),
            (EXCLUDE_INTERFACES, &self.exclude_interfaces),
        ];
        let unless_empty = unless_empty.into_iter().filter(|(_, value)| !value.is_empty());
        let if_said =
            [(INCLUDE_OUTBOUND, &self.include_outbound), (EXCLUDE_OUTBOUND, &self.exclude_outbound)];
        let if_said = if_said.into_iter().filter(|(_, value)| value.is_said());
        always
            .into_iter()
            .chain(unless_empty.map(|(name, value)| (name, value.clone())))
            .chain(if_said.map(|(name, said)| (name, said.value.clone())))
            .collect()
    }

    /// The arguments that say the same to `istio-iptables`, in upstream's order.
    pub(crate) fn arguments(&self, config: &Config) -> Vec<String> {
        let uid = if self.mode == Mode::Tproxy { USUAL_UID } else { config.uid };
        let mut never = NEVER.to_owned();
        if !self.exclude_inbound.is_empty() {
            never = format!("{never},{}", self.exclude_inbound);
        }
        let always = [
            ("-p", config.proxy_port.to_string()),
            ("-z", config.inbound_port.to_string()),
            ("-u", uid.to_string()),
            ("-m", self.mode.to_string()),
            ("-i", self.include_ranges.clone()),
            ("-x", self.exclude_ranges.clone()),
            ("-b", self.include_inbound.clone()),
            ("-d", never),
        ];
        let virtuals = if self.reroute.is_empty() { &self.kubevirt } else { &self.reroute };
        let ports = [("-q", &self.include_outbound), ("-o", &self.exclude_outbound)];
        let ports = ports.into_iter().filter(|(_, said)| said.is_said());
        let interfaces = [("-k", virtuals), ("-c", &self.exclude_interfaces)];
        let interfaces = interfaces.into_iter().filter(|(_, names)| !names.is_empty());
        let words = always
            .into_iter()
            .chain(ports.map(|(flag, said)| (flag, said.value.clone())))
            .chain(interfaces.map(|(flag, names)| (flag, names.clone())));
        words.flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }
}

/// Adds a port to a list, unless it is in it or empty.
fn with_port(list: &str, port: &str) -> String {
    if port.is_empty() || port == "0" || list.split(',').any(|one| one.trim() == port) {
        return list.to_owned();
    }
    if list.is_empty() { port.to_owned() } else { format!("{list},{port}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn traffic(annotations: &Value) -> Traffic {
        Traffic::of(annotations.as_object().unwrap(), &Config::default())
    }

    #[test]
    fn the_status_port_is_excluded_once() {
        assert_eq!(with_port("", "15020"), "15020");
        assert_eq!(with_port("80, 15020", "15020"), "80, 15020");
        assert_eq!(with_port("80", "15020"), "80,15020");
        assert_eq!(with_port("80", "0"), "80");
    }

    #[test]
    fn a_pod_that_says_nothing_gets_the_meshs_words() {
        let words = traffic(&json!({})).arguments(&Config::default()).join(" ");
        assert_eq!(words, "-p 15001 -z 15006 -u 1337 -m REDIRECT -i * -x  -b * -d 15090,15021,15020");
    }

    #[test]
    fn a_pod_wins_over_its_mesh() {
        let said = traffic(&json!({
            INCLUDE_RANGES: "10.0.0.0/8", EXCLUDE_OUTBOUND: "", KUBEVIRT: "k0", REROUTE: "k1", STATUS_PORT: "0",
        }));
        let words = said.arguments(&Config::default()).join(" ");
        assert!(words.ends_with("-i 10.0.0.0/8 -x  -b * -d 15090,15021 -o  -k k1"), "{words}");
        let names: Vec<_> = said.annotations().into_iter().map(|(name, _)| name).collect();
        assert!(names.contains(&EXCLUDE_OUTBOUND) && !names.contains(&INCLUDE_OUTBOUND));
    }

    #[test]
    fn root_under_tproxy_is_named_by_the_usual_user() {
        let config = Config { uid: 5, ..Config::default() };
        let tproxy = traffic(&json!({ MODE: "TPROXY" })).arguments(&config);
        assert_eq!(tproxy[4..8], ["-u", "1337", "-m", "TPROXY"]);
    }
}
