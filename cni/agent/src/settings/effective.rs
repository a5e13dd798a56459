// SPDX-License-Identifier: Apache-2.0
//! The settings of a running agent as another process is told of them: what holds, who said it, and what is said and does not hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::change::RejectedChange;
use super::layers::{SettingValue, Values};
use manifests::table;

/// Settings as shown to a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsReport {
    /// Values in effect, with their origins.
    pub values: Values,
    /// Rejected changes.
    pub refused: Vec<RejectedChange>,
}

/// Settings in effect of a running agent. Keys are named as in the `ConfigMap`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    /// Value in effect for each key.
    pub values: BTreeMap<String, SettingValue>,
    /// Rejected changes.
    #[serde(default)]
    pub refused: Vec<NotApplied>,
}

/// A rejected change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotApplied {
    pub key: String,
    /// New value and its origin.
    pub wanted: SettingValue,
    /// Reason, for a person.
    pub why: String,
}

impl From<&SettingsReport> for Effective {
    fn from(report: &SettingsReport) -> Self {
        let refused = report.refused.iter().map(|one| NotApplied {
            key: one.key.variable(),
            wanted: one.wanted.clone(),
            why: one.why.to_string(),
        });
        let values = report.values.iter().map(|(key, value)| (key.variable(), value.clone()));
        Self { values: values.collect(), refused: refused.collect() }
    }
}

impl Effective {
    /// The values, as this program reads them. Keys that another version of the agent has, and this one does not know, are left out.
    #[must_use]
    pub fn values(&self) -> Values {
        let known = table::keys();
        known.filter_map(|key| Some((key, self.values.get(&key.variable())?.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Origin;
    use crate::settings::change::{Refusal, RejectedChange};

    #[test]
    fn what_is_told_is_what_is_read() {
        let value = |text: &str, origin| SettingValue { text: text.to_owned(), origin };
        let held = value("kube-system", Origin::ConfigMap);
        let wanted = value("/elsewhere", Origin::ConfigMap);
        let report = SettingsReport {
            values: Values::from([(&table::EXCLUDE_NAMESPACES, held)]),
            refused: vec![RejectedChange {
                key: &table::NET_DIR,
                wanted: wanted.clone(),
                why: Refusal::Mount,
            }],
        };
        let text = serde_json::to_string(&Effective::from(&report)).unwrap();
        let read: Effective = serde_json::from_str(&text).unwrap();
        assert_eq!(read.values(), report.values);
        assert_eq!(read.refused[0].wanted, wanted);
        assert!(read.refused[0].why.contains("change the DaemonSet"), "{}", read.refused[0].why);
        let newer = r#"{"values": {"OF_NEXT_YEAR": {"text": "x", "origin": "flag"}}}"#;
        assert_eq!(serde_json::from_str::<Effective>(newer).unwrap().values(), Values::new());
    }
}
