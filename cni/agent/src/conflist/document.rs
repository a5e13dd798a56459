// SPDX-License-Identifier: Apache-2.0
//! A configuration's text: its keys with the places of their values, and whether a runtime takes it. Values are never decoded further
//! than needed, so that nothing of them can get lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::OUR_TYPE;

/// Reason for which runtimes reject a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Not a JSON object.
    #[error("it is not a JSON object: {0}")]
    Json(String),
    #[error("its \"name\" is missing or no text")]
    Name,
    /// Value of the wrong type.
    #[error("its \"{0}\" has a value that runtimes refuse")]
    Value(&'static str),
    #[error("it has no list \"plugins\" with another plugin than istio-cni in it")]
    Plugins,
    #[error("plugin {0} has no \"type\"")]
    Plugin(usize),
    /// A `.conf` without `type`.
    #[error("it has no \"type\"")]
    Type,
    /// A number or a plugin's value that Go does not decode.
    #[error("it has a value that runtimes refuse: {0}")]
    Undecodable(String),
}

/// An object's keys in order, each with its value as written. Of a key that is there twice the last counts, as for Go.
#[derive(Debug, Clone)]
pub struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl<'a> Members<'a> {
    /// Reads an object.
    ///
    /// # Errors
    /// [`Invalid::Json`]
    pub fn parse(text: &'a str) -> Result<Self, Invalid> {
        serde_json::from_str(text).map_err(|error| Invalid::Json(error.to_string()))
    }

    /// Raw value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    /// String value of a key.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// The object again, without its white space.
    fn to_object(&self) -> String {
        let members =
            self.0.iter().map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), value.get()));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// Type of a plugin. Go decodes a plugin's keys in any case, and the last counts; those of a list it takes as they are.
    #[must_use]
    pub fn kind(&self) -> Option<String> {
        let (_, value) = self.0.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case("type"))?;
        serde_json::from_str(value.get()).ok()
    }

    /// True if they are a plugin's: there is a `type`.
    #[must_use]
    pub fn has_type(&self) -> bool {
        self.kind().is_some_and(|kind| !kind.is_empty())
    }

    /// Validates them as a `.conf`: libcni requires these to be strings.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<(), Invalid> {
        let is_text = |key| self.get(key).is_none_or(|value| value == "null" || self.text(key).is_some());
        let wrong = ["name", "cniVersion"].into_iter().find(|key| !is_text(key));
        wrong.map_or(Ok(()), |key| Err(Invalid::Value(key)))?;
        self.decode()
    }

    /// Decodes the keys of a plugin that runtimes read.
    fn decode(&self) -> Result<(), Invalid> {
        let wrong = |error: serde_json::Error| Invalid::Undecodable(error.to_string());
        let mut keys = serde_json::Map::new();
        for (key, value) in &self.0 {
            keys.insert(key.to_ascii_lowercase(), serde_json::from_str(value.get()).map_err(wrong)?);
        }
        PluginConf::deserialize(Value::Object(keys)).map(drop).map_err(wrong)
    }
}

/// Keys of a plugin that runtimes decode (`PluginConf` of CNI's Go types): with one of another type the whole file counts as none. Null is
/// as none. Go takes each key in any case; these are in lower case.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only whether they can be decoded counts")]
struct PluginConf {
    name: Option<String>,
    #[serde(rename = "cniversion")]
    version: Option<String>,
    capabilities: Option<BTreeMap<String, Option<bool>>>,
    ipam: Option<Ipam>,
    dns: Option<Dns>,
    #[serde(rename = "prevresult")]
    result: Option<serde_json::Map<String, Value>>,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin<'a> {
    /// Its `type`; `None` if absent or not an object.
    pub kind: Option<String>,
    /// Raw text.
    pub text: &'a str,
    /// Byte range in the file.
    pub at: Range<usize>,
}

