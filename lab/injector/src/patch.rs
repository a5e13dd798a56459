// SPDX-License-Identifier: Apache-2.0
//! The difference of two documents as a JSON patch (RFC 6902). Lists differ as a whole.

use serde_json::{Value, json};

pub(crate) fn between(old: &Value, new: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    differ(old, new, "", &mut operations);
    operations
}

fn differ(old: &Value, new: &Value, path: &str, operations: &mut Vec<Value>) {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        if old != new {
            operations.push(json!({ "op": "replace", "path": path, "value": new }));
        }
        return;
    };
    let below = |key: &str| format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
    for (key, value) in after {
        match before.get(key) {
            Some(old) => differ(old, value, &below(key), operations),
            None => operations.push(json!({ "op": "add", "path": below(key), "value": value })),
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        operations.push(json!({ "op": "remove", "path": below(key) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_added_and_what_is_gone_removed() {
        let old = json!({ "a": { "x/y": 1, "z~": 2 }, "list": [1], "same": { "q": 1 } });
        let new = json!({ "a": { "x/y": 3 }, "list": [1, 2], "same": { "q": 1 }, "b": {} });
        let expected = json!([
            { "op": "replace", "path": "/a/x~1y", "value": 3 },
            { "op": "remove", "path": "/a/z~0" },
            { "op": "add", "path": "/b", "value": {} },
            { "op": "replace", "path": "/list", "value": [1, 2] },
        ]);
        assert_eq!(json!(between(&old, &new)), expected);
        assert!(between(&old, &old).is_empty());
    }
}
