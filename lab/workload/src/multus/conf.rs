// SPDX-License-Identifier: Apache-2.0
//! Configuration of Multus, with its defaults.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// What it reads of its configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// Without it nothing is asked of the API server.
    pub kubeconfig: PathBuf,
    /// Default network: the path of a file, or a name.
    pub cluster_network: String,
    /// Default network, if there is no [`Conf::cluster_network`]: its configuration.
    pub delegates: Vec<Value>,
    /// Further networks of pods outside of the system's namespaces.
    pub default_networks: Vec<String>,
    /// Directory of definitions' configurations that are files.
    pub conf_dir: PathBuf,
    pub bin_dir: PathBuf,
    /// Directory of what it keeps.
    pub cni_dir: PathBuf,
    pub namespace_isolation: bool,
    /// Namespaces that all pods may refer to, separated by commas.
    pub global_namespaces: String,
    /// File of the default network's own agent, without which nothing is attached.
    #[serde(rename = "readinessindicatorfile")]
    pub readiness_indicator_file: PathBuf,
    /// Namespace of the definitions of [`Conf::cluster_network`] and [`Conf::default_networks`].
    pub multus_namespace: String,
    pub system_namespaces: Vec<String>,
    /// Directory of the daemon's socket.
    pub daemon_socket_dir: PathBuf,
}

impl Default for Conf {
    fn default() -> Self {
        Self {
            kubeconfig: PathBuf::new(),
            cluster_network: String::new(),
            delegates: Vec::new(),
            default_networks: Vec::new(),
            conf_dir: "/etc/cni/multus/net.d".into(),
            bin_dir: "/opt/cni/bin".into(),
            cni_dir: "/var/lib/cni/multus".into(),
            namespace_isolation: false,
            global_namespaces: "default".to_owned(),
            readiness_indicator_file: PathBuf::new(),
            multus_namespace: "kube-system".to_owned(),
            system_namespaces: vec!["kube-system".to_owned()],
            daemon_socket_dir: "/run/multus".into(),
        }
    }
}

impl Conf {
    /// Reads it.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("Multus: error loading netconf: {error}"))
    }

    /// True if pods of other namespaces may refer to networks of this one.
    #[must_use]
    pub fn is_global(&self, namespace: &str) -> bool {
        self.global_namespaces.split(',').any(|global| global.trim() == namespace)
    }
}
