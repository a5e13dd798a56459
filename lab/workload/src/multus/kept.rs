// SPDX-License-Identifier: Apache-2.0
//! What Multus keeps below `/var/lib/cni/multus`, in the very form that the real one (4.2) has, because others read it:
//!
//! * `CONTAINER`: its networks, written before the first is attached; gone after a DEL.
//! * `results/NETWORK-CONTAINER-IF`: what CNI's library keeps of each network.

use std::fs;
use std::io;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Call;
use super::network::Network;

/// What is kept of one sandbox.
#[derive(Debug, Clone)]
pub struct Kept {
    directory: PathBuf,
    container: String,
}

impl Kept {
    /// That of a call's sandbox.
    #[must_use]
    pub fn of(call: &Call, directory: PathBuf) -> Self {
        Self { directory, container: call.get("CNI_CONTAINERID").to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.directory.join(&self.container)
    }

    /// Keeps the networks.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, networks: &[Network]) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        let kept: Vec<_> = networks.iter().map(Network::kept).collect();
        fs::write(self.file(), json!(kept).to_string())
    }

    /// The networks, if any were kept.
    #[must_use]
    pub fn networks(&self) -> Option<Vec<Network>> {
        let kept: Vec<Value> = serde_json::from_slice(&fs::read(self.file()).ok()?).ok()?;
        Some(kept.iter().filter_map(Network::of_kept).collect())
    }

    /// Forgets the networks.
    pub fn forget(&self) {
        // There may be none.
        let _ = fs::remove_file(self.file());
    }

    fn result_file(&self, network: &Network, interface: &str) -> PathBuf {
        self.directory.join("results").join(format!("{}-{}-{interface}", network.name, self.container))
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_result(
        &self,
        call: &Call,
        network: &Network,
        interface: &str,
        result: &Value,
    ) -> io::Result<()> {
        fs::create_dir_all(self.directory.join("results"))?;
        let arguments =
            call.get("CNI_ARGS").split(';').filter_map(|pair| pair.split_once('=')).collect::<Vec<_>>();
        let entry = json!({
            "kind": "cniCacheV1", "containerId": self.container, "config": STANDARD.encode(&network.text),
            "ifName": interface, "networkName": network.name, "netns": call.get("CNI_NETNS"),
            "cniArgs": arguments, "capabilityArgs": {}, "result": result,
        });
        fs::write(self.result_file(network, interface), entry.to_string())
    }

    /// A result, if it was kept.
    #[must_use]
    pub fn result(&self, network: &Network, interface: &str) -> Option<Value> {
        let entry: Value =
            serde_json::from_slice(&fs::read(self.result_file(network, interface)).ok()?).ok()?;
        Some(entry["result"].clone())
    }

    /// Forgets a result.
    pub fn forget_result(&self, network: &Network, interface: &str) {
        // There may be none.
        let _ = fs::remove_file(self.result_file(network, interface));
    }
}
