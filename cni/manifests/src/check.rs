// SPDX-License-Identifier: Apache-2.0
//! Checks what an operator gives against the table of fields, all of it at once.

use serde_json::Value;

use crate::layers::Family;
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::place::KeyPrefix;
use crate::setting::{Kind, Setting};
use crate::table;

/// The part that other charts read as well: what we do not know there is not ours.
const SHARED: &str = "global";

/// Checks values (each in the spelling without `cni.`) and takes out what is not ours to know.
///
/// # Errors
/// Every unknown key and every value that its field cannot hold.
pub fn check(values: &mut Value, place: KeyPrefix) -> Result<(), Mistakes> {
    let mut mistakes = Mistakes::default();
    if !values.is_object() {
        let name = place.0.trim_end_matches('.').to_owned();
        let given = GivenValue { field: name, value: values.clone() };
        return Err(Mistake::Wrong { given, wanted: Kind::Open.wanted() }.into());
    }
    walk(values, "", place, &mut mistakes);
    mistakes.none()
}

fn walk(values: &mut Value, at: &str, place: KeyPrefix, mistakes: &mut Mistakes) {
    let Value::Object(map) = values else { return };
    map.retain(|key, value| {
        let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        let given = || GivenValue { field: place.name(&path), value: value.clone() };
        match table::find(&path) {
            Some(Setting { kind: Kind::Elsewhere, .. }) => return false,
            Some(field) if field.kind.holds(value) => {
                let named = Family::of(&path).zip(value.as_str().filter(|name| !name.is_empty()));
                mistakes.0.extend(named.and_then(|(family, name)| family.unknown(name, given)));
                if field.kind == Kind::TextMap {
                    to_texts(value);
                }
            }
            Some(field) => mistakes.0.push(Mistake::Wrong { given: given(), wanted: field.kind.wanted() }),
            None if is_group(&path) && value.is_object() => walk(value, &path, place, mistakes),
            None if is_group(&path) => {
                mistakes.0.push(Mistake::Wrong { given: given(), wanted: Kind::Open.wanted() });
            }
            None if path.starts_with("global.") => return false,
            None if RESERVED.contains(&path.as_str()) => {
                let instead = "set the value itself, at the root";
                mistakes.0.push(Mistake::Reserved { field: given().field, instead });
            }
            None => mistakes.0.push(Mistake::Unknown { given: given(), nearest: nearest(&path) }),
        }
        true
    });
}

/// Numbers and truth values in a map of texts are texts, as in upstream's charts.
fn to_texts(map: &mut Value) {
    let whole = |value: &Value| value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15);
    for value in map.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        let text = match value {
            Value::Number(number) if number.is_f64() => whole(value).map(|number| format!("{number:.0}")),
            Value::String(_) => continue,
            _ => None,
        };
        *value = text.unwrap_or_else(|| value.to_string()).into();
    }
}

/// Keys of the chart itself.
const RESERVED: [&str; 2] = ["_internal_defaults_do_not_set", "defaults"];

/// True if the path is a group of values.
fn is_group(path: &str) -> bool {
    path == SHARED
        || table::ALL
            .iter()
            .any(|field| field.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The known path that differs least, if it differs little. A last key that is the same counts as near, too: it stands at another place.
fn nearest(path: &str) -> Option<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let ours = || table::values().filter(|field| field.kind != Kind::Elsewhere).map(|field| field.path);
    if let Some(near) = closest(path, ours()) {
        return Some(near.to_owned());
    }
    ours().find(|known| last(known) == last(path)).map(str::to_owned)
}

/// Nearest known word, if it is near.
pub(crate) fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_ascii_lowercase();
    let (least, near) = known.map(|known| (distance(&lower, &known.to_ascii_lowercase()), known)).min()?;
    (least <= 2.max(word.len() / 4)).then_some(near)
}

/// Levenshtein distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mistakes(mut values: Value) -> Vec<String> {
        match check(&mut values, KeyPrefix("values.")) {
            Ok(()) => Vec::new(),
            Err(mistakes) => mistakes.0.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (one, other, want) in
            [("", "abc", 3), ("kitten", "sitting", 3), ("chained", "chained", 0), ("ab", "ba", 2)]
        {
            assert_eq!(distance(one, other), want, "{one} {other}");
        }
    }

    #[test]
    fn every_mistake_is_told_with_its_field_and_value() {
        let wrong = json!({
            "chaind": true, "chained": "yes", "cniBinDir": "opt", "provider": "calico", "repair": {"enable": 1},
            "taint": [], "env": {"A": [1]}, "defaults": {}, "enabled": {"x": 1},
        });
        assert_eq!(
            mistakes(wrong),
            [
                r#"values.chaind: true: there is no such value; did you mean chained?"#,
                r#"values.chained: "yes": must be true or false"#,
                r#"values.cniBinDir: "opt": must be an absolute path, or """#,
                r#"values.defaults: not to be set; set the value itself, at the root"#,
                r#"values.enabled: {"x":1}: must be true or false"#,
                r#"values.env: {"A":[1]}: must be a map of texts"#,
                r#"values.provider: "calico": must be one of "default", "multus""#,
                r#"values.repair.enable: 1: there is no such value; did you mean repair.enabled?"#,
                r#"values.taint: []: must be a map"#,
            ]
        );
    }

    #[test]
    fn what_is_not_ours_is_taken_out() {
        let mut values = json!({"global": {"hub": "h", "meshID": "m", "proxy": {}}, "pilot": {"x": 1}, "affinity": {"any": [1]}});
        check(&mut values, KeyPrefix("")).unwrap();
        assert_eq!(values, json!({"global": {"hub": "h"}, "affinity": {"any": [1]}}));
    }
}
