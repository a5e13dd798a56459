// SPDX-License-Identifier: Apache-2.0
//! Mesh configuration. The defaults are upstream's.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::InjectError;

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

impl Mode {
    pub(crate) fn read(name: &str) -> Option<Self> {
        [Self::Redirect, Self::Tproxy, Self::None].into_iter().find(|mode| mode.to_string() == name)
    }
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

/// Annotations by which a pod changes what its mesh says.
const OF_PROXY: &str = "proxy.istio.io/config";
const NATIVE: &str = "sidecar.istio.io/nativeSidecar";
const IMAGE: &str = "sidecar.istio.io/proxyImage";
const LOG_LEVEL: &str = "sidecar.istio.io/agentLogLevel";

/// Fields of `ProxyConfig` that rules depend on.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfProxy {
    interception_mode: Option<String>,
    #[serde(default)]
    proxy_metadata: BTreeMap<String, String>,
}

impl Config {
    /// With what a pod's annotations say.
    ///
    /// # Errors
    /// One cannot be read.
    pub(crate) fn of_pod(&self, annotations: &Map<String, Value>) -> Result<Self, InjectError> {
        let own = |name: &str| annotations.get(name).and_then(Value::as_str);
        let mut config = self.clone();
        if let Some(text) = own(OF_PROXY) {
            let unread = || InjectError::Annotation { name: OF_PROXY.to_owned(), value: text.to_owned() };
            let said: OfProxy = serde_saphyr::from_str(text).map_err(|_| unread())?;
            if let Some(mode) = said.interception_mode {
                config.mode = Mode::read(&mode).ok_or_else(unread)?;
            }
            config.metadata.extend(said.proxy_metadata);
        }
        if let Some(native) = own(NATIVE) {
            config.placement = if native == "false" { Placement::Beside } else { Placement::Native };
        }
        if let Some(image) = own(IMAGE) {
            image.clone_into(&mut config.image);
        }
        if let Some(level) = own(LOG_LEVEL) {
            level.clone_into(&mut config.log_level);
        }
        Ok(config)
    }
}
