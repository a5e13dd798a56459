// SPDX-License-Identifier: Apache-2.0
//! The built plugin, called as a runtime calls it, well and badly: `scenarios/protocol/cases.json` has calls with the answers of upstream's
//! plugin, `decoding.json` with those of the CNI project's Go library. Texts of errors are not compared, and where the recording only says
//! "internal" (999) any error will do.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Map, Value};

#[derive(serde::Deserialize)]
struct Case {
    note: String,
    env: Map<String, Value>,
    stdin: String,
    answer: Answer,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Answer {
    exit: i32,
    code: Option<u64>,
    out: Option<Value>,
}

const INTERNAL: Option<u64> = Some(999);

/// Deliberate differences: an address that is none breaks the next plugin of the chain, far from its cause.
const DEVIATIONS: [&str; 1] = ["null address in a list"];

#[test]
fn every_recorded_call_is_answered_as_recorded() {
    for (file, least) in [("cases.json", 147), ("decoding.json", 150)] {
        let path = format!("{}/../../scenarios/protocol/{file}", env!("CARGO_MANIFEST_DIR"));
        let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(cases.len() >= least, "{file}: only {} cases", cases.len());
        let wrong: Vec<String> = cases.iter().filter_map(unexpected).collect();
        assert!(wrong.is_empty(), "{file}: {} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    }
}

/// A disagreement, or that there is none where one is deliberate.
fn unexpected(case: &Case) -> Option<String> {
    match (disagreement(case), DEVIATIONS.contains(&case.note.as_str())) {
        (None, true) => Some(format!("{}: answered as recorded", case.note)),
        (found, false) => found,
        (Some(_), true) => None,
    }
}

fn disagreement(case: &Case) -> Option<String> {
    let got = call(case);
    let same = if case.answer.code == INTERNAL {
        got.exit == 1 && got.code.is_some()
    } else {
        got == Answer { out: tidy(case.answer.out.clone()), ..case.answer }
    };
    (!same).then(|| format!("{}: got {got:?}, recorded is {:?}", case.note, case.answer))
}

fn call(case: &Case) -> Answer {
    let dir = tempfile::tempdir().unwrap();
    let env = case.env.iter().map(|(name, value)| (name, value.as_str().unwrap()));
    let mut child = Command::new(env!("CARGO_BIN_EXE_istio-cni"))
        .env_clear()
        .envs(env)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // A call that needs no input may be over before all of it is written.
    let _ = child.stdin.take().unwrap().write_all(case.stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let exit = output.status.code().unwrap();
    let out: Option<Value> = match output.stdout.trim_ascii() {
        [] => None,
        text => Some(serde_json::from_slice(text).unwrap_or_else(|error| panic!("{}: {error}", case.note))),
    };
    let code = out.as_ref().filter(|_| exit != 0).and_then(|out| out["code"].as_u64());
    Answer { exit, code, out: tidy(out.filter(|_| exit == 0)) }
}

/// Absent, `null`, `[]`, `{}` and an empty text mean the same in a result.
fn tidy(value: Option<Value>) -> Option<Value> {
    let tidied = match value? {
        Value::Object(entries) => entries
            .into_iter()
            .filter_map(|(key, value)| Some((key, tidy(Some(value))?)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(items) => {
            items.into_iter().map(|item| tidy(Some(item)).unwrap_or(Value::Null)).collect::<Vec<_>>().into()
        }
        other => other,
    };
    let empty = match &tidied {
        Value::Null => true,
        Value::Object(entries) => entries.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    (!empty).then_some(tidied)
}
