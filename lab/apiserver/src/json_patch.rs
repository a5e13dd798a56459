// SPDX-License-Identifier: Apache-2.0
//! JSON patches (RFC 6902): all operations or none.

use serde_json::Value;

use crate::error::ApiError;

/// Applies every operation in order. The caller throws the document away if one fails.
pub(super) fn apply(document: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let unreadable = || ApiError::BadRequest("a JSON patch must be a list of operations".to_owned());
    for operation in patch.as_array().ok_or_else(unreadable)? {
        if !operation.is_object() {
            return Err(unreadable());
        }
        operate(document, operation).ok_or(ApiError::Rejected)?;
    }
    Ok(())
}

/// `None` if the operation is unknown or does not fit the document.
fn operate(document: &mut Value, operation: &Value) -> Option<()> {
    let path = Pointer::of(operation["path"].as_str()?)?;
    let from = || Pointer::of(operation["from"].as_str()?);
    match operation["op"].as_str()? {
        "test" => path
            .find(document)
            .map_or(operation["value"].is_null(), |found| *found == operation["value"])
            .then_some(()),
        "add" => path.add(document, operation.get("value")?.clone()),
        "replace" => {
            let value = operation.get("value")?.clone();
            path.replace(document, value)
        }
        "remove" => path.remove(document).map(drop),
        "move" => {
            let value = from()?.remove(document)?;
            path.add(document, value)
        }
        "copy" => {
            let value = from()?.find(document)?.clone();
            path.add(document, value)
        }
        _ => None,
    }
}

/// A JSON pointer, split at its last step.
struct Pointer {
    parent: String,
    /// `None` for the whole document.
    last: Option<String>,
}

impl Pointer {
    fn of(pointer: &str) -> Option<Self> {
        if pointer.is_empty() {
            return Some(Self { parent: String::new(), last: None });
        }
        let (parent, last) = pointer.rsplit_once('/')?;
        let whole = parent.is_empty() || parent.starts_with('/');
        whole.then(|| Self {
            parent: parent.to_owned(),
            last: Some(last.replace("~1", "/").replace("~0", "~")),
        })
    }

    fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        let parent = document.pointer(&self.parent)?;
        match (&self.last, parent) {
            (None, whole) => Some(whole),
            (Some(last), Value::Object(map)) => map.get(last),
            (Some(last), Value::Array(list)) => list.get(index(last)?),
            _ => None,
        }
    }

    /// As the real server's library has it, a field of a map need not be there.
    fn replace(&self, document: &mut Value, value: Value) -> Option<()> {
        match document.pointer_mut(&self.parent)? {
            Value::Array(list) => *list.get_mut(index(self.last.as_ref()?)?)? = value,
            _ => self.add(document, value)?,
        }
        Some(())
    }

    fn add(&self, document: &mut Value, value: Value) -> Option<()> {
        let parent = document.pointer_mut(&self.parent)?;
        match (&self.last, parent) {
            (None, whole) => *whole = value,
            (Some(last), Value::Object(map)) => drop(map.insert(last.clone(), value)),
            (Some(last), Value::Array(list)) if last == "-" => list.push(value),
            (Some(last), Value::Array(list)) => {
                let place = index(last).filter(|place| *place <= list.len())?;
                list.insert(place, value);
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(&self, document: &mut Value) -> Option<Value> {
        let parent = document.pointer_mut(&self.parent)?;
        match (&self.last, parent) {
            (Some(last), Value::Object(map)) => map.remove(last),
            (Some(last), Value::Array(list)) => {
                let place = index(last).filter(|place| *place < list.len())?;
                Some(list.remove(place))
            }
            _ => None,
        }
    }
}

/// An index without a sign or leading zeroes.
fn index(text: &str) -> Option<usize> {
    let plain = text == "0" || !text.starts_with(['0', '+', '-']);
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::error::ApiError;
    use crate::patch::{PatchKind, patched};

    fn apply(patch: &Value) -> Result<Value, ApiError> {
        let object = json!({"metadata": {"labels": {"a/b": "1", "c~d": "2"}}, "list": ["x", "y"], "t": true});
        patched(&object, patch, PatchKind::Json)
    }

    #[test]
    fn each_operation_does_what_its_name_says() {
        let cases = [
            (json!([{"op": "test", "path": "/metadata/labels/a~1b", "value": "1"}]), "/t", json!(true)),
            (json!([{"op": "test", "path": "/gone", "value": null}]), "/t", json!(true)),
            (
                json!([{"op": "add", "path": "/metadata/labels/e", "value": "3"}]),
                "/metadata/labels/e",
                json!("3"),
            ),
            (json!([{"op": "add", "path": "/list/-", "value": "z"}]), "/list", json!(["x", "y", "z"])),
            (json!([{"op": "add", "path": "/list/1", "value": "z"}]), "/list", json!(["x", "z", "y"])),
            (json!([{"op": "replace", "path": "/list/0", "value": 1}]), "/list", json!([1, "y"])),
            (
                json!([{"op": "remove", "path": "/metadata/labels/c~0d"}]),
                "/metadata/labels",
                json!({"a/b": "1"}),
            ),
            (json!([{"op": "remove", "path": "/list/0"}]), "/list", json!(["y"])),
            (json!([{"op": "move", "from": "/list/0", "path": "/list/1"}]), "/list", json!(["y", "x"])),
            (json!([{"op": "copy", "from": "/t", "path": "/list/0"}]), "/list", json!([true, "x", "y"])),
        ];
        for (patch, pointer, expected) in cases {
            assert_eq!(apply(&patch).unwrap().pointer(pointer), Some(&expected), "{patch}");
        }
    }

    #[test]
    fn one_that_does_not_fit_rejects_the_whole_patch() {
        for operation in [
            json!({"op": "test", "path": "/t", "value": false}),
            json!({"op": "test", "path": "/gone", "value": 1}),
            json!({"op": "replace", "path": "/gone/x", "value": 1}),
            json!({"op": "replace", "path": "/list/2", "value": 1}),
            json!({"op": "remove", "path": "/gone"}),
            json!({"op": "remove", "path": "/list/2"}),
            json!({"op": "add", "path": "/gone/x", "value": 1}),
            json!({"op": "add", "path": "/list/3", "value": 1}),
            json!({"op": "add", "path": "/list/01", "value": 1}),
            json!({"op": "add", "path": "t", "value": 1}),
            json!({"op": "move", "from": "/gone", "path": "/t"}),
            json!({"op": "invent", "path": "/t"}),
            json!({"op": "add", "path": "/t"}),
        ] {
            let patch = json!([{"op": "add", "path": "/new", "value": 1}, operation]);
            assert_eq!(apply(&patch), Err(ApiError::Rejected), "{patch}");
        }
        assert!(matches!(apply(&json!(["x"])), Err(ApiError::BadRequest(_))));
    }
}
