// SPDX-License-Identifier: Apache-2.0
//! The plugin's credentials.

use std::path::PathBuf;

use manifests::table;

use super::build::{ACCOUNT_DIR, Reader};
use super::kind;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeconfigSettings {
    /// `KUBERNETES_SERVICE_PROTOCOL`, `_HOST`, `_PORT`, as given.
    pub server: (String, String, String),
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
            server: (
                self.text(&table::SERVICE_PROTOCOL),
                self.text(&table::SERVICE_HOST),
                self.text(&table::SERVICE_PORT),
            ),
            ca_file: if none { PathBuf::from(ACCOUNT_DIR).join("ca.crt") } else { ca_file },
            skip_verify: self.boolean(&table::SKIP_VERIFY),
            mode: self.read(&table::KUBECONFIG_MODE, kind::mode, 0o600),
        }
    }
}
