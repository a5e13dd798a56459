// SPDX-License-Identifier: Apache-2.0
//! Where results come together: the writer knows verdicts, hooks know evidence, the report wants both. Shared, so that an
//! interrupted run still has everything up to that moment.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::journal::Journal;
use crate::redact;
use crate::sweep::Outcome;
use crate::verdict::{Class, Record, StepKind, Verdict};

/// Knowledge of a scenario's world that the writer lacks.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    /// Notes for the report, passed or not.
    pub notes: Vec<String>,
    /// Back ends that the plugin used, each with its reason.
    pub back_ends: Vec<String>,
    /// Files, relative to the report's directory.
    pub evidence: Vec<String>,
    /// Number of errors in logs that the product's description excuses, by its text.
    pub excused: BTreeMap<String, usize>,
    /// A failure that no step looked at.
    pub wrong: Option<String>,
    /// A failure to take the scenario's world down: of one that ended early its remaining steps may be the reason.
    pub left: Option<String>,
    /// A fault of the lab: what passed beside it proves nothing.
    pub fault: Option<String>,
}

impl Extra {
    /// Adds a fault of the lab.
    pub fn fault(&mut self, why: impl fmt::Display) {
        self.fault = Some(match self.fault.take() {
            Some(before) => format!("{before}; {why}"),
            None => why.to_string(),
        });
    }
}

/// Verdict of a scenario at its end, if that changes it: what is wrong counts before a fault of the lab, and before what the scenario could not
/// go on for.
fn at_end(verdict: Verdict, extra: &Extra) -> Option<(Verdict, String)> {
    let left = || extra.left.as_ref().filter(|_| verdict == Verdict::Pass);
    match verdict {
        Verdict::Pass | Verdict::Inapplicable | Verdict::Unsupported => {
            extra.wrong.as_ref().or_else(left).map(|wrong| (Verdict::Fail, wrong.clone()))
        }
        _ => None,
    }
    .or_else(|| {
        let fault = extra.fault.clone().filter(|_| verdict == Verdict::Pass)?;
        Some((Verdict::Inconclusive, fault))
    })
}

/// What a record says beside its reason.
fn beside(verdict: Verdict, extra: &Extra) -> Vec<String> {
    let mut notes = Vec::new();
    let told = |what: &str, why: &Option<String>| why.as_ref().map(|why| format!("{what}: {why}"));
    match verdict {
        Verdict::Fail => notes.extend(told("wrong as well", &extra.wrong)),
        // It ended early: a later step may have expected it.
        Verdict::Inconclusive => notes.extend(told("wrong until then", &extra.wrong)),
        _ => {}
    }
    if verdict != Verdict::Pass || extra.wrong.is_some() {
        notes.extend(told("wrong as well", &extra.left));
    }
    if verdict != Verdict::Pass || extra.wrong.is_some() || extra.left.is_some() {
        // Something else is the reason.
        notes.extend(told("a fault of the lab beside it", &extra.fault));
    }
    notes
}

/// A record whose texts have no secrets, and are bounded.
fn redacted(mut record: Record) -> Record {
    for text in record.reason.iter_mut().chain(&mut record.notes).chain(&mut record.back_ends) {
        *text = redact::reason(text);
    }
    record
}

#[derive(Debug, Default)]
struct Inner {
    /// What cells of a sweep measured.
    measured: HashMap<String, Outcome>,
    records: Vec<Record>,
    extras: HashMap<String, Extra>,
}

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    inner: Arc<Mutex<Inner>>,
    journal: Option<Journal>,
}

