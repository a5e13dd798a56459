// SPDX-License-Identifier: Apache-2.0
//! `--stress N`: each scenario so many times, and one record of all its runs. `--retries N`: what did not pass, up to so many times more, and the same.
//! A repetition is a scenario of its own while it runs: a world, a directory, delays and evidence under an id that ends with its number,
//! `redirection/outbound/tcp-over-ipv6#3`.

use std::collections::{BTreeMap, BTreeSet};

use crate::verdict::{self, Record, Runs, Verdict};

/// What is before the number of a repetition in its id.
const MARK: char = '#';

/// The id of a repetition, from 1.
#[must_use]
pub fn id(scenario: &str, repetition: u16) -> String {
    format!("{scenario}{MARK}{repetition}")
}

/// The id without the number.
fn scenario(id: &str) -> &str {
    id.split_once(MARK).map_or(id, |(scenario, _)| scenario)
}

/// Reason of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Each scenario several times: one that fails is flaky beside any other verdict, and a fault of the lab leaves it open.
    Stress,
    /// What did not pass, until it passes: then it is flaky, whatever kept it before. One that never passed is what its runs tell.
    Retries,
}

impl Why {
    /// Verdict of runs of different verdicts.
    fn verdict(self, told: Verdict, passed: usize) -> Verdict {
        match self {
            Self::Stress if told == Verdict::Fail => Verdict::Flaky,
            Self::Retries if passed > 0 => Verdict::Flaky,
            Self::Stress | Self::Retries => told,
        }
    }
}

/// Ids of the scenarios whose last run failed, or left open what they show.
#[must_use]
pub fn due(records: &[Record]) -> BTreeSet<String> {
    let mut due = BTreeSet::new();
    for record in records {
        let id = scenario(&record.id).to_owned();
        match record.verdict {
            Verdict::Fail | Verdict::Inconclusive => due.insert(id),
            _ => due.remove(&id),
        };
    }
    due
}

/// One record of each scenario, in the order of the first repetitions.
#[must_use]
pub fn fold(records: Vec<Record>, why: Why) -> Vec<Record> {
    let mut order: Vec<String> = Vec::new();
    let mut all: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    for record in records {
        let id = scenario(&record.id).to_owned();
        let runs = all.entry(id.clone()).or_default();
        if runs.is_empty() {
            order.push(id);
        }
        runs.push(record);
    }
    order.into_iter().filter_map(|id| Some(one(&id, all.remove(&id)?, why))).collect()
}

/// The runs that count: those that an interruption left out do only where there are no others.
fn counted(mut runs: Vec<Record>) -> Vec<Record> {
    if runs.iter().any(|run| run.verdict != Verdict::Skipped) {
        runs.retain(|run| run.verdict != Verdict::Skipped);
    }
    runs
}

/// The run that tells what happened: the first that failed, else the first of which nothing is known, else the first that did not pass.
fn told(runs: &[Record]) -> &Record {
    let first = |is: fn(Verdict) -> bool| runs.iter().find(|run| is(run.verdict));
    first(|one| matches!(one, Verdict::Fail | Verdict::Flaky))
        .or_else(|| first(|one| one == Verdict::Inconclusive))
        .or_else(|| first(|one| one != Verdict::Pass))
        .unwrap_or(&runs[0])
}

/// One record of all runs of a scenario.
fn one(id: &str, runs: Vec<Record>, why: Why) -> Record {
    let is_repeated = runs.len() > 1;
    let runs = &counted(runs);
    let (count, mut verdicts) = (runs.len(), BTreeMap::new());
    for run in runs {
        *verdicts.entry(run.verdict.word().to_owned()).or_default() += 1;
    }
    let told = told(runs);
    let mut record = told.clone();
    if verdicts.len() > 1 {
        let passed = verdicts.get(Verdict::Pass.word()).copied().unwrap_or(0);
        let reason = record.reason.as_deref().unwrap_or_default();
        let at = record.id.rsplit_once(MARK).map_or("1", |(_, number)| number);
        record.reason =
            Some(format!("passed {passed} of {count} runs; run {at} {}: {reason}", told.verdict.word()));
        record.verdict = why.verdict(told.verdict, passed);
    }
    record.id = id.to_owned();
    record.seconds = runs.iter().map(|run| run.seconds).sum();
    record.evidence = runs.iter().flat_map(|run| run.evidence.clone()).collect();
    record.notes = union(runs.iter().flat_map(|run| &run.notes));
    record.excused = verdict::sum(runs.iter().map(|run| &run.excused));
    record.back_ends = union(runs.iter().flat_map(|run| &run.back_ends));
    // What cannot run here did not run often; and once is what every run does.
    let ran = is_repeated && runs.iter().any(|run| !run.steps.is_empty());
    record.runs = ran.then_some(Runs { count, verdicts });
    record
}

