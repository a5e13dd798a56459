// SPDX-License-Identifier: Apache-2.0
//! A configuration's text: its keys with the places of their values, and whether a runtime takes it. Values are never decoded further
//! than needed, so that nothing of them can get lost.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::OUR_TYPE;

/// Why runtimes do not take a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is not a JSON object.
    #[error("it is not a JSON object: {0}")]
    Json(String),
    /// A list without a name.
    #[error("its \"name\" is missing or no text")]
    Name,
    /// A key of another type than it must be.
    #[error("its \"{0}\" has a value that runtimes refuse")]
    Value(&'static str),
    /// A list without plugins.
    #[error("it has no list \"plugins\" with another plugin than istio-cni in it")]
    Plugins,
    /// A plugin without a type.
    #[error("plugin {0} has no \"type\"")]
    Plugin(usize),
    /// A configuration of one plugin that does not say which.
    #[error("it has no \"type\"")]
    Type,
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

    /// The value of a key, as written.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.get())
    }

    /// The value of a key, if it is a text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.get(key)?).ok()
    }

    /// Whether runtimes take them as a configuration of one plugin: libcni reads these as texts.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<(), Invalid> {
        let is_text = |key| self.get(key).is_none_or(|value| value == "null" || self.text(key).is_some());
        let wrong = ["name", "cniVersion"].into_iter().find(|key| !is_text(key));
        wrong.map_or(Ok(()), |key| Err(Invalid::Value(key)))
    }
}

/// A plugin's entry in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin<'a> {
    /// Its `type`; `None` if it has none, or is no object.
    pub kind: Option<String>,
    /// As written.
    pub text: &'a str,
    /// Where in the file.
    pub at: Range<usize>,
}

impl Plugin<'_> {
    /// Whether it is our entry.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.kind.as_deref() == Some(OUR_TYPE)
    }
}

/// A configuration with a list of plugins, valid or not.
#[derive(Debug, Clone)]
pub struct List<'a> {
    /// The file.
    pub text: &'a str,
    /// Its keys.
    pub members: Members<'a>,
    /// Where the list is in the file, brackets included.
    pub at: Range<usize>,
    /// What is in it.
    pub plugins: Vec<Plugin<'a>>,
}

/// A file as far as it can be told.
#[derive(Debug, Clone)]
pub enum Document<'a> {
    /// A list of plugins.
    List(List<'a>),
    /// One plugin: it has a `type` at the top.
    Single(Members<'a>),
}

impl<'a> Document<'a> {
    /// Reads a file, whatever its name says that it is.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &'a str) -> Result<Self, Invalid> {
        let members = Members::parse(text)?;
        if members.text("type").is_some_and(|kind| !kind.is_empty()) {
            return Ok(Self::Single(members));
        }
        let Some(array) = members.get("plugins") else { return Err(Invalid::Plugins) };
        let elements: Vec<&RawValue> = serde_json::from_str(array).map_err(|_| Invalid::Plugins)?;
        let plugins = elements.into_iter().map(|element| Plugin {
            kind: Members::parse(element.get()).ok().and_then(|members| members.text("type")),
            text: element.get(),
            at: place(text, element.get()),
        });
        Ok(Self::List(List { text, at: place(text, array), plugins: plugins.collect(), members }))
    }

    /// The network's name.
    #[must_use]
    pub fn network(&self) -> Option<String> {
        match self {
            Self::List(list) => list.members.text("name"),
            Self::Single(members) => members.text("name"),
        }
    }

    /// The types of the plugins that are not ours.
    #[must_use]
    pub fn others(&self) -> Vec<Option<String>> {
        match self {
            Self::List(list) => {
                list.plugins.iter().filter(|p| !p.is_ours()).map(|p| p.kind.clone()).collect()
            }
            Self::Single(members) => {
                members.text("type").filter(|kind| kind != OUR_TYPE).map(Some).into_iter().collect()
            }
        }
    }

    /// Our entries, as written.
    #[must_use]
    pub fn ours(&self) -> Vec<&'a str> {
        match self {
            Self::List(list) => list.plugins.iter().filter(|p| p.is_ours()).map(|p| p.text).collect(),
            Self::Single(_) => Vec::new(),
        }
    }
}

impl List<'_> {
    /// Whether runtimes take it: upstream's rules, and what libcni refuses besides.
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
        self.plugins.iter().position(typeless).map_or(Ok(()), |index| Err(Invalid::Plugin(index)))
    }
}

/// A boolean, or the text of one: libcni takes both.
fn is_flag(value: &str) -> bool {
    serde_json::from_str::<bool>(value).is_ok()
        || serde_json::from_str::<String>(value)
            .is_ok_and(|text| ["true", "false"].contains(&text.to_lowercase().as_str()))
}

/// Where a slice of a text is in it.
pub(super) fn place(text: &str, slice: &str) -> Range<usize> {
    let start = (slice.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + slice.len()
}