impl Plugin<'_> {
    /// True if it is our entry.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.kind.as_deref() == Some(OUR_TYPE)
    }
}

/// A conflist, valid or not.
#[derive(Debug, Clone)]
pub struct List<'a> {
    pub text: &'a str,
    /// Keys and values.
    pub members: Members<'a>,
    /// Byte range of `plugins`, brackets included.
    pub at: Range<usize>,
    pub plugins: Vec<Plugin<'a>>,
}

/// A parsed file.
#[derive(Debug, Clone)]
pub enum Document<'a> {
    /// A conflist.
    List(List<'a>),
    /// A `.conf`: it has a `type` at the top level.
    Single(Members<'a>),
}

impl<'a> Document<'a> {
    /// Reads a file, whatever its name says that it is. With both `plugins` and `type` it is a list, as in libcni's parser of lists.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &'a str) -> Result<Self, Invalid> {
        let members = Members::parse(text)?;
        let elements = |array| serde_json::from_str::<Vec<&RawValue>>(array).ok();
        let found = members.get("plugins").and_then(|array| Some((array, elements(array)?)));
        let Some((array, elements)) = found else {
            return members.has_type().then_some(Self::Single(members)).ok_or(Invalid::Plugins);
        };
        let plugins = elements.into_iter().map(|element| Plugin {
            kind: Members::parse(element.get()).ok().and_then(|members| members.kind()),
            text: element.get(),
            at: place(text, element.get()),
        });
        Ok(Self::List(List { text, at: place(text, array), plugins: plugins.collect(), members }))
    }

    #[must_use]
    pub fn network(&self) -> Option<String> {
        match self {
            Self::List(list) => list.members.text("name"),
            Self::Single(members) => members.text("name"),
        }
    }

    /// Types of the foreign plugins.
    #[must_use]
    pub fn others(&self) -> Vec<Option<String>> {
        match self {
            Self::List(list) => {
                list.plugins.iter().filter(|p| !p.is_ours()).map(|p| p.kind.clone()).collect()
            }
            Self::Single(members) => {
                members.kind().filter(|kind| kind != OUR_TYPE).map(Some).into_iter().collect()
            }
        }
    }

    /// Types of all plugins that get the version of this configuration: its own, ours included, their IPAM plugins, and those that they delegate to.
    #[must_use]
    pub fn called(&self) -> BTreeSet<String> {
        let mut types = BTreeSet::new();
        let mut add = |text: &str| {
            if let Ok(plugin) = serde_json::from_str(text) {
                add_called(&plugin, &mut types);
            }
        };
        match self {
            Self::List(list) => list.plugins.iter().for_each(|plugin| add(plugin.text)),
            Self::Single(members) => add(&members.to_object()),
        }
        types
    }

    /// Configurations that Multus has inline (`delegates`), raw: its thin form copies the primary's there.
    #[must_use]
    pub fn inline(&self) -> Vec<&'a str> {
        let of = |plugin: &Members<'a>| -> Vec<&'a RawValue> {
            plugin.get("delegates").and_then(|array| serde_json::from_str(array).ok()).unwrap_or_default()
        };
        let all: Vec<_> = match self {
            Self::Single(members) => of(members),
            Self::List(list) => {
                let plugins = list.plugins.iter().filter_map(|plugin| Members::parse(plugin.text).ok());
                plugins.flat_map(|plugin| of(&plugin)).collect()
            }
        };
        all.into_iter().map(RawValue::get).collect()
    }

    /// Our entries, raw.
    #[must_use]
    pub fn ours(&self) -> Vec<&'a str> {
        match self {
            Self::List(list) => list.plugins.iter().filter(|p| p.is_ours()).map(|p| p.text).collect(),
            Self::Single(_) => Vec::new(),
        }
    }
}

