// SPDX-License-Identifier: Apache-2.0
//! The file that the plugin's entry goes to.

use manifests::table;

use super::build::Reader;
use super::kind;

/// Placement of our entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSettings {
    /// `CNI_CONF_NAME`; empty for the first valid one (chained) or the default name (standalone).
    pub conf_name: String,
    /// `CHAINED_CNI_PLUGIN`
    pub chained: bool,
    /// `ISTIO_OWNED_CNI_CONFIG`
    pub owned: bool,
    /// `ISTIO_OWNED_CNI_CONFIG_FILENAME`, or the chart's spelling without "IG"; never empty.
    pub owned_name: String,
    /// `CNI_CONF_GROUP_READ`
    pub group_read: bool,
    /// `MILLRACE_RAISE_CNI_VERSION`: the list's cniVersion becomes 1.1.0 where every plugin of it can do that.
    pub raise_version: bool,
    /// `CNI_NETWORK_CONFIG(_FILE)`: a JSON object that is our entry, but for the keys that it lacks: those come from [`EntrySettings`].
    /// Its placeholders are replaced, its `type` is ours if it has one. Empty if none is given; `None` for one that
    /// cannot be used.
    pub template: Option<String>,
}

impl ChainSettings {
    /// File mode of files that we own.
    #[must_use]
    pub fn mode(&self) -> u32 {
        if self.group_read { 0o640 } else { 0o600 }
    }
}

impl Reader<'_> {
    pub(super) fn chain(&mut self) -> ChainSettings {
        let owned_name = self.read(&table::OWNED_NAME, kind::file_name, String::new());
        ChainSettings {
            conf_name: self.read(&table::CONF_NAME, kind::file_name, String::new()),
            chained: self.boolean(&table::CHAINED),
            owned: self.boolean(&table::OWNED),
            owned_name: if owned_name.is_empty() { table::OWNED_NAME.default.to_owned() } else { owned_name },
            group_read: self.boolean(&table::GROUP_READ),
            raise_version: self.boolean(&table::RAISE_VERSION),
            template: Some(String::new()),
        }
    }
}