impl Ledger {
    /// One whose records are appended to a journal as well.
    pub(crate) fn with(journal: Journal) -> Self {
        Self { journal: Some(journal), ..Self::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Adds the knowledge of a scenario's world.
    pub fn note(&self, id: &str, extra: Extra) {
        self.inner().extras.insert(id.to_owned(), extra);
    }

    /// Adds a finished scenario, with its world's knowledge.
    pub fn enter(&self, mut record: Record) -> Record {
        let mut inner = self.inner();
        if let Some(extra) = inner.extras.remove(&record.id) {
            record.notes.clone_from(&extra.notes);
            record.back_ends.clone_from(&extra.back_ends);
            record.evidence.clone_from(&extra.evidence);
            record.excused.clone_from(&extra.excused);
            record.notes.extend(beside(record.verdict, &extra));
            if let Some((verdict, reason)) = at_end(record.verdict, &extra) {
                let until_then =
                    record.reason.take().map(|why| format!("{} after that: {why}", record.verdict.word()));
                record.notes.extend(until_then);
                (record.verdict, record.reason) = (verdict, Some(reason));
                record.class = (verdict == Verdict::Fail).then_some(Class::Product);
                record.step_kind = Some(StepKind::End);
            }
        }
        let mut record = redacted(record);
        if let Some(Err(why)) = self.journal.as_ref().map(|journal| journal.end(&record)) {
            record.notes.push(format!("its verdict would not outlive the lab's process: {why}"));
        }
        inner.records.push(record.clone());
        record
    }

    /// Adds what a cell of a sweep measured.
    pub fn measure(&self, id: &str, outcome: Outcome) {
        self.inner().measured.insert(id.to_owned(), outcome);
    }

    /// What the cells of a sweep measured, by their ids.
    #[must_use]
    pub fn measured(&self) -> HashMap<String, Outcome> {
        self.inner().measured.clone()
    }

    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.inner().records.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(wrong: bool, left: bool, fault: bool) -> Extra {
        let is = |is: bool, why: &str| is.then(|| why.to_owned());
        Extra {
            wrong: is(wrong, "it crashed"),
            left: is(left, "DEL failed"),
            fault: is(fault, "no memory"),
            ..Extra::default()
        }
    }

    #[test]
    fn no_secret_gets_into_a_record_and_no_text_is_without_bound() {
        let ledger = Ledger::default();
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZ2VudCJ9.c2lnbmF0dXJl";
        let long = || format!("{token} {}", "x".repeat(1 << 20));
        let blank = serde_json::json!({
            "id": "g/f/x", "group": "g", "feature": "F", "name": "n", "file": "features/g/f.feature", "line": 3, "tags": [],
            "verdict": "fail", "reason": long(), "seconds": 1.0,
        });
        ledger.note("g/f/x", Extra { notes: vec![long()], ..Extra::default() });
        let record = ledger.enter(serde_json::from_value(blank).unwrap());
        for text in [record.reason.unwrap(), record.notes[0].clone()] {
            assert!(text.len() < 17 << 10 && text.starts_with("<a redacted token>"), "{} bytes", text.len());
        }
    }

    #[test]
    fn what_no_step_looked_at_fails_a_scenario_and_a_fault_of_the_lab_leaves_it_open() {
        let ended = |verdict, (wrong, left, fault)| at_end(verdict, &extra(wrong, left, fault));
        let fail = |why: &str| Some((Verdict::Fail, why.to_owned()));
        assert_eq!(ended(Verdict::Pass, (true, false, false)), fail("it crashed"));
        assert_eq!(ended(Verdict::Pass, (false, true, true)), fail("DEL failed"));
        let open = Some((Verdict::Inconclusive, "no memory".to_owned()));
        assert_eq!(ended(Verdict::Pass, (false, false, true)), open);
        assert_eq!(ended(Verdict::Pass, (true, true, true)), fail("it crashed"));
        assert_eq!(ended(Verdict::Pass, (false, false, false)), None);
        assert_eq!(
            ended(Verdict::Inapplicable, (true, false, true)),
            fail("it crashed"),
            "it went wrong before"
        );
        assert_eq!(ended(Verdict::Inapplicable, (false, true, true)), None, "its reason stays");
        assert_eq!(ended(Verdict::Inconclusive, (true, true, true)), None, "its reason stays");
    }

    #[test]
    fn a_record_keeps_all_that_was_wrong() {
        let record = |verdict: &str| -> Record {
            serde_json::from_value(serde_json::json!({
                "id": "g/f/x", "group": "g", "feature": "F", "name": "n", "file": "features/g/f.feature", "line": 3,
                "tags": [], "verdict": verdict, "reason": "why", "step": "Then x", "step_kind": "then", "seconds": 0.0,
            }))
            .unwrap()
        };
        let entered = |verdict: &str| {
            let ledger = Ledger::default();
            ledger.note("g/f/x", extra(true, true, true));
            ledger.enter(record(verdict))
        };
        let failed = entered("fail");
        assert_eq!((failed.verdict, failed.reason.as_deref()), (Verdict::Fail, Some("why")));
        let (crash, left) = ("wrong as well: it crashed", "wrong as well: DEL failed");
        let fault = "a fault of the lab beside it: no memory";
        assert_eq!(failed.notes, [crash, left, fault]);
        let early = entered("inapplicable");
        assert_eq!((early.verdict, early.reason.as_deref()), (Verdict::Fail, Some("it crashed")));
        assert_eq!((early.class, early.step_kind), (Some(Class::Product), Some(StepKind::End)));
        assert_eq!(early.notes, [left, fault, "inapplicable after that: why"]);
    }
}
