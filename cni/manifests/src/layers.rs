// SPDX-License-Identifier: Apache-2.0
//! Layers of values, one over the other: the defaults and what the chart's files say of platforms, profiles and releases.

use serde_json::{Map, Value};

use crate::mistake::{GivenValue, Mistake};
use crate::setting::Kind;
use crate::spelling;
use crate::table;

/// A family of the chart's files; an installation takes one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// `files/platform-*.yaml`
    Platform,
    /// `files/profile-*.yaml`
    Profile,
    /// `files/compat-*.yaml`
    Compat,
}

macro_rules! files {
    ($family:literal, $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../chart/files/", $family, "-", $name, ".yaml")))),*]
    };
}

const PLATFORMS: &[(&str, &str)] =
    files!("platform", "gke" "huawei-cce" "k3d" "k3s" "microk8s" "minikube" "openshift");
const PROFILES: &[(&str, &str)] =
    files!("profile", "ambient" "default" "demo" "empty" "minimal" "preview" "remote" "stable");
const COMPATS: &[(&str, &str)] = files!("compat", "1.26" "1.27" "1.28" "1.29" "1.30" "1.31");

impl Family {
    fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Platform => PLATFORMS,
            Self::Profile => PROFILES,
            Self::Compat => COMPATS,
        }
    }

    /// Value that selects one.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Profile => "profile",
            Self::Compat => "compatibilityVersion",
        }
    }

    /// Family whose selecting value is at a path, at the root or in `global`.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let path = path.strip_prefix("global.").unwrap_or(path);
        [Self::Platform, Self::Profile, Self::Compat].into_iter().find(|family| family.field() == path)
    }

    /// Error of an unknown name.
    pub fn unknown(self, name: &str, given: impl FnOnce() -> GivenValue) -> Option<Mistake> {
        let is_known = self.names().any(|known| known == name);
        (!is_known).then(|| Mistake::Name { given: given(), known: self.names().collect() })
    }

    /// Known names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.files().iter().map(|(name, _)| *name)
    }

    /// Values of one; `None` if unknown.
    #[must_use]
    pub fn layer(self, name: &str) -> Option<Value> {
        let (_, text) = self.files().iter().find(|(known, _)| *known == name)?;
        let values: Value = serde_saphyr::from_str(text).ok()?;
        Some(if values.is_null() { Value::Object(Map::new()) } else { values })
    }
}

/// Defaults of all values that are read.
#[must_use]
pub fn defaults() -> Value {
    let mut all = Value::Object(Map::new());
    for field in table::values().filter(|field| field.kind != Kind::Elsewhere) {
        put(&mut all, field.path, field.default_value());
    }
    all
}

/// Sets the value at a path; creates maps on the way.
pub fn put(all: &mut Value, path: &str, value: Value) {
    let mut at = all;
    for key in path.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[key];
    }
    *at = value;
}

#[must_use]
pub fn get<'a>(all: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(all, |at, key| at.get(key))
}

/// Puts one layer over another: maps are merged, everything else is replaced.
pub fn overlay(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                overlay(below.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above.clone(),
    }
}

/// Open maps that have defaults: the only ones with entries to take out.
const OPEN: [&str; 2] = ["resources", "updateStrategy"];

/// Applies what null says in an operator's values: it empties a list, takes an entry out of an open map once the map is over its defaults
/// ([`take_out`]), and anywhere else says nothing.
pub fn settle_null(user: &mut Value) {
    settle(user, &defaults(), false);
}

fn settle(value: &mut Value, defaults: &Value, is_open: bool) {
    let Value::Object(map) = value else { return };
    map.retain(|key, value| {
        let below = if key == spelling::PREFIX { Some(defaults) } else { defaults.get(key) };
        match (&*value, below) {
            (Value::Null, Some(Value::Array(_))) => *value = Value::Array(Vec::new()),
            (Value::Null, _) => return is_open,
            (_, below) => {
                let opens = below.is_some_and(Value::is_object) && OPEN.contains(&key.as_str());
                settle(value, below.unwrap_or(&Value::Null), is_open || opens);
            }
        }
        true
    });
}

