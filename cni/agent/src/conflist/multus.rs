// SPDX-License-Identifier: Apache-2.0
//! Multus' configuration: the network that it attaches to each pod, and whether our entry is in it. Multus is a plugin that calls others: a
//! runtime that reads its file first calls nothing else. Pure.
//!
//! Order of Multus 4.2: `clusterNetwork`, else `delegates`; then each of `defaultNetworks`. A network is the path of a file, or a name that is
//! looked up in `confDir`. Keys of `daemon-config.json` replace those of the file.

use std::path::{Path, PathBuf};

use super::document::{Document, Members};
use super::scan::{ConfigFormat, DirectorySnapshot, Unusable};

/// Prefix of the types of its plugins: `multus`, `multus-shim`.
const TYPE: &str = "multus";
/// Default of `confDir`.
const CONF_DIR: &str = "/etc/cni/multus/net.d";
/// Where containers of its daemon have the node's directories.
const HOSTS: [&str; 2] = ["/host", "/hostroot"];

/// Reason for which Multus does not call our plugin, as the end of "Multus, which …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCalled {
    /// The network's file lacks our entry.
    #[error(
        "attaches the network of {network}, and that lacks istio-cni: set {}Multus' clusterNetwork to the path of {ours}", instead(.network)
    )]
    Lacks { network: String, ours: String },
    /// The network's file is missing or invalid.
    #[error(
        "attaches the network of {network}, and {why}: correct it, or set Multus' clusterNetwork to the path of {ours}"
    )]
    Unusable { network: String, why: Unusable, ours: String },
    /// The network is in no file that the agent sees.
    #[error(
        "attaches the network {network}, which is not among the files of the agent's directory: set Multus' clusterNetwork to the path of {ours}, or cniConfDir to the directory of that network"
    )]
    Unseen { network: String, ours: String },
    /// None of the inline networks has our entry.
    #[error(
        "attaches the networks that it has inline (delegates), and none has istio-cni: restart Multus, so that it copies {ours} again, or set its clusterNetwork to the path of {ours}"
    )]
    Inline { ours: String },
    /// Neither `clusterNetwork` nor `delegates`.
    #[error("names no network (clusterNetwork, delegates): set its clusterNetwork to the path of {ours}")]
    NoNetwork { ours: String },
    /// `readinessindicatorfile` is missing.
    #[error(
        "attaches nothing before {0} is there (readinessindicatorfile): the default network's agent has to write it"
    )]
    Waits(String),
    /// Networks without a configuration are looked up in another directory.
    #[error(
        "looks for networks in {looks}, not in {ours}: set its confDir to {ours}, or cniConfDir to the node's path of {looks}"
    )]
    LooksElsewhere { looks: String, ours: String },
}

/// The other remedy. A `.conf` never has our entry, whatever `CNI_CONF_NAME` is.
fn instead(network: &str) -> String {
    match ConfigFormat::of(network) {
        Some(ConfigFormat::List) => format!("CNI_CONF_NAME to {network}, or "),
        _ => "no CNI_CONF_NAME, so that istio-cni is chained to Multus' own file, or ".to_owned(),
    }
}

/// Keys of the configuration that decide which networks are attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Multus {
    cluster_network: String,
    default_networks: Vec<String>,
    /// Raw configurations.
    delegates: Vec<String>,
    readiness_file: String,
    conf_dir: String,
}

impl Multus {
    /// Reads a file's first plugin; `None` if that is not Multus.
    #[must_use]
    pub fn of(now: &DirectorySnapshot, document: &Document<'_>) -> Option<Self> {
        let first = document.others().into_iter().next().flatten();
        first.filter(|kind| kind.starts_with(TYPE))?;
        let own = match document {
            Document::Single(members) => members.clone(),
            Document::List(list) => {
                Members::parse(list.plugins.iter().find(|plugin| !plugin.is_ours())?.text).ok()?
            }
        };
        let daemon = now.multus_daemon.as_deref().and_then(|text| Members::parse(text).ok());
        let value = |key: &str| daemon.as_ref().and_then(|daemon| daemon.get(key)).or_else(|| own.get(key));
        let text = |key: &str| value(key).and_then(|raw| serde_json::from_str::<String>(raw).ok());
        let all = |key: &str| value(key).and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        Some(Self {
            cluster_network: text("clusterNetwork").unwrap_or_default(),
            default_networks: all("defaultNetworks"),
            delegates: inline(value("delegates").unwrap_or_default()),
            readiness_file: text("readinessindicatorfile").unwrap_or_default(),
            conf_dir: text("confDir").filter(|dir| !dir.is_empty()).unwrap_or_else(|| CONF_DIR.to_owned()),
        })
    }

