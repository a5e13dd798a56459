// SPDX-License-Identifier: Apache-2.0
//! Mesh configuration. The defaults are upstream's.

use std::collections::BTreeMap;
use std::fmt;

/// Writer of a pod's rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Programming {
    /// A CNI plugin; a container of the pod only validates.
    #[default]
    Cni,
    /// An init container of the pod, which needs the capabilities for it.
    Init,
}

/// Interception mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// NAT.
    #[default]
    Redirect,
    Tproxy,
    /// None: the proxy is there, the rules are not.
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

/// Placement of the proxy's container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// Native sidecar.
    Native,
    /// Ordinary container.
    #[default]
    Beside,
}

/// Rules' dialect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rules {
    #[default]
    Iptables,
    Nftables,
}

/// Caller of the plugin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Provider {
    /// The runtime, in the chain of the node's network.
    #[default]
    Chained,
    /// Multus, for pods that ask for it.
    Multus,
}

/// Platform of the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Platform {
    #[default]
    Plain,
    /// OpenShift, which assigns UIDs to namespaces.
    OpenShift,
}

/// Mesh configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub provider: Provider,
    pub platform: Platform,
    pub programming: Programming,
    /// Default interception mode.
    pub mode: Mode,
    pub placement: Placement,
    pub rules: Rules,
    /// Outbound port of the proxy.
    pub proxy_port: u16,
    /// Inbound port of the proxy.
    pub inbound_port: u16,
    /// Status port of the proxy; never captured. 0 for none.
    pub status_port: u16,
    pub uid: u32,
    pub gid: u32,
    pub include_ranges: String,
    pub exclude_ranges: String,
    pub include_inbound_ports: String,
    pub exclude_inbound_ports: String,
    pub include_outbound_ports: String,
    pub exclude_outbound_ports: String,
    /// Proxy's metadata: environment of all added containers.
    pub metadata: BTreeMap<String, String>,
    /// Image of all added containers.
    pub image: String,
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