/// Takes out the entries of open maps that are null, of merged layers.
pub fn take_out(merged: &mut Value) {
    for key in OPEN {
        merged.get_mut(key).map(without_null);
    }
}

fn without_null(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn maps_merge_and_lists_are_replaced() {
        let mut below = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        overlay(&mut below, &json!({"a": {"c": [3]}, "d": {"e": 1}}));
        assert_eq!(below, json!({"a": {"b": 1, "c": [3]}, "d": {"e": 1}}));
    }

    #[test]
    fn null_empties_a_list_stays_in_an_open_map_and_says_nothing_elsewhere() {
        let given = json!({
            "tolerations": null, "resources": {"requests": {"cpu": null}}, "updateStrategy": null, "podLabels": {"a": null},
            "repair": {"enabled": null, "resources": {"a": null}}, "taint": {"tolerations": null}, "pilot": {"x": null},
        });
        let settled = json!({
            "tolerations": [], "resources": {"requests": {"cpu": null}}, "podLabels": {},
            "repair": {"resources": {}}, "taint": {"tolerations": []}, "pilot": {},
        });
        for (mut given, settled) in
            [(given.clone(), settled.clone()), (json!({"cni": given}), json!({"cni": settled}))]
        {
            settle_null(&mut given);
            assert_eq!(given, settled);
        }
    }

    #[test]
    fn open_maps_with_defaults_are_those_of_the_table_and_of_the_template() {
        let open = table::values().filter(|field| field.kind == Kind::Open);
        let with_defaults = open.filter(|field| field.default_value() != json!({})).map(|field| field.path);
        assert_eq!(with_defaults.collect::<Vec<_>>(), OPEN);
        let template = include_str!("../../chart/templates/_values.tpl");
        let list = format!("{{{{- list {} | toJson -}}}}", OPEN.map(|key| format!("\"{key}\"")).join(" "));
        assert!(template.contains(&list), "{list}");
    }

    #[test]
    fn every_file_of_the_chart_is_known_and_no_other() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../chart/files");
        let mut there: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| {
                name.ends_with(".yaml") && !["defaults.yaml", "settings.yaml"].contains(&name.as_str())
            })
            .collect();
        there.sort();
        let families =
            [("compat", Family::Compat), ("platform", Family::Platform), ("profile", Family::Profile)];
        let known: Vec<String> = families
            .iter()
            .flat_map(|(word, family)| family.names().map(move |name| format!("{word}-{name}.yaml")))
            .collect();
        assert_eq!(there, known);
    }

    #[test]
    fn programs_of_the_node_know_every_platforms_directories() {
        let platforms = Family::Platform.names().filter_map(|name| Family::Platform.layer(name));
        for values in platforms.chain([defaults()]) {
            for (path, known) in [
                ("cniConfDir", protocol::directories::NET_DIRS.as_slice()),
                ("cniBinDir", protocol::directories::BIN_DIRS.as_slice()),
            ] {
                let said = get(&values, path).and_then(Value::as_str);
                assert!(said.is_none_or(|said| known.contains(&said)), "{path}: {said:?}");
            }
        }
    }

    fn tree() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..9u8).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| json!(map))
        })
    }

    fn leaves(at: &str, value: &Value) -> Vec<(String, Value)> {
        match value.as_object().filter(|map| !map.is_empty()) {
            None => vec![(at.to_owned(), value.clone())],
            Some(map) => map.iter().flat_map(|(key, value)| leaves(&format!("{at}{key}."), value)).collect(),
        }
    }

    proptest! {
        #[test]
        fn the_upper_layer_always_wins(mut below in tree(), above in tree()) {
            overlay(&mut below, &above);
            for (path, value) in leaves("", &above).into_iter().filter(|(_, value)| !value.is_object()) {
                let found = match path.trim_end_matches('.') {
                    "" => Some(&below),
                    path => get(&below, path),
                };
                prop_assert_eq!(found, Some(&value));
            }
        }

        #[test]
        fn a_layer_over_itself_changes_nothing(value in tree()) {
            let mut twice = value.clone();
            overlay(&mut twice, &value);
            prop_assert_eq!(twice, value);
        }
    }
}
