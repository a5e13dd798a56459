// SPDX-License-Identifier: Apache-2.0
//! Lists of taints, and the patch that makes one of another. Nobody else's taint is ever changed: the patch holds only while the list is
//! still the one that was read, to the letter.

use serde_json::{Value, json};

use crate::metrics::Deed;

/// Effect of our taint.
const EFFECT: &str = "NoSchedule";

/// True if a taint of this key exists, whatever its effect and value.
#[must_use]
pub fn has(taints: Option<&[Value]>, key: &str) -> bool {
    taints.into_iter().flatten().any(|taint| taint["key"] == key)
}

/// The list after the change.
#[must_use]
pub fn after(taints: Option<&[Value]>, key: &str, deed: Deed) -> Vec<Value> {
    let mut list = taints.unwrap_or_default().to_vec();
    match deed {
        Deed::Remove => list.retain(|taint| taint["key"] != key),
        Deed::Add => list.push(json!({"key": key, "effect": EFFECT})),
    }
    list
}

/// JSON patch on a node whose list was read as `taints`.
#[must_use]
pub fn patch(taints: Option<&[Value]>, key: &str, deed: Deed) -> Value {
    const PATH: &str = "/spec/taints";
    let wanted = after(taints, key, deed);
    // A value that is not there is equal to null, and only `add` makes one.
    let write =
        json!({"op": if taints.is_some() { "replace" } else { "add" }, "path": PATH, "value": wanted});
    json!([{"op": "test", "path": PATH, "value": taints}, write])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> Vec<Value> {
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect, "value": "v"});
        vec![
            taint("a", "NoSchedule"),
            taint("ours", "NoExecute"),
            taint("ours", "NoSchedule"),
            taint("b", "NoExecute"),
        ]
    }

    #[test]
    fn every_taint_of_the_key_goes_and_no_other() {
        let before = list();
        assert_eq!(after(Some(&before), "ours", Deed::Remove), [before[0].clone(), before[3].clone()]);
        assert_eq!(after(Some(&before[1..3]), "ours", Deed::Remove), [Value::Null; 0]);
        assert!(has(Some(&before), "ours") && !has(Some(&before), "our") && !has(None, "ours"));
    }

    #[test]
    fn one_that_is_added_comes_last() {
        let added = json!({"key": "ours", "effect": "NoSchedule"});
        assert_eq!(after(Some(&list()[..1]), "ours", Deed::Add), [list()[0].clone(), added.clone()]);
        assert_eq!(after(None, "ours", Deed::Add), [added]);
    }

    #[test]
    fn a_patch_holds_for_the_list_that_was_read() {
        let before = list();
        let patch_of_some = patch(Some(&before), "ours", Deed::Remove);
        assert_eq!(patch_of_some[0], json!({"op": "test", "path": "/spec/taints", "value": before}));
        assert_eq!(patch_of_some[1]["op"], "replace");
        let patch_of_none = patch(None, "ours", Deed::Add);
        assert_eq!(patch_of_none[0], json!({"op": "test", "path": "/spec/taints", "value": null}));
        assert_eq!(patch_of_none[1]["op"], "add");
        assert_eq!(patch(Some(&[]), "ours", Deed::Add)[1]["op"], "replace");
    }
}
