// SPDX-License-Identifier: Apache-2.0
//! The settings at the start: the command line and the environment, and the few files that they depend on.

use std::collections::BTreeMap;
use std::path::Path;

use super::build::{ACCOUNT_DIR, NodeFacts, TemplateText, build};
use super::layers::{Environment, Layers, Values};
use super::{Mistake, Settings};
use manifests::setting::Setting;
use manifests::table;

/// Settings, and where they come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    pub settings: Settings,
    /// Text and origin of each.
    pub values: Values,
    /// Every malformed value.
    pub mistakes: Vec<Mistake>,
    /// Layers, for the watched `ConfigMap` to join.
    pub layers: Layers,
    pub found: NodeFacts,
}

/// Reads the settings. Nothing that is wrong with them ends it: it is in [`Loaded::mistakes`]. `is_gated` tells whether an entry of ours in a
/// directory of configurations makes STATUS depend on the agent.
#[must_use]
pub fn load(
    flags: BTreeMap<&'static Setting, String>,
    environment: &dyn Environment,
    is_gated: fn(&Path) -> bool,
) -> Loaded {
    let layers = Layers::new(flags, environment);
    let values = layers.values();
    let found = find(&values, is_gated);
    let (settings, mistakes) = build(&values, &found);
    Loaded { settings, values, mistakes, layers, found }
}

/// Gathers facts that the settings depend on.
fn find(values: &Values, is_gated: fn(&Path) -> bool) -> NodeFacts {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let net_dir = values.get(&&table::NET_DIR).map_or(table::NET_DIR.default, |value| value.text.as_str());
    NodeFacts {
        hostname: text("/proc/sys/kernel/hostname"),
        account_namespace: text(&format!("{ACCOUNT_DIR}/namespace")),
        gated: is_gated(Path::new(net_dir)),
        template_file: template_file(values),
    }
}

pub(crate) fn template_file(values: &Values) -> TemplateText {
    let file = values.get(&&table::TEMPLATE_FILE).map(|value| value.text.as_str()).unwrap_or_default();
    let read = || std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    (!file.is_empty()).then(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Origin;

    #[test]
    fn a_template_is_read_from_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json");
        std::fs::write(&path, r#"{"type":"istio-cni"}"#).unwrap();
        let flags = BTreeMap::from([(&table::TEMPLATE_FILE, path.display().to_string())]);
        let loaded = load(flags.clone(), &BTreeMap::new(), |_| false);
        assert_eq!(loaded.settings.chain.template.as_deref(), Some(r#"{"type":"istio-cni"}"#));
        assert_eq!(loaded.values[&table::TEMPLATE_FILE].origin, Origin::Flag);
        std::fs::remove_file(&path).unwrap();
        let loaded = load(flags, &BTreeMap::new(), |_| false);
        assert!(loaded.settings.blocked[0].contains("t.json"), "{:?}", loaded.settings.blocked);
    }
}