    /// Checks that a network which Multus attaches to each pod has our entry; `ours` is the file that does.
    ///
    /// # Errors
    /// None has, or the directory does not show it.
    pub fn calls(&self, now: &DirectorySnapshot, ours: &str) -> Result<(), NotCalled> {
        self.attaches(now)?;
        let first = self.first(now, ours);
        let has_ours = |network: &String| self.network(now, network, ours).is_ok();
        if first.is_err() && self.default_networks.iter().any(has_ours) {
            return Ok(());
        }
        first
    }

    /// Checks that Multus looks for networks in a directory of the node.
    ///
    /// # Errors
    /// It looks in another one.
    pub fn looks_in(&self, directory: &Path) -> Result<(), NotCalled> {
        if is_same(Path::new(&self.conf_dir), directory) {
            return Ok(());
        }
        Err(NotCalled::LooksElsewhere { looks: self.conf_dir.clone(), ours: directory.display().to_string() })
    }

    /// Checks that the readiness indicator file is there, as far as the directory shows it.
    ///
    /// # Errors
    /// It is not.
    pub fn attaches(&self, now: &DirectorySnapshot) -> Result<(), NotCalled> {
        match name_of(now, &self.readiness_file) {
            Some(name) if !now.files.contains_key(name) => Err(NotCalled::Waits(self.readiness_file.clone())),
            _ => Ok(()),
        }
    }

    fn first(&self, now: &DirectorySnapshot, ours: &str) -> Result<(), NotCalled> {
        if !self.cluster_network.is_empty() {
            return self.network(now, &self.cluster_network, ours);
        }
        let has_ours = |text: &String| Document::parse(text).is_ok_and(|inline| !inline.ours().is_empty());
        let ours = ours.to_owned();
        match self.delegates.as_slice() {
            [] => Err(NotCalled::NoNetwork { ours }),
            all if all.iter().any(has_ours) => Ok(()),
            _ => Err(NotCalled::Inline { ours }),
        }
    }

    /// Checks that a network, named by a path or by its name, has our entry.
    fn network(&self, now: &DirectorySnapshot, network: &str, ours: &str) -> Result<(), NotCalled> {
        let unseen = || NotCalled::Unseen { network: network.to_owned(), ours: ours.to_owned() };
        let file = if network.contains('/') {
            name_of(now, network)
        } else {
            let looks_here = now.path.as_ref().is_none_or(|path| is_same(Path::new(&self.conf_dir), path));
            named(now, network).filter(|_| looks_here)
        };
        let file = file.ok_or_else(unseen)?;
        let (network, ours) = (file.to_owned(), ours.to_owned());
        match now.valid(file) {
            Err(why) => Err(NotCalled::Unusable { network, why, ours }),
            Ok(document) if document.ours().is_empty() => Err(NotCalled::Lacks { network, ours }),
            Ok(_) => Ok(()),
        }
    }
}

/// Name of the file at a path of Multus' configuration, if it is a configuration in this directory.
fn name_of<'p>(now: &DirectorySnapshot, path: &'p str) -> Option<&'p str> {
    let path = Path::new(path);
    let name = path.file_name()?.to_str().filter(|name| ConfigFormat::of(name).is_some())?;
    let is_here = |of: &PathBuf| path.parent().is_some_and(|parent| is_same(parent, of));
    now.path.as_ref().is_none_or(is_here).then_some(name)
}

/// Name of the first file with a network of this name.
fn named<'a>(now: &'a DirectorySnapshot, network: &str) -> Option<&'a str> {
    let is_its = |document: &Document<'_>| document.network().as_deref() == Some(network);
    now.usable().find(|(_, document)| is_its(document)).map(|(name, _)| name)
}

/// Elements of `delegates`, raw.
fn inline(raw: &str) -> Vec<String> {
    let all = serde_json::from_str::<Vec<&serde_json::value::RawValue>>(raw).unwrap_or_default();
    all.into_iter().map(|element| element.get().to_owned()).collect()
}

/// True if a directory of Multus' configuration is this directory of the node. A daemon sees the node's directories below one of its own
/// (`/host/etc/cni/net.d`), and on k3s the node's directory at the usual place.
fn is_same(said: &Path, of_node: &Path) -> bool {
    let relative = |path: &Path| path.strip_prefix("/").unwrap_or(path).to_owned();
    let below_host = HOSTS.into_iter().find_map(|host| said.strip_prefix(host).ok());
    let said_there = below_host.map_or_else(|| relative(said), PathBuf::from);
    let has_name = !said_there.as_os_str().is_empty();
    has_name && (said.ends_with(relative(of_node)) || of_node.ends_with(said_there))
}

#[cfg(test)]
#[path = "multus_tests.rs"]
mod tests;
