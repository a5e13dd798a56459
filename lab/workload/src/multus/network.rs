// SPDX-License-Identifier: Apache-2.0
//! A network that Multus attaches a pod to: the default one, or one of a definition.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// A network: a list of plugins, or a single one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Configuration, as it was read.
    pub text: Vec<u8>,
    pub name: String,
    /// `cniVersion` for its plugins.
    pub version: String,
    /// Configurations of its plugins, in order.
    pub plugins: Vec<Map<String, Value>>,
    pub is_list: bool,
    /// Wanted name of the interface; Multus chooses where it is empty.
    pub interface: String,
}

impl Network {
    /// Reads a configuration. One without a name gets `fallback`.
    ///
    /// # Errors
    /// It is malformed, or a plugin has no type.
    pub fn parse(text: &[u8], fallback: &str) -> Result<Self, String> {
        let failed = |why: String| format!("LoadDelegateNetConf: error in LoadDelegateNetConf - {why}");
        let mut value: Value = serde_json::from_slice(text).map_err(|error| failed(error.to_string()))?;
        let mut text = text.to_vec();
        if value["name"].as_str().is_none_or(str::is_empty) && !fallback.is_empty() {
            value["name"] = json!(fallback);
            text = value.to_string().into_bytes();
        }
        let is_list = value["plugins"].is_array();
        let plugins = if is_list { value["plugins"].clone() } else { json!([value]) };
        let plugins: Vec<_> =
            plugins.as_array().into_iter().flatten().filter_map(Value::as_object).cloned().collect();
        if plugins.is_empty()
            || plugins.iter().any(|plugin| plugin.get("type").is_none_or(|kind| !kind.is_string()))
        {
            return Err(failed("a plugin delegate must have the field 'type'".to_owned()));
        }
        let of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (name, version) = (of("name"), of("cniVersion"));
        Ok(Self { text, name, version, plugins, is_list, interface: String::new() })
    }

    /// The network of a NetworkAttachmentDefinition: its own configuration, or, without one, the file that has its name.
    ///
    /// # Errors
    /// There is no usable configuration.
    pub fn of_definition(definition: &Value, files: &Directory) -> Result<Self, String> {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        match definition["spec"]["config"].as_str().filter(|text| !text.is_empty()) {
            Some(text) => {
                serde_json::from_str::<Value>(text).map_err(|error| {
                    format!("getCNIConfigFromSpec: failed to unmarshal Spec.Config: {error}")
                })?;
                Self::parse(text.as_bytes(), name)
            }
            None => files
                .named(name)
                .map_err(|error| format!("GetCNIConfig: err in GetCNIConfigFromFile: {error}")),
        }
    }

    /// What Multus keeps of it, in Go's encoding.
    #[must_use]
    pub fn kept(&self) -> Value {
        let whole: Value = serde_json::from_slice(&self.text).unwrap_or_default();
        let none = json!({ "cniVersion": "", "name": "", "type": "", "ipam": {}, "dns": {} });
        let (conf, list) =
            if self.is_list { (none, whole) } else { (whole, json!({ "name": "", "plugins": null })) };
        json!({
            "Conf": conf, "ConfList": list, "Name": self.name, "IfnameRequest": self.interface,
            "IsFilterV4Gateway": false, "Bytes": STANDARD.encode(&self.text),
        })
    }

    /// Reads [`Network::kept`].
    #[must_use]
    pub fn of_kept(kept: &Value) -> Option<Self> {
        let network = Self::parse(&STANDARD.decode(kept["Bytes"].as_str()?).ok()?, "").ok()?;
        Some(Self { interface: kept["IfnameRequest"].as_str().unwrap_or_default().to_owned(), ..network })
    }

    /// True if its version is at least `major.minor`.
    #[must_use]
    pub fn speaks(&self, major: u32, minor: u32) -> bool {
        let parts: Vec<u32> = self.version.split('.').map(|part| part.parse().unwrap_or(0)).collect();
        parts >= vec![major, minor]
    }
}

/// A directory of configurations.
#[derive(Debug, Clone)]
pub struct Directory {
    /// As Multus was told.
    pub name: PathBuf,
    /// Its place in the lab.
    pub place: PathBuf,
}

impl Directory {
    /// Paths of its configurations, by name.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.place).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_one = |path: &PathBuf| {
            path.extension().is_some_and(|kind| ["conf", "json", "conflist"].iter().any(|one| kind == *one))
        };
        let mut files: Vec<_> = entries.filter(is_one).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }

    /// The network of this name, or the first one where the name is empty. A file before it that is malformed ends the search.
    ///
    /// # Errors
    /// There is none.
    pub fn named(&self, name: &str) -> Result<Network, String> {
        let (files, at) = (self.files(), self.name.display());
        if files.is_empty() {
            return Err(format!("No networks found in {at}"));
        }
        for file in files {
            let found = of_file(&file)?;
            if found.name == name || name.is_empty() {
                return Ok(found);
            }
        }
        Err(format!("no network available in the name {name} in cni dir {at}"))
    }
}

/// Reads a file.
///
/// # Errors
/// It is not there, or malformed.
pub fn of_file(file: &Path) -> Result<Network, String> {
    let text = fs::read(file)
        .map_err(|error| format!("error loading CNI config file {}: {error}", file.display()))?;
    Network::parse(&text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_network_is_what_it_is_deleted_with() {
        let single = br#"{"cniVersion":"0.3.1","name":"istio-cni","type":"istio-cni"}"#.to_vec();
        let list = br#"{"cniVersion":"1.0.0","name":"lab","plugins":[{"type":"lab-net"}]}"#.to_vec();
        for (text, is_list) in [(single, false), (list, true)] {
            let network = Network { interface: "net7".to_owned(), ..Network::parse(&text, "").unwrap() };
            let again = Network::of_kept(&network.kept()).unwrap();
            assert_eq!((again.is_list, &again.text), (is_list, &text));
            assert_eq!(again, network);
        }
    }

    #[test]
    fn a_definition_has_a_configuration_or_names_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let files = Directory { name: "/etc/cni/multus/net.d".into(), place: directory.path().to_owned() };
        let bare = json!({ "metadata": { "name": "istio-cni" } });
        assert!(
            Network::of_definition(&bare, &files)
                .unwrap_err()
                .ends_with("No networks found in /etc/cni/multus/net.d")
        );
        fs::write(directory.path().join("a.conf"), r#"{"name":"other","type":"x"}"#).unwrap();
        let missing = Network::of_definition(&bare, &files).unwrap_err();
        assert!(
            missing.ends_with("no network available in the name istio-cni in cni dir /etc/cni/multus/net.d")
        );
        let own = json!({ "metadata": { "name": "n" }, "spec": { "config": r#"{"type":"x"}"# } });
        assert_eq!(Network::of_definition(&own, &files).unwrap().name, "n");
    }
}
