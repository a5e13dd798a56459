// SPDX-License-Identifier: Apache-2.0
//! What a mesh says of all its pods. The defaults are upstream's.

use std::collections::BTreeMap;
use std::fmt;

/// Who programs the rules of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Programming {
    /// A CNI plugin; a container of the pod only checks.
    #[default]
    Cni,
    /// A container of the pod, which needs the rights for it.
    Init,
}

/// How inbound traffic is caught.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// By NAT.
    #[default]
    Redirect,
    /// By TPROXY.
    Tproxy,
    /// Not at all: the proxy is there, the rules are not.
    None,
}

impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Redirect => "REDIRECT",
            Self::Tproxy => "TPROXY",
            Self::None => "NONE",
        })
    }
}

/// Where the proxy's container goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// Among the init containers, from where it keeps running.
    Native,
    /// Beside the app.
    #[default]
    Beside,
}

/// Which rules are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rules {
    /// iptables'.
    #[default]
    Iptables,
    /// nftables' own.
    Nftables,
}

/// Who calls the plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Provider {
    /// The runtime, in the chain of the node's network.
    #[default]
    Chained,
    /// Multus, for pods that ask for it.
    Multus,
}

/// What kind of cluster it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Platform {
    /// One like most.
    #[default]
    Plain,
    /// OpenShift, which assigns users to namespaces.
    OpenShift,
}

/// What a mesh says of all its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Who calls the plugin.
    pub provider: Provider,
    /// What kind of cluster it is.
    pub platform: Platform,
    /// Who programs the rules.
    pub programming: Programming,
    /// How inbound traffic is caught, where a pod says nothing.
    pub mode: Mode,
    /// Where the proxy's container goes.
    pub placement: Placement,
    /// Which rules are asked for.
    pub rules: Rules,
    /// Where the proxy takes outbound traffic.
    pub proxy_port: u16,
    /// Where the proxy takes inbound traffic.
    pub inbound_port: u16,
    /// The port of the proxy's status; never captured. 0 for none.
    pub status_port: u16,
    /// The proxy's user.
    pub uid: u32,
    /// The proxy's group.
    pub gid: u32,
    /// Captured outbound destinations.
    pub include_ranges: String,
    /// Outbound destinations that are not.
    pub exclude_ranges: String,
    /// Captured inbound ports.
    pub include_inbound_ports: String,
    /// Inbound ports that are not.
    pub exclude_inbound_ports: String,
    /// Captured outbound ports.
    pub include_outbound_ports: String,
    /// Outbound ports that are not.
    pub exclude_outbound_ports: String,
    /// The proxy's metadata: environment of everything that is added.
    pub metadata: BTreeMap<String, String>,
    /// The image of everything that is added.
    pub image: String,
    /// Levels of logging.
    pub log_level: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            platform: Platform::default(),
            programming: Programming::default(),
            mode: Mode::default(),
            placement: Placement::default(),
            rules: Rules::default(),
            proxy_port: 15001,
            inbound_port: 15006,
            status_port: 15020,
            uid: 1337,
            gid: 1337,
            include_ranges: "*".to_owned(),
            exclude_ranges: String::new(),
            include_inbound_ports: "*".to_owned(),
            exclude_inbound_ports: String::new(),
            include_outbound_ports: String::new(),
            exclude_outbound_ports: String::new(),
            metadata: BTreeMap::new(),
            image: "proxyv2".to_owned(),
            log_level: "default:info".to_owned(),
        }
    }
}
