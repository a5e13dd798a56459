// SPDX-License-Identifier: Apache-2.0
//! The plugin's credentials.

use std::path::PathBuf;

use manifests::table;

use super::build::{ACCOUNT_DIR, Reader};
use super::kind;

/// Address of the API server, as given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAddress {
    /// `KUBERNETES_SERVICE_PROTOCOL`; empty for `https`.
    pub protocol: String,
    /// `KUBERNETES_SERVICE_HOST`
    pub host: String,
    /// `KUBERNETES_SERVICE_PORT`
    pub port: String,
}

impl ApiAddress {
    /// `PROTOCOL://HOST:PORT`, of whatever is given.
    ///
    /// # Errors
    /// The name of a variable that is not set.
    pub fn url(&self) -> Result<String, &'static str> {
        let Self { protocol, host, port } = self;
        for (name, value) in [("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port)] {
            if value.is_empty() {
                return Err(name);
            }
        }
        let protocol = if protocol.is_empty() { "https" } else { protocol };
        let bare_v6 = host.contains(':') && !host.starts_with('[');
        Ok(if bare_v6 {
            format!("{protocol}://[{host}]:{port}")
        } else {
            format!("{protocol}://{host}:{port}")
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeconfigSettings {
    pub server: ApiAddress,
    /// `KUBE_CA_FILE`, else the service account's.
    pub ca_file: PathBuf,
    /// `SKIP_TLS_VERIFY`
    pub skip_verify: bool,
    /// `KUBECONFIG_MODE`
    pub mode: u32,
}

impl Reader<'_> {
    pub(super) fn kubeconfig(&mut self) -> KubeconfigSettings {
        let ca_file = self.path(&table::CA_FILE);
        let none = ca_file.as_os_str().is_empty();
        KubeconfigSettings {
            server: ApiAddress {
                protocol: self.text(&table::SERVICE_PROTOCOL),
                host: self.text(&table::SERVICE_HOST),
                port: self.text(&table::SERVICE_PORT),
            },
            ca_file: if none { PathBuf::from(ACCOUNT_DIR).join("ca.crt") } else { ca_file },
            skip_verify: self.boolean(&table::SKIP_VERIFY),
            mode: self.read(&table::KUBECONFIG_MODE, kind::mode, 0o600),
        }
    }
}
