// SPDX-License-Identifier: Apache-2.0
//! Precedence of values: flag, watched `ConfigMap`, environment, default. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use manifests::setting::{From, Setting};
use manifests::table;

/// The environment of a process. A variable that is set to nothing is set.
pub trait Environment {
    fn get(&self, variable: &str) -> Option<String>;
}

/// Environment of this process. Non-UTF-8 counts as unset.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn get(&self, variable: &str) -> Option<String> {
        std::env::var(variable).ok()
    }
}

impl Environment for BTreeMap<String, String> {
    fn get(&self, variable: &str) -> Option<String> {
        self.get(variable).cloned()
    }
}

/// Origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Default,
    Environment,
    ConfigMap,
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Default => "the default",
            Self::Environment => "the environment",
            Self::ConfigMap => "the ConfigMap",
            Self::Flag => "the command line",
        })
    }
}

/// A value as text, and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingValue {
    pub text: String,
    pub origin: Origin,
}

/// A value for each key.
pub type Values = BTreeMap<&'static Setting, SettingValue>;

pub type Data = BTreeMap<String, String>;

/// Layers of values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layers {
    flags: BTreeMap<&'static Setting, String>,
    environment: BTreeMap<&'static Setting, String>,
    config_map: Option<Data>,
    /// Keys whose variable is a copy that the kubelet made of the `ConfigMap`: when the key goes there, the copy counts for nothing.
    copied: BTreeSet<&'static Setting>,
}

impl Layers {
    /// Layers at the start, before the `ConfigMap` is known.
    #[must_use]
    pub fn new(flags: BTreeMap<&'static Setting, String>, environment: &dyn Environment) -> Self {
        let variable = |key: &Setting| key.variables().find_map(|name| environment.get(&name));
        let environment = table::keys().filter_map(|key| Some((key, variable(key)?))).collect();
        Self { flags, environment, config_map: None, copied: BTreeSet::new() }
    }

    /// Hears what the `ConfigMap` says now. The first time, a variable with the same value is known to be a copy of it.
    #[must_use]
    pub fn with_config_map(&self, data: Data) -> Self {
        let mut layers = self.clone();
        if self.config_map.is_none() {
            let same = |(key, value): &(&&'static Setting, &String)| {
                key.from == From::Anyone && named(&data, key) == Some(value.as_str())
            };
            let copied = self.environment.iter().filter(same).map(|(key, _)| *key);
            layers.copied = copied.collect();
        }
        layers.config_map = Some(data);
        layers
    }

    /// Value in effect for each key.
    #[must_use]
    pub fn values(&self) -> Values {
        table::keys().map(|key| (key, self.value(key))).collect()
    }

    fn value(&self, key: &'static Setting) -> SettingValue {
        let of = |origin| move |text: &str| SettingValue { text: text.to_owned(), origin };
        let flag = || self.flags.get(key).map(String::as_str).map(of(Origin::Flag));
        let config_map = || {
            let data = self.config_map.as_ref().filter(|_| key.from == From::Anyone)?;
            named(data, key).map(of(Origin::ConfigMap))
        };
        let environment = || {
            let own = self.environment.get(key).filter(|_| !self.copied.contains(key));
            own.map(String::as_str).map(of(Origin::Environment))
        };
        let spoken = flag().or_else(config_map).or_else(environment);
        spoken.unwrap_or_else(|| of(Origin::Default)(key.default))
    }
}

