// SPDX-License-Identifier: Apache-2.0
//! Files of `scenarios/contract`: `AREA.yaml` has cases, `AREA.json` a real server's answers to them, `differences.yaml` what stays different.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, iter};

use serde::Deserialize;
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/contract");
const DIFFERENCES: &str = "differences.yaml";

/// Cases of one file.
pub(crate) struct Area {
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
}

/// Requests that follow each other, in a namespace of their own.
pub(crate) struct Case {
    /// `AREA/NAME`.
    pub(crate) id: String,
    pub(crate) steps: Vec<Step>,
    /// A real server's answers.
    pub(crate) recorded: Option<Vec<Value>>,
}

/// A request, and what is looked at of its answer.
pub(crate) struct Step {
    /// Method and path; `MERGE`, `JSON`, `STRATEGIC` and `APPLY` are patches, `WATCH` and `TABLE` forms of GET.
    pub(crate) request: String,
    pub(crate) options: Options,
}

/// Deviations from the usual step: the administrator's request without a body, of which the code alone is compared.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Options {
    pub(crate) body: Value,
    /// Instead of a body as JSON.
    pub(crate) text: Option<String>,
    /// Instead of that of the method.
    pub(crate) content_type: Option<String>,
    pub(crate) accept: Option<String>,
    /// A token; `nobody` for none.
    pub(crate) by: Option<String>,
    /// Fields of the answer, as paths; `*` is each item of a list. An error is looked at as a whole.
    pub(crate) see: Vec<String>,
    /// Variables for the requests that follow, and which fields they are.
    pub(crate) keep: BTreeMap<String, String>,
    /// Number of events that a watch is looked at for; without it all until its end.
    pub(crate) take: Option<usize>,
    /// Repeated until the answer has this code: controllers have to do their work.
    pub(crate) until: Option<u16>,
}

type Cases = BTreeMap<String, Vec<BTreeMap<String, Option<Options>>>>;

/// All areas, by name.
pub(crate) fn areas() -> Vec<Area> {
    let mut names: Vec<String> = fs::read_dir(FOLDER)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != DIFFERENCES)
        .filter_map(|name| name.strip_suffix(".yaml").map(str::to_owned))
        .collect();
    names.sort();
    names.into_iter().map(read).collect()
}

fn path(name: &str, form: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}.{form}"))
}

fn read(name: String) -> Area {
    let text = fs::read_to_string(path(&name, "yaml")).unwrap();
    let cases: Cases = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}.yaml: {error}"));
    let recorded = fs::read(path(&name, "json")).unwrap_or_else(|_| b"{}".to_vec());
    let mut recorded: BTreeMap<String, Vec<Value>> = serde_json::from_slice(&recorded).unwrap();
    let cases = cases.into_iter().map(|(case, steps)| Case {
        id: format!("{name}/{case}"),
        steps: steps
            .into_iter()
            .flatten()
            .map(|(request, options)| Step { request, options: options.unwrap_or_default() })
            .collect(),
        recorded: recorded.remove(&case),
    });
    Area { cases: cases.collect(), name }
}

impl Area {
    /// Writes a real server's answers: one a line.
    pub(crate) fn record(&self, answers: &[Vec<Value>]) {
        let cases = self.cases.iter().zip(answers).map(|(case, answers)| {
            let name = case.id.split_once('/').map_or("", |(_, name)| name);
            let lines: Vec<String> = answers.iter().map(|answer| format!("    {answer}")).collect();
            format!("  {}: [\n{}\n  ]", Value::from(name), lines.join(",\n"))
        });
        let text = format!("{{\n{}\n}}\n", cases.collect::<Vec<_>>().join(",\n"));
        fs::write(path(&self.name, "json"), text).unwrap();
    }
}

/// Cases that the embedded server answers otherwise, and why that stays.
pub(crate) fn differences() -> BTreeMap<String, String> {
    let text = fs::read_to_string(Path::new(FOLDER).join(DIFFERENCES)).unwrap();
    let all: Option<BTreeMap<String, String>> = serde_saphyr::from_str(&text).unwrap();
    all.unwrap_or_default()
}

/// A difference is listed of a case, with a reason.
pub(crate) fn check_differences() {
    let ids: Vec<String> = areas().into_iter().flat_map(|area| area.cases).map(|case| case.id).collect();
    for (id, reason) in differences() {
        assert!(ids.contains(&id), "no case is {id}");
        assert!(!iter::once(&reason).any(|reason| reason.trim().is_empty()), "{id} has no reason");
    }
}