/// Each text once, in order.
fn union<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts.filter(|text| !text.is_empty()) {
        if !all.contains(text) {
            all.push(text.clone());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(id: &str, verdict: &str) -> Record {
        let record = json!({
            "id": id, "group": "g", "feature": "F", "name": "n", "file": "features/g/f.feature", "line": 3, "tags": [],
            "verdict": verdict, "reason": format!("{verdict} of {id}"), "seconds": 1.5, "notes": ["slow"],
            "steps": [{ "step": "Given x", "seconds": 1.0 }], "evidence": [format!("evidence/{id}/rules.txt")],
        });
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn a_scenario_whose_verdicts_differ_is_flaky_and_says_how_often() {
        let runs = ["pass", "pass", "fail", "inconclusive"];
        let runs = (1..).zip(runs).map(|(number, verdict)| run(&id("g/f/x", number), verdict));
        let [record] = fold(runs.collect(), Why::Stress).try_into().unwrap();
        assert_eq!((record.id.as_str(), record.verdict), ("g/f/x", Verdict::Flaky));
        assert_eq!(record.reason.as_deref(), Some("passed 2 of 4 runs; run 3 fail: fail of g/f/x#3"));
        let verdicts = [("fail", 1), ("inconclusive", 1), ("pass", 2)];
        let verdicts = verdicts.map(|(word, count)| (word.to_owned(), count)).into();
        assert_eq!(record.runs, Some(Runs { count: 4, verdicts }));
        assert_eq!((record.evidence.len(), record.notes.len()), (4, 1));
        assert!((record.seconds - 6.0).abs() < 1e-9);
    }

    #[test]
    fn only_a_failure_beside_other_verdicts_is_flaky_and_runs_that_were_left_out_count_for_nothing() {
        for (verdicts, want, count) in [
            (["pass", "inconclusive", "pass"], Verdict::Inconclusive, 3),
            (["inconclusive", "pass", "fail"], Verdict::Flaky, 3),
            (["inconclusive", "fail", "inconclusive"], Verdict::Flaky, 3),
            (["pass", "pass", "skipped"], Verdict::Pass, 2),
            (["pass", "skipped", "skipped"], Verdict::Pass, 1),
            (["fail", "fail", "skipped"], Verdict::Fail, 2),
            (["pass", "fail", "skipped"], Verdict::Flaky, 2),
            (["skipped", "skipped", "skipped"], Verdict::Skipped, 3),
        ] {
            let runs = (1..).zip(verdicts).map(|(number, verdict)| run(&id("g/f/x", number), verdict));
            let [record] = fold(runs.collect(), Why::Stress).try_into().unwrap();
            let runs = record.runs.map(|runs| runs.count);
            assert_eq!((record.verdict, runs), (want, Some(count)), "{verdicts:?}");
        }
    }

    #[test]
    fn one_that_is_inconclusive_says_how_often_it_passed() {
        let [record] = fold(vec![run("g/f/x#1", "pass"), run("g/f/x#2", "inconclusive")], Why::Stress)
            .try_into()
            .unwrap();
        let reason = "passed 1 of 2 runs; run 2 inconclusive: inconclusive of g/f/x#2";
        assert_eq!(record.reason.as_deref(), Some(reason));
    }

    #[test]
    fn runs_that_agree_keep_their_verdict_and_scenarios_their_order() {
        let ids = ["g/f/z#1", "g/f/a#1", "g/f/z#2", "g/f/a#2"];
        let records = ids.iter().map(|id| run(id, if id.contains('z') { "pass" } else { "fail" }));
        let all = fold(records.collect(), Why::Stress);
        let found: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.verdict)).collect();
        assert_eq!(found, [("g/f/z", Verdict::Pass), ("g/f/a", Verdict::Fail)]);
    }

    #[test]
    fn what_ran_once_has_no_runs() {
        let [record] = fold(vec![run("g/f/x", "pass")], Why::Stress).try_into().unwrap();
        assert_eq!((record.id.as_str(), record.verdict, record.runs), ("g/f/x", Verdict::Pass, None));
    }

    #[test]
    fn what_did_not_run_has_no_runs() {
        let mut records = vec![run("g/f/x#1", "inapplicable"), run("g/f/x#2", "inapplicable")];
        records.iter_mut().for_each(|record| record.steps.clear());
        let [record] = fold(records, Why::Stress).try_into().unwrap();
        assert_eq!((record.verdict, record.runs), (Verdict::Inapplicable, None));
    }

    #[test]
    fn what_passes_when_it_is_run_again_is_flaky_and_never_passed() {
        for (verdicts, want, reason) in [
            (&["fail", "pass"][..], Verdict::Flaky, "passed 1 of 2 runs; run 1 fail: fail of g/f/x"),
            (
                &["inconclusive", "pass"],
                Verdict::Flaky,
                "passed 1 of 2 runs; run 1 inconclusive: inconclusive of g/f/x",
            ),
            (
                &["fail", "inconclusive", "pass"],
                Verdict::Flaky,
                "passed 1 of 3 runs; run 1 fail: fail of g/f/x",
            ),
            (&["fail", "fail"], Verdict::Fail, "fail of g/f/x"),
            (&["inconclusive", "fail"], Verdict::Fail, "passed 0 of 2 runs; run 2 fail: fail of g/f/x#2"),
            (&["inconclusive", "inconclusive"], Verdict::Inconclusive, "inconclusive of g/f/x"),
        ] {
            let id = |number| if number == 1 { "g/f/x".to_owned() } else { id("g/f/x", number) };
            let runs = (1..).zip(verdicts).map(|(number, verdict)| run(&id(number), verdict));
            let [record] = fold(runs.collect(), Why::Retries).try_into().unwrap();
            assert_eq!(
                (record.id.as_str(), record.verdict, record.reason.as_deref()),
                ("g/f/x", want, Some(reason))
            );
            assert_eq!(record.runs.map(|runs| runs.count), Some(verdicts.len()));
        }
        let [record] = fold(vec![run("g/f/x", "pass")], Why::Retries).try_into().unwrap();
        assert_eq!((record.verdict, record.runs), (Verdict::Pass, None));
    }

    #[test]
    fn due_is_what_did_not_pass_the_last_time() {
        let runs = [
            ("a", "fail"),
            ("b", "inconclusive"),
            ("c", "pass"),
            ("d", "fail"),
            ("e", "inapplicable"),
            ("a#2", "pass"),
            ("d#2", "fail"),
        ];
        let records: Vec<_> = runs.iter().map(|(id, verdict)| run(id, verdict)).collect();
        assert_eq!(due(&records).into_iter().collect::<Vec<_>>(), ["b", "d"]);
    }
}
