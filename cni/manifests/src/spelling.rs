// SPDX-License-Identifier: Apache-2.0
//! `cni.x` and `x` are one value. Both may be given if they are equal.

use serde_json::{Map, Value};

use crate::mistake::{GivenValue, Mistake, Mistakes};

/// Prefix of charts up to 1.23.
pub(crate) const PREFIX: &str = "cni";

/// The values with every `cni.x` as `x`.
///
/// # Errors
/// Values that are given twice and differ.
pub fn one(user: &Value) -> Result<Value, Mistakes> {
    let mut root = user.clone();
    let prefixed = root.as_object_mut().and_then(|map| map.remove(PREFIX));
    let mut mistakes = Mistakes::default();
    match prefixed {
        None => {}
        Some(Value::Object(map)) => {
            if root.is_null() {
                root = Value::Object(Map::new());
            }
            move_in(&mut root, Value::Object(map), "", &mut mistakes);
        }
        Some(other) => mistakes
            .0
            .push(Mistake::Wrong { given: GivenValue::new(PREFIX, other), wanted: "a map".to_owned() }),
    }
    mistakes.none().map(|()| root)
}

fn move_in(root: &mut Value, prefixed: Value, at: &str, mistakes: &mut Mistakes) {
    match (root, prefixed) {
        (Value::Object(root), Value::Object(prefixed)) => {
            for (key, value) in prefixed {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                match root.get_mut(&key) {
                    Some(there) => move_in(there, value, &path, mistakes),
                    None => drop(root.insert(key, value)),
                }
            }
        }
        (root, prefixed) if *root == prefixed => {}
        (root, prefixed) => mistakes.0.push(Mistake::Both {
            one: GivenValue::new(at, root.clone()),
            other: GivenValue::new(format!("{PREFIX}.{at}"), prefixed),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_spellings_are_one_value() {
        let user = json!({"cni": {"chained": false, "repair": {"enabled": true}}, "repair": {"labelPods": true}, "chained": false});
        let want = json!({"chained": false, "repair": {"enabled": true, "labelPods": true}});
        assert_eq!(one(&user).unwrap(), want);
    }

    #[test]
    fn spellings_that_differ_are_named_both() {
        let user = json!({"cni": {"chained": false, "repair": {"enabled": true}}, "repair": {"enabled": false}, "chained": true});
        let error = one(&user).unwrap_err().to_string();
        let want = "chained: true and cni.chained: false are one value: give it once\n\
                    repair.enabled: false and cni.repair.enabled: true are one value: give it once";
        assert_eq!(error, want);
    }
}
