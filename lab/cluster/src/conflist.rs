// SPDX-License-Identifier: Apache-2.0
//! A CNI network configuration as libcni decodes it. Pure: its file, and what a runtime makes of one that is invalid, are elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Keys of a plugin that libcni decodes (`PluginConf` of its types): with a value of another type the whole file counts as none. Go takes each in
/// any case; here another case is another key.
#[derive(Deserialize)]
#[expect(dead_code, reason = "of most only whether they can be decoded counts")]
struct PluginConf {
    #[serde(rename = "cniVersion")]
    version: Option<String>,
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    capabilities: Option<BTreeMap<String, Option<bool>>>,
    ipam: Option<Ipam>,
    dns: Option<Dns>,
    #[serde(rename = "prevResult")]
    previous: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only whether it can be decoded counts")]
struct Ipam {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only whether they can be decoded counts")]
struct Dns {
    domain: Option<String>,
    nameservers: Option<Vec<Option<String>>>,
    search: Option<Vec<Option<String>>>,
    options: Option<Vec<Option<String>>>,
}

/// A network: a list of plugins. A single configuration is a list of one.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// Name of the network.
    pub name: String,
    /// `cniVersion` for every plugin.
    pub version: String,
    /// Configurations of the plugins, in order.
    pub plugins: Vec<Map<String, Value>>,
    /// The runtime calls no CHECK.
    pub disable_check: bool,
    /// The runtime calls no GC.
    pub disable_gc: bool,
    /// Text, as the cache keeps it.
    pub text: Vec<u8>,
}

/// True for a name that a runtime takes for a configuration.
#[must_use]
pub fn is_configuration(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "conf" || kind == "conflist" || kind == "json")
}

/// Additions to a plugin's configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extra<'a> {
    /// `prevResult`
    pub previous: Option<&'a Value>,
    /// Runtime's value for each capability.
    pub capabilities: Option<&'a BTreeMap<String, Value>>,
    /// `cni.dev/valid-attachments`, under both names that runtimes use.
    pub attachments: Option<&'a Value>,
}

impl List {
    /// The first of its plugins' types whose binary is missing.
    pub fn missing(&self, is_there: impl Fn(&str) -> bool) -> Option<&str> {
        let mut types = self.plugins.iter().filter_map(|plugin| plugin["type"].as_str());
        types.find(|name| !is_there(name))
    }

    /// Parses a file: a list if it is called `.conflist`.
    ///
    /// # Errors
    /// It is malformed, or has no name or no plugins.
    pub fn of_file(name: &Path, text: &[u8]) -> Result<Self, String> {
        Self::parse(text, name.extension().is_some_and(|extension| extension == "conflist"))
    }