impl List<'_> {
    /// Validates by upstream's rules and libcni's.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<(), Invalid> {
        let is_text = |key| self.members.get(key).is_none_or(|_| self.members.text(key).is_some());
        self.members.text("name").ok_or(Invalid::Name)?;
        if !is_text("cniVersion") {
            return Err(Invalid::Value("cniVersion"));
        }
        for key in ["disableCheck", "disableGC", "loadOnlyInlinedPlugins"] {
            if !self.members.get(key).is_none_or(is_flag) {
                return Err(Invalid::Value(key));
            }
        }
        if self.plugins.is_empty() {
            return Err(Invalid::Plugins);
        }
        let typeless = |plugin: &Plugin<'_>| plugin.kind.as_ref().is_none_or(String::is_empty);
        if let Some(index) = self.plugins.iter().position(typeless) {
            return Err(Invalid::Plugin(index));
        }
        let undecodable = |error: serde_json::Error| Invalid::Undecodable(error.to_string());
        serde_json::from_str::<Value>(self.text).map_err(undecodable)?;
        self.plugins.iter().try_for_each(|plugin| Members::parse(plugin.text)?.decode())
    }
}

/// A boolean, or the string of one: libcni accepts both.
fn is_flag(value: &str) -> bool {
    serde_json::from_str::<bool>(value).is_ok()
        || serde_json::from_str::<String>(value)
            .is_ok_and(|text| ["true", "false"].contains(&text.to_lowercase().as_str()))
}

/// Plugin and IPAM plugin that flannel delegates to, unless its `delegate` has others.
const FLANNELS: [&str; 2] = ["bridge", "host-local"];

/// Adds the type of a plugin, of its `ipam`, and of what it delegates to: `delegate` (flannel), `delegates` (Multus), lists included.
fn add_called(plugin: &Value, types: &mut BTreeSet<String>) {
    let Some(plugin) = plugin.as_object() else { return };
    // Go decodes the keys of a plugin in any case.
    let keys = |wanted: &'static str| {
        plugin.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
    };
    let kind = keys("type").filter_map(Value::as_str).next_back().filter(|kind| !kind.is_empty());
    types.extend(kind.map(str::to_owned));
    ["ipam", "delegate"].into_iter().flat_map(keys).for_each(|called| add_called(called, types));
    let lists = ["delegates", "plugins"].into_iter().flat_map(keys);
    lists.filter_map(Value::as_array).flatten().for_each(|called| add_called(called, types));
    if kind == Some("flannel") {
        let delegate = keys("delegate").next_back().unwrap_or(&Value::Null);
        let said = [&delegate["type"], &delegate["ipam"]["type"]];
        let defaults = FLANNELS.iter().zip(said).filter(|(_, said)| !said.is_string());
        types.extend(defaults.map(|(default, _)| (*default).to_owned()));
    }
}

/// Byte range of a slice in its text.
pub(super) fn place(text: &str, slice: &str) -> Range<usize> {
    let start = (slice.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + slice.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_plugin_count_in_any_case_and_those_of_a_list_as_they_are() {
        let checked = |text: &str| match Document::parse(text)? {
            Document::List(list) => list.check(),
            Document::Single(members) => members.check(),
        };
        assert!(checked(r#"{"name":"a","plugins":[{"Type":"bridge","Name":"b"}]}"#).is_ok());
        assert!(checked(r#"{"name":"a","TYPE":"bridge"}"#).is_ok());
        for wrong in [
            r#"{"name":"a","plugins":[{"type":"bridge","IPAM":"host-local"}]}"#,
            r#"{"name":"a","plugins":[{"type":"bridge","Type":""}]}"#,
            r#"{"Name":"a","plugins":[{"type":"bridge"}]}"#,
            r#"{"name":"a","Plugins":[{"type":"bridge"}]}"#,
        ] {
            assert!(checked(wrong).is_err(), "{wrong}");
        }
        let ours = r#"{"name":"a","plugins":[{"TYPE":"istio-cni"}]}"#;
        assert_eq!(Document::parse(ours).unwrap().ours().len(), 1);
    }
}
