// SPDX-License-Identifier: Apache-2.0
//! Input of the plugin: environment and network configuration. The addresses of a pod follow from both.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use cluster::network::{FAMILIES, NETWORKS};
use serde::Deserialize;
use serde_json::Value;

use super::{Error, result};

/// CNI command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CniCommand {
    Add,
    Del,
    Check,
    Gc,
    Status,
    Version,
}

/// Environment of a call.
#[derive(Debug, Clone)]
pub struct Call {
    /// `CNI_COMMAND`
    pub command: CniCommand,
    /// `CNI_CONTAINERID`
    pub container_id: String,
    /// `CNI_NETNS`; may be missing for DEL.
    pub netns: Option<PathBuf>,
    /// `CNI_IFNAME`
    pub ifname: String,
}

impl Call {
    /// Reads the environment through `get`; commands about one pod need to say which.
    pub fn from_environment(get: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let present = |name| get(name).filter(|value| !value.is_empty());
        let command = match present("CNI_COMMAND").as_deref() {
            Some("ADD") => CniCommand::Add,
            Some("DEL") => CniCommand::Del,
            Some("CHECK") => CniCommand::Check,
            Some("GC") => CniCommand::Gc,
            Some("STATUS") => CniCommand::Status,
            Some("VERSION") => CniCommand::Version,
            other => return Err(Error::Environment(format!("CNI_COMMAND {other:?} is not known"))),
        };
        let needed: &[&str] = match command {
            CniCommand::Add | CniCommand::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"],
            CniCommand::Del => &["CNI_CONTAINERID", "CNI_IFNAME"],
            CniCommand::Gc | CniCommand::Status | CniCommand::Version => &[],
        };
        let missing: Vec<&str> = needed.iter().copied().filter(|name| present(name).is_none()).collect();
        if !missing.is_empty() {
            return Err(Error::Environment(format!("missing from the environment: {}", missing.join(", "))));
        }
        Ok(Self {
            command,
            container_id: present("CNI_CONTAINERID").unwrap_or_default(),
            netns: present("CNI_NETNS").map(PathBuf::from),
            ifname: present("CNI_IFNAME").unwrap_or_default(),
        })
    }

    /// Key of this pod's interface in the allocations.
    #[must_use]
    pub fn attachment(&self) -> String {
        format!("{}/{}", self.container_id, self.ifname)
    }

    /// The node's end of the pair: fixed by the attachment, so that DEL finds it, and at most 15 bytes long.
    #[must_use]
    pub fn host_ifname(&self) -> String {
        // FNV-1a, cut to 44 bits: no two of a node's pods share it, and it does not change between builds.
        let hash = self.attachment().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("lab{:011x}", hash >> 20)
    }
}

/// IP family of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl Family {
    fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// Range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Range {
    /// First address, which is never allocated.
    pub network: IpAddr,
    /// Prefix length.
    pub length: u8,
}

impl TryFrom<String> for Range {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a range");
        let (network, length) = text.split_once('/').ok_or_else(wrong)?;
        let network = IpAddr::from_str(network).map_err(|_| wrong())?;
        let length: u8 = length.parse().map_err(|_| wrong())?;
        let bits = if network.is_ipv4() { 32 } else { 128 };
        if length > bits { Err(wrong()) } else { Ok(Self { network, length }) }
    }
}

/// Requested address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Next free one of a range.
    From(Range),
    Exactly(IpAddr),
}

impl Wanted {
    fn family(self) -> Family {
        match self {
            Self::From(range) => Family::of(range.network),
            Self::Exactly(address) => Family::of(address),
        }
    }
}

/// The network configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conf {
    /// Version of the specification; empty means 0.1.0.
    #[serde(default = "oldest")]
    pub cni_version: String,
    /// Ranges, at most one for each family.
    #[serde(default)]
    pub ranges: Vec<Range>,
    /// Explicit addresses instead of ranges.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// Families in order, the first first in the result; all that have an address if empty.
    #[serde(default)]
    pub families: Vec<Family>,
    /// Networks that a pod may have beside its first, by the name of its interface there.
    #[serde(default)]
    pub networks: BTreeMap<String, Vec<Range>>,
    /// Index of the network among those of a pod that has several from elsewhere.
    #[serde(default)]
    pub number: u8,
    /// Its destinations; the default route if empty.
    #[serde(default)]
    pub reach: Vec<Range>,
    /// Directory of the allocations.
    pub state_dir: PathBuf,
    /// Rules of legacy iptables that the pod gets, as restore text; none if empty.
    #[serde(default)]
    pub leaves: String,
    /// Sysctls of the pod's namespace, by their path below `/proc/sys/net`.
    #[serde(default)]
    pub sysctls: BTreeMap<String, String>,
    /// The pod's IPv6 addresses are tentative when the call ends.
    #[serde(default)]
    pub detects: bool,
    /// MTU of both ends; the kernel's default if absent.
    #[serde(default)]
    pub mtu: Option<u32>,
    /// Runtime's values for declared capabilities.
    #[serde(default)]
    pub runtime_config: RuntimeConfig,
    /// Result so far; for CHECK, our own.
    #[serde(default)]
    pub prev_result: Option<Value>,
    /// GC: attachments to keep.
    #[serde(default, rename = "cni.dev/valid-attachments")]
    valid_attachments: Option<Vec<Attachment>>,
}