    fn parse(text: &[u8], is_list: bool) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if is_list { Self::from_list(&value, text.to_vec()) } else { Self::from_single(&value) }
    }

    /// Reads the text of a list, as it comes from the cache.
    ///
    /// # Errors
    /// It is no list.
    pub fn from_text(text: &[u8]) -> Result<Self, String> {
        Self::parse(text, true)
    }

    fn from_single(value: &Value) -> Result<Self, String> {
        if value["type"].as_str().is_none_or(str::is_empty) {
            return Err("no 'type' (perhaps this is a list that should be named .conflist?)".to_owned());
        }
        let list = serde_json::json!({
            "cniVersion": value["cniVersion"].as_str().unwrap_or_default(),
            "name": value["name"],
            "plugins": [value],
        });
        Self::from_list(&list, list.to_string().into_bytes())
    }

    fn from_list(value: &Value, text: Vec<u8>) -> Result<Self, String> {
        let name = value["name"].as_str().filter(|name| !name.is_empty()).ok_or("no name")?;
        let plugins = value["plugins"].as_array().filter(|all| !all.is_empty()).ok_or("no plugins")?;
        let plugins = plugins.iter().map(|plugin| {
            let conf = PluginConf::deserialize(plugin).map_err(|error| error.to_string())?;
            let typed = conf.kind.is_some_and(|name| !name.is_empty());
            plugin.as_object().filter(|_| typed).cloned().ok_or("a plugin without type".to_owned())
        });
        Ok(Self {
            name: name.to_owned(),
            version: version(value),
            plugins: plugins.collect::<Result<_, _>>()?,
            disable_check: value["disableCheck"] == true,
            disable_gc: value["disableGC"] == true,
            text,
        })
    }

    /// True if the list's version is at least `major.minor`.
    #[must_use]
    pub fn speaks(&self, major: u32, minor: u32) -> bool {
        order(&self.version) >= vec![major, minor]
    }

    /// Standard input of a plugin.
    #[must_use]
    pub fn input(&self, plugin: &Map<String, Value>, extra: Extra<'_>) -> Vec<u8> {
        let mut input = plugin.clone();
        input.insert("name".to_owned(), Value::from(self.name.as_str()));
        input.insert("cniVersion".to_owned(), Value::from(self.version.as_str()));
        if let Some(previous) = extra.previous {
            input.insert("prevResult".to_owned(), previous.clone());
        }
        if let Some(attachments) = extra.attachments {
            input.insert("cni.dev/valid-attachments".to_owned(), attachments.clone());
            input.insert("cni.dev/attachments".to_owned(), attachments.clone());
        }
        let declared = plugin.get("capabilities").and_then(Value::as_object);
        let has = |name: &str| declared.is_some_and(|all| all.get(name).is_some_and(|on| on == true));
        let given: Map<String, Value> = extra
            .capabilities
            .into_iter()
            .flatten()
            .filter(|(name, _)| has(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !given.is_empty() {
            input.insert("runtimeConfig".to_owned(), Value::Object(given));
        }
        Value::Object(input).to_string().into_bytes()
    }
}

/// The version that a list is used with: its `cniVersion`, or the highest of `cniVersions` that we know.
fn version(list: &Value) -> String {
    let offered = list["cniVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let own = list["cniVersion"].as_str().filter(|version| !version.is_empty());
    let known = offered.filter(|version| order(version) <= vec![1, 1, 0]).chain(own);
    known.max_by_key(|version| order(version)).unwrap_or("0.1.0").to_owned()
}

fn order(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(u32::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_gets_the_lists_name_and_version_and_what_it_asks_for() {
        let text = r#"{"name":"n","cniVersion":"1.0.0","plugins":[
            {"type":"x","cniVersion":"0.1.0","capabilities":{"a":true,"b":false}}]}"#;
        let list = List::from_text(text.as_bytes()).unwrap();
        let capabilities =
            BTreeMap::from([("a".to_owned(), Value::from(1)), ("b".to_owned(), Value::from(2))]);
        let previous = serde_json::json!({"ips": []});
        let extra = Extra { previous: Some(&previous), capabilities: Some(&capabilities), attachments: None };
        let input: Value = serde_json::from_slice(&list.input(&list.plugins[0], extra)).unwrap();
        assert_eq!((&input["name"], &input["cniVersion"]), (&Value::from("n"), &Value::from("1.0.0")));
        assert_eq!(input["runtimeConfig"], serde_json::json!({"a": 1}));
        assert_eq!(input["prevResult"], previous);
    }

    #[test]
    fn versions_compare_by_number() {
        let of = |text: &str| List::from_text(text.as_bytes()).unwrap();
        let list = of(
            r#"{"name":"n","cniVersion":"1.0.0","cniVersions":["1.1.0","2.0.0"],"plugins":[{"type":"x"}]}"#,
        );
        assert_eq!(list.version, "1.1.0");
        assert!(
            list.speaks(1, 1)
                && !of(r#"{"name":"n","cniVersion":"0.4.0","plugins":[{"type":"x"}]}"#).speaks(1, 0)
        );
    }
}