/// Value of a key in the data.
fn named<'a>(data: &'a Data, key: &Setting) -> Option<&'a str> {
    key.variables().find_map(|name| data.get(&name).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use manifests::table::{EXCLUDE_NAMESPACES, NODE, OWNED_NAME, REPAIR, SERVICE_HOST};

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn of(layers: &Layers, key: &'static Setting) -> (String, Origin) {
        let value = layers.values()[key].clone();
        (value.text, value.origin)
    }

    fn said(text: &str, origin: Origin) -> (String, Origin) {
        (text.to_owned(), origin)
    }

    #[test]
    fn flag_then_config_map_then_environment_then_default() {
        let environment = map(&[("EXCLUDE_NAMESPACES", "e")]);
        let flags = BTreeMap::from([(&EXCLUDE_NAMESPACES, "f".to_owned())]);
        let data = map(&[("EXCLUDE_NAMESPACES", "c")]);
        let nobody = Layers::default();
        assert_eq!(of(&nobody, &EXCLUDE_NAMESPACES), said("", Origin::Default));
        assert_eq!(of(&nobody, &REPAIR), said("true", Origin::Default));
        let layers = Layers::new(BTreeMap::new(), &environment);
        assert_eq!(of(&layers, &EXCLUDE_NAMESPACES), said("e", Origin::Environment));
        let layers = layers.with_config_map(data.clone());
        assert_eq!(of(&layers, &EXCLUDE_NAMESPACES), said("c", Origin::ConfigMap));
        let layers = Layers::new(flags, &environment).with_config_map(data);
        assert_eq!(of(&layers, &EXCLUDE_NAMESPACES), said("f", Origin::Flag));
    }

    #[test]
    fn a_variable_that_is_set_to_nothing_is_set() {
        let layers = Layers::new(BTreeMap::new(), &map(&[("REPAIR_ENABLED", "")]));
        assert_eq!(of(&layers, &REPAIR), said("", Origin::Environment));
        let layers = layers.with_config_map(map(&[("REPAIR_ENABLED", "")]));
        assert_eq!(of(&layers, &REPAIR), said("", Origin::ConfigMap));
    }

    #[test]
    fn the_kubelets_copy_goes_with_the_key_that_it_copied() {
        let environment = map(&[("EXCLUDE_NAMESPACES", "a"), ("REPAIR_ENABLED", "false")]);
        let layers = Layers::new(BTreeMap::new(), &environment);
        let layers = layers.with_config_map(map(&[("EXCLUDE_NAMESPACES", "a"), ("REPAIR_ENABLED", "true")]));
        let layers = layers.with_config_map(map(&[("EXCLUDE_NAMESPACES", "b")]));
        assert_eq!(of(&layers, &EXCLUDE_NAMESPACES), said("b", Origin::ConfigMap));
        assert_eq!(of(&layers, &REPAIR), said("false", Origin::Environment), "the pod says that itself");
        let layers = layers.with_config_map(Data::new());
        assert_eq!(of(&layers, &EXCLUDE_NAMESPACES), said("", Origin::Default), "the copy is stale");
    }

    #[test]
    fn what_the_config_map_cannot_say_is_no_copy_of_it() {
        let chart = map(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
        let layers = Layers::new(BTreeMap::new(), &chart).with_config_map(chart);
        assert_eq!(of(&layers, &SERVICE_HOST), said("10.0.0.1", Origin::Environment));
    }

    #[test]
    fn the_ordinary_spelling_wins_in_its_layer() {
        let chart = ("ISTIO_OWNED_CNI_CONF_FILENAME", "chart");
        let layers = Layers::new(BTreeMap::new(), &map(&[chart]));
        assert_eq!(of(&layers, &OWNED_NAME), said("chart", Origin::Environment));
        let both = map(&[chart, ("ISTIO_OWNED_CNI_CONFIG_FILENAME", "upstream")]);
        assert_eq!(of(&layers.with_config_map(both), &OWNED_NAME), said("upstream", Origin::ConfigMap));
    }

    #[test]
    fn the_config_map_does_not_say_which_node_this_is() {
        let layers = Layers::new(BTreeMap::new(), &map(&[("NODE_NAME", "n1")]));
        let layers = layers.with_config_map(map(&[("NODE_NAME", "n2")]));
        assert_eq!(of(&layers, &NODE), said("n1", Origin::Environment));
    }
}