/// Capabilities that the plugin declares.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct RuntimeConfig {
    /// Annotations of the pod, by containerd's name for them.
    #[serde(default, rename = "io.kubernetes.cri.pod-annotations")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Deserialize)]
struct Attachment {
    #[serde(rename = "containerID")]
    container_id: String,
    ifname: String,
}

fn oldest() -> String {
    "0.1.0".to_owned()
}

impl Conf {
    /// Reads standard input.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let conf: Self =
            serde_json::from_slice(text).map_err(|error| Error::Configuration(error.to_string()))?;
        if !result::VERSIONS.contains(&conf.cni_version.as_str()) {
            return Err(Error::Version(conf.cni_version));
        }
        Ok(conf)
    }

    /// Addresses that the pod requests, in order.
    #[must_use]
    pub fn wanted(&self) -> Vec<Wanted> {
        let exactly = self.addresses.iter().map(|address| Wanted::Exactly(*address));
        self.in_order(exactly.chain(self.ranges.iter().map(|range| Wanted::From(*range))))
    }

    /// Addresses that the pod requests of a further network, in order.
    #[must_use]
    pub fn wanted_from(&self, ranges: &[Range]) -> Vec<Wanted> {
        self.in_order(ranges.iter().map(|range| Wanted::From(*range)))
    }

    fn in_order(&self, all: impl Iterator<Item = Wanted> + Clone) -> Vec<Wanted> {
        let families = self.chosen_families();
        if families.is_empty() {
            return all.collect();
        }
        families
            .into_iter()
            .flat_map(|family| all.clone().filter(move |wanted| wanted.family() == family))
            .collect()
    }

    /// The further networks that the pod asks for, in the order of the configuration.
    pub fn further(&self) -> impl Iterator<Item = (&str, &[Range])> {
        let asked = self.runtime_config.annotations.get(NETWORKS);
        let asked: Vec<&str> = asked.iter().flat_map(|names| names.split(',')).map(str::trim).collect();
        let networks = self.networks.iter().filter(move |(name, _)| asked.contains(&name.as_str()));
        networks.map(|(name, ranges)| (name.as_str(), ranges.as_slice()))
    }

    fn chosen_families(&self) -> Vec<Family> {
        let Some(annotation) = self.runtime_config.annotations.get(FAMILIES) else {
            return self.families.clone();
        };
        let known = |name: &str| match name.trim() {
            "v4" => Some(Family::V4),
            "v6" => Some(Family::V6),
            _ => None,
        };
        annotation.split(',').filter_map(known).collect()
    }

    /// The attachments that GC must keep, as [`Call::attachment`] spells them.
    #[must_use]
    pub fn attachments(&self) -> Vec<String> {
        let listed = self.valid_attachments.iter().flatten();
        listed.map(|at| format!("{}/{}", at.container_id, at.ifname)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(extra: &str) -> Conf {
        let text = format!(
            r#"{{"ranges":["10.0.0.0/24","fd00::/64"],"cniVersion":"1.0.0","stateDir":"/x"{extra}}}"#
        );
        Conf::parse(text.as_bytes()).unwrap()
    }

    fn families(conf: &Conf) -> Vec<Family> {
        conf.wanted().into_iter().map(Wanted::family).collect()
    }

    #[test]
    fn families_select_and_order_the_addresses() {
        assert_eq!(families(&conf("")), [Family::V4, Family::V6]);
        assert_eq!(families(&conf(r#","families":["v6","v4"]"#)), [Family::V6, Family::V4]);
        assert_eq!(families(&conf(r#","families":["v6"]"#)), [Family::V6]);
    }

    #[test]
    fn a_pods_annotation_wins_over_the_configuration() {
        let annotated = r#","families":["v4"],"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"lab.millrace.dev/families":"v6"}}"#;
        assert_eq!(families(&conf(annotated)), [Family::V6]);
    }

    #[test]
    fn a_pod_gets_the_further_networks_that_it_asks_for() {
        let networks = r#","networks":{"net1":["10.1.0.0/24"],"net2":["10.2.0.0/24"]}"#;
        assert_eq!(conf(networks).further().count(), 0);
        let asking = format!(
            r#"{networks},"runtimeConfig":{{"io.kubernetes.cri.pod-annotations":{{"{NETWORKS}":"net2, net3"}}}}"#
        );
        let conf = conf(&asking);
        let names: Vec<_> = conf.further().map(|(name, _)| name).collect();
        assert_eq!(names, ["net2"]);
    }

    #[test]
    fn a_call_names_everything_that_it_lacks() {
        let add = |name: &str| (name == "CNI_COMMAND").then(|| "ADD".to_owned());
        let error = Call::from_environment(add).unwrap_err();
        assert_eq!(error.code(), 4);
        assert!(error.to_string().ends_with("CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME"));
    }

    #[test]
    fn host_ends_are_short_and_differ() {
        let call = |id: &str| Call {
            command: CniCommand::Add,
            container_id: id.to_owned(),
            netns: None,
            ifname: "eth0".to_owned(),
        };
        assert_eq!(call("a").host_ifname().len(), 14);
        assert_ne!(call("a").host_ifname(), call("b").host_ifname());
        assert_eq!(call("a").host_ifname(), call("a").host_ifname());
    }

    #[test]
    fn an_unknown_version_is_refused() {
        let error = Conf::parse(br#"{"cniVersion":"9.9.9","stateDir":"/x"}"#).unwrap_err();
        assert_eq!(error.code(), 1);
    }
}
