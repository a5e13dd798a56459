// SPDX-License-Identifier: Apache-2.0
//! The contract of the API: cases of `scenarios/contract` are played against the embedded server, and must be answered as a real one has
//! answered them. Where the real one's programs are in the cache, its answers are compared, or with `UPDATE` set recorded, by
//!
//! ```sh
//! cargo test -p apiserver --test contract -- --ignored
//! ```
//!
//! | module | |
//! |---|---|
//! | `case` | the files: cases, recorded answers, listed differences |
//! | `play` | plays a case against any server |
//! | `seen` | what is compared of an answer |
//! | `servers` | the embedded server, and a real one |
//! | `page` | `docs/api.md` |

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod case;
mod page;
mod play;
mod seen;
mod servers;

use std::net::IpAddr;
use std::process::ExitCode;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::case::{Area, Case};

const REAL: &str = "a real API server answers as recorded";

fn main() -> ExitCode {
    if let Some((_, directory)) = rig::process::own_test() {
        real(&directory);
        return ExitCode::SUCCESS;
    }
    let mut trials = vec![
        rig::process::test(REAL, None).with_ignored_flag(true),
        rig::test("the page is current", None, page::check),
        rig::test("a listed difference is one of a case", None, case::check_differences),
    ];
    trials.extend(case::areas().into_iter().flat_map(|area| area.cases).map(embedded));
    rig::run(trials)
}

/// The embedded server must answer as recorded, unless it is listed that it does not.
fn embedded(case: Case) -> Trial {
    rig::test(&case.id.clone(), None, move || {
        let found = servers::block_on(async { play::play(&servers::embedded(), "contract-0", &case).await });
        let faults = differences(&case, &found);
        match case::differences().get(&case.id) {
            Some(_) => assert!(
                !faults.is_empty(),
                "scenarios/contract/differences.yaml: {} differs no more",
                case.id
            ),
            None => assert!(faults.is_empty(), "{}", faults.join("\n")),
        }
    })
}

/// The real server's answers to all cases: recorded, or compared with those that are.
fn real(directory: &std::path::Path) {
    rig::link::up(&[&IpAddr::from(real::control::ADDRESS).to_string()]);
    let areas = case::areas();
    let found: Vec<Vec<Vec<Value>>> = servers::block_on(async {
        let (server, _control) = servers::real(directory).await;
        let (mut found, mut number) = (Vec::new(), 0);
        for area in &areas {
            let mut answers = Vec::new();
            for case in &area.cases {
                number += 1;
                answers.push(play::play(&server, &format!("contract-{number}"), case).await);
            }
            found.push(answers);
        }
        found
    });
    if std::env::var_os("UPDATE").is_some() {
        return areas.iter().zip(&found).for_each(|(area, answers)| area.record(answers));
    }
    let pairs = areas
        .iter()
        .map(|area: &Area| &area.cases)
        .zip(&found)
        .flat_map(|(cases, found)| cases.iter().zip(found));
    let faults: Vec<String> = pairs.flat_map(|(case, found)| differences(case, found)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Answers that are not as recorded.
fn differences(case: &Case, found: &[Value]) -> Vec<String> {
    let recorded = case.recorded.as_deref().unwrap_or_default();
    let none = Value::Null;
    let steps = case.steps.iter().enumerate().filter_map(|(place, step)| {
        let (wanted, found) = (recorded.get(place).unwrap_or(&none), found.get(place).unwrap_or(&none));
        let request = &step.request;
        (wanted != found)
            .then(|| format!("{}\n  {request}\n    recorded {wanted}\n    answered {found}", case.id))
    });
    steps.collect()
}
