// SPDX-License-Identifier: Apache-2.0
//! Objects of a product that somebody rendered beforehand, and the places in them of what scenarios set.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Annotation of an object that is applied only if ConfigMaps say so: `KEY=VALUE`, separated by blanks.
const WHEN: &str = "cnilab.millrace.dev/when";

/// Objects that deploy a node agent, with the names of upstream's chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// In the order in which they are applied.
    pub all: Vec<Value>,
    /// Places of settings, by the value of the chart that a scenario speaks of: `KIND/NAME/path/of/the/field`. In a list, an element is found by
    /// its `name`.
    pub settings: BTreeMap<String, String>,
    /// Files and directories of the machine that its image has. Those that this machine lacks are left out.
    pub image: Vec<PathBuf>,
}

/// A value of the chart that the product has no setting for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking(pub String);

impl Objects {
    /// The objects with a scenario's values.
    ///
    /// # Errors
    /// The product has no setting for one of them.
    pub fn with(&self, values: &Value) -> Result<Vec<Value>, Lacking> {
        let mut all = self.all.clone();
        self.put("", values, &mut all)?;
        let said: Map<_, _> =
            all.iter().filter_map(|object| object["data"].as_object().cloned()).flatten().collect();
        all.retain(|object| {
            let when = object["metadata"]["annotations"][WHEN].as_str().unwrap_or_default();
            let holds = |(key, value): (&str, &str)| said.get(key).is_some_and(|said| said == value);
            when.split_whitespace().all(|word| word.split_once('=').is_some_and(holds))
        });
        Ok(all)
    }

    fn put(&self, path: &str, value: &Value, all: &mut [Value]) -> Result<(), Lacking> {
        if let Some(place) = self.settings.get(path) {
            let (field, is_text) = find(all, place).ok_or_else(|| Lacking(path.to_owned()))?;
            set(field, value, is_text);
            return Ok(());
        }
        let fields = value.as_object().filter(|fields| path.is_empty() || !fields.is_empty());
        for (key, value) in fields.ok_or_else(|| Lacking(path.to_owned()))? {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.put(&path, value, all)?;
        }
        Ok(())
    }

    /// Places that lead nowhere.
    #[must_use]
    pub fn lost(&self) -> Vec<&str> {
        let mut all = self.all.clone();
        let places = self.settings.values().map(String::as_str);
        places.filter(|place| find(&mut all, place).is_none()).collect()
    }
}

/// A field of an object, made if only its last name is missing; true if all that is there is text.
fn find<'a>(all: &'a mut [Value], place: &str) -> Option<(&'a mut Value, bool)> {
    let mut names = place.split('/');
    let (kind, name) = (names.next()?, names.next()?);
    let object =
        all.iter_mut().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)?;
    let names: Vec<_> = names.collect();
    let (last, before) = names.split_last()?;
    let parent = before.iter().try_fold(object, |value, name| match value {
        Value::Object(fields) => fields.get_mut(*name),
        Value::Array(list) => list.iter_mut().find(|element| element["name"] == **name),
        _ => None,
    })?;
    Some((parent.as_object_mut()?.entry(*last).or_insert(Value::Null), kind == "ConfigMap"))
}

/// Sets a field; a group of fields keeps those that are not set.
fn set(field: &mut Value, value: &Value, is_text: bool) {
    match value {
        Value::Object(fields) => {
            if !field.is_object() {
                *field = Value::Object(Map::new());
            }
            for (name, value) in fields {
                set(&mut field[name], value, is_text);
            }
        }
        value if is_text => *field = Value::from(text(value)),
        value => *field = value.clone(),
    }
}

/// As variables have it: elements of a list are separated by commas.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects() -> Objects {
        let map = json!({ "kind": "ConfigMap", "metadata": { "name": "conf" }, "data": { "REPAIR_ENABLED": "true" } });
        let volume = json!({ "name": "net", "hostPath": { "path": "/a" } });
        let set =
            json!({ "kind": "DaemonSet", "metadata": { "name": "node" }, "spec": { "volumes": [volume] } });
        let settings = [
            ("repair.enabled", "ConfigMap/conf/data/REPAIR_ENABLED"),
            ("exclude", "ConfigMap/conf/data/EXCLUDE"),
            ("env", "ConfigMap/conf/data"),
            ("dir", "DaemonSet/node/spec/volumes/net/hostPath/path"),
        ];
        let settings = settings.map(|(path, place)| (path.to_owned(), place.to_owned())).into();
        Objects { all: vec![map, set], settings, image: Vec::new() }
    }

    #[test]
    fn values_get_to_their_places_and_a_map_of_text_has_text() {
        let values =
            json!({ "repair": { "enabled": false }, "exclude": ["a", "b"], "env": { "X": 7 }, "dir": "/b" });
        let all = objects().with(&values).unwrap();
        assert_eq!(all[0]["data"], json!({ "REPAIR_ENABLED": "false", "EXCLUDE": "a,b", "X": "7" }));
        assert_eq!(all[1]["spec"]["volumes"][0]["hostPath"]["path"], "/b");
        assert_eq!(objects().with(&json!({})).unwrap(), objects().all);
    }

    #[test]
    fn an_object_with_a_condition_is_there_when_it_holds() {
        let mut objects = objects();
        let when = json!({ WHEN: "REPAIR_ENABLED=true EXCLUDE=a" });
        objects.all.push(json!({ "kind": "Role", "metadata": { "name": "r", "annotations": when } }));
        let count = |exclude: &str| objects.with(&json!({ "exclude": exclude })).unwrap().len();
        assert_eq!((count("a"), count("b")), (3, 2));
    }

    #[test]
    fn a_value_without_a_setting_is_named() {
        let lacking = |values: Value| objects().with(&values).unwrap_err().0;
        assert_eq!(lacking(json!({ "repair": { "fallback": "delete" } })), "repair.fallback");
        assert_eq!(lacking(json!({ "hostNetwork": true })), "hostNetwork");
        assert_eq!(lacking(json!({ "affinity": {} })), "affinity");
    }

    #[test]
    fn a_place_that_leads_nowhere_is_told() {
        let mut objects = objects();
        assert!(objects.lost().is_empty());
        for (path, place) in
            [("x", "Secret/conf/data/X"), ("y", "DaemonSet/node/spec/volumes/other/hostPath/path")]
        {
            objects.settings.insert(path.to_owned(), place.to_owned());
        }
        assert_eq!(objects.lost().len(), 2);
    }
}
