// SPDX-License-Identifier: Apache-2.0
//! Calls recorded with their answers: `cases.json` from upstream's plugin, `decoding.json` from the CNI project's Go
//! library. Where the recording says 999, "some Go error", any of our codes will do.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::call;

#[derive(Deserialize)]
struct Case {
    note: String,
    env: BTreeMap<String, String>,
    stdin: String,
    answer: Answer,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Answer {
    exit: i32,
    code: Option<u64>,
    out: Value,
}

/// Code of an error that Go code returned without one.
const INTERNAL: Option<u64> = Some(999);

/// Deliberate differences from upstream.
const DEVIATIONS: [(&str, &str); 1] = [(
    "null address in a list",
    "an address that is none breaks the next plugin of the chain, far from its cause",
)];

fn ours(case: &Case) -> Answer {
    match call::answer(&|name| case.env.get(name).cloned(), case.stdin.as_bytes()) {
        Ok(text) if text.is_empty() => Answer { exit: 0, code: None, out: Value::Null },
        Ok(text) => Answer { exit: 0, code: None, out: serde_json::from_str(&text).unwrap() },
        Err(error) => {
            let printed: Value = serde_json::from_str(&error.to_json()).unwrap();
            Answer { exit: 1, code: printed["code"].as_u64(), out: Value::Null }
        }
    }
}

/// Drops empty values: they mean the same as absent ones.
fn tidy(value: &Value) -> Value {
    let is_empty = |v: &Value| match v {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match value {
        Value::Object(map) => {
            map.iter().map(|(k, v)| (k.clone(), tidy(v))).filter(|(_, v)| !is_empty(v)).collect()
        }
        Value::Array(items) => items.iter().map(tidy).collect(),
        other => other.clone(),
    }
}

fn differences(recorded: &str) -> (usize, Vec<String>) {
    let cases: Vec<Case> = serde_json::from_str(recorded).unwrap();
    let differs = |case: &&Case| {
        let (got, want) = (ours(case), &case.answer);
        if want.code == INTERNAL {
            return got.exit != 1 || got.code.is_none();
        }
        (got.exit, got.code, tidy(&got.out)) != (want.exit, want.code, tidy(&want.out))
    };
    let deliberate = |case: &&Case| DEVIATIONS.iter().any(|(note, _)| *note == case.note);
    let different = cases.iter().filter(|case| differs(case) != deliberate(case));
    let notes =
        different.map(|case| format!("{}: {:?}, not {:?}", case.note, ours(case), case.answer)).collect();
    (cases.len(), notes)
}

#[test]
fn upstreams_answers_are_ours() {
    let (count, different) = differences(include_str!("../../../../scenarios/protocol/cases.json"));
    assert!(different.is_empty(), "{different:#?}");
    assert_eq!(count, 147);
}

#[test]
fn go_decodes_the_same() {
    let (count, different) = differences(include_str!("../../../../scenarios/protocol/decoding.json"));
    assert!(different.is_empty(), "{different:#?}");
    assert!(count >= 150, "only {count} cases");
}
