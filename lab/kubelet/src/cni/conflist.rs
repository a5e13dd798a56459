// SPDX-License-Identifier: Apache-2.0
//! The configuration directory: files in order of name, the first one is the node's network. What one does that cannot be used is the
//! runtime's business.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cluster::profile::Unusable;
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

/// No usable network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfError {
    /// No file of the directory is valid; with the reason for each that is not.
    #[error("no valid networks found in {}{}", directory.display(), reasons(rejected))]
    NoNetwork {
        directory: PathBuf,
        /// File name and reason.
        rejected: Vec<(String, String)>,
    },
}

fn reasons(rejected: &[(String, String)]) -> String {
    rejected.iter().map(|(file, why)| format!("; {file}: {why}")).collect()
}

/// A network: a list of plugins. A single configuration is a list of one.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    pub name: String,
    /// `cniVersion` for every plugin.
    pub version: String,
    /// Configurations of the plugins, in order.
    pub plugins: Vec<Map<String, Value>>,
    pub disable_check: bool,
    pub disable_gc: bool,
    /// Text, as the cache keeps it.
    pub text: Vec<u8>,
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

/// A network, and the file that it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub file: PathBuf,
    pub list: List,
}

/// A runtime's search for its network.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    pub unusable: Unusable,
    /// Directory of plugins.
    pub binaries: &'a Path,
}

impl List {
    /// The network of a directory.
    ///
    /// # Errors
    /// There is none.
    pub fn load(directory: &Path, search: Search<'_>) -> Result<Found, ConfError> {
        let mut rejected = Vec::new();
        for file in files(directory) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&file).map_err(|error| error.to_string());
            let is_list = file.extension().is_some_and(|extension| extension == "conflist");
            let list = text.and_then(|text| Self::parse(&text, is_list));
            match list.and_then(|list| list.usable(search)) {
                Ok(list) => return Ok(Found { file, list }),
                Err(why) => rejected.push((name, why)),
            }
            if search.unusable == Unusable::Fatal {
                break;
            }
        }
        Err(ConfError::NoNetwork { directory: directory.to_owned(), rejected })
    }

    /// The network of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn named(directory: &Path, search: Search<'_>, name: &str) -> Result<Found, ConfError> {
        let of = |file: &PathBuf| {
            let is_list = file.extension().is_some_and(|extension| extension == "conflist");
            let list =
                Self::parse(&fs::read(file).ok()?, is_list).and_then(|list| list.usable(search)).ok()?;
            (list.name == name).then_some(list)
        };
        files(directory)
            .into_iter()
            .find_map(|file| Some(Found { list: of(&file)?, file }))
            .ok_or_else(|| ConfError::NoNetwork { directory: directory.to_owned(), rejected: Vec::new() })
    }

    /// Every network of a directory, the first of each name.
    #[must_use]
    pub fn all(directory: &Path, search: Search<'_>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for file in files(directory) {
            let is_list = file.extension().is_some_and(|extension| extension == "conflist");
            let text = fs::read(&file).map_err(|error| error.to_string());
            let list = text.and_then(|text| Self::parse(&text, is_list)).and_then(|list| list.usable(search));
            all.extend(list.ok().filter(|list| all.iter().all(|known| known.name != list.name)));
        }
        all
    }

    /// Itself, unless the runtime wants binaries that are not there.
    fn usable(self, search: Search<'_>) -> Result<Self, String> {
        let types = self.plugins.iter().filter_map(|plugin| plugin["type"].as_str());
        let is_lacking = |name: &&str| !search.binaries.join(name).exists();
        match types.filter(|_| search.unusable == Unusable::Skipped).find(is_lacking) {
            Some(lacking) => Err(format!("failed to find plugin {lacking:?}")),
            None => Ok(self),
        }
    }

    /// Parses a list (`is_list`) or a single configuration.
    pub(super) fn parse(text: &[u8], is_list: bool) -> Result<Self, String> {
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

/// Configuration files of a directory, in order of name.
pub(super) fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|e| e == "conf" || e == "conflist" || e == "json"))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
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

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    #[test]
    fn the_first_valid_file_in_order_of_name_wins() {
        let directory = directory(&[
            ("30-c.conflist", r#"{"name":"c","plugins":[{"type":"x"}]}"#),
            ("20-b.conf", r#"{"name":"b","type":"x","cniVersion":"0.3.1"}"#),
            ("10-a.conflist", r#"{"name":"a","plugins":[]}"#),
            ("08-dns.conflist", r#"{"name":"d","plugins":[{"type":"x","dns":{"nameservers":"10.0.0.10"}}]}"#),
            ("07-ipam.conf", r#"{"name":"i","type":"x","ipam":"host-local"}"#),
            ("05-torn.conflist", r#"{"name":"a","#),
            ("00-note.txt", r#"{"name":"no","type":"x"}"#),
        ]);
        let search = Search { unusable: Unusable::Skipped, binaries: directory.path() };
        fs::write(directory.path().join("x"), "").unwrap();
        let found = List::load(directory.path(), search).unwrap();
        assert!(found.file.ends_with("20-b.conf"));
        let list = found.list;
        assert_eq!((list.name.as_str(), list.version.as_str()), ("b", "0.3.1"));
        assert_eq!(List::from_text(&list.text).unwrap().plugins, list.plugins, "the cache can read it back");
    }

    #[test]
    fn a_directory_without_a_network_names_each_files_fault() {
        let directory =
            directory(&[("1.conf", r#"{"name":"b"}"#), ("2.conflist", r#"{"plugins":[{"type":"x"}]}"#)]);
        let search = Search { unusable: Unusable::Skipped, binaries: directory.path() };
        let text = List::load(directory.path(), search).unwrap_err().to_string();
        assert!(text.contains("1.conf: no 'type'") && text.contains("2.conflist: no name"), "{text}");
    }

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
