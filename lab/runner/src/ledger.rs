// SPDX-License-Identifier: Apache-2.0
//! Where results come together: the writer knows verdicts, hooks know evidence, the report wants both. Shared, so that an
//! interrupted run still has everything up to that moment.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::sweep::Outcome;
use crate::verdict::{Record, StepKind, Verdict};

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

/// Verdict of a scenario that passed until its end, if that changes it: what is wrong counts before a fault of the lab.
fn at_end(verdict: Verdict, wrong: Option<String>, fault: Option<String>) -> Option<(Verdict, String)> {
    match (verdict, wrong, fault) {
        (Verdict::Pass, Some(wrong), _) => Some((Verdict::Fail, wrong)),
        (Verdict::Pass, None, Some(fault)) => Some((Verdict::Inconclusive, fault)),
        _ => None,
    }
}

#[derive(Debug, Default)]
struct Inner {
    /// What cells of a sweep measured.
    measured: HashMap<String, Outcome>,
    records: Vec<Record>,
    extras: HashMap<String, Extra>,
}

#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Inner>>);

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }

    /// Adds the knowledge of a scenario's world.
    pub fn note(&self, id: &str, extra: Extra) {
        self.inner().extras.insert(id.to_owned(), extra);
    }

    /// Adds a finished scenario, with its world's knowledge.
    pub fn enter(&self, mut record: Record) -> Record {
        let mut inner = self.inner();
        if let Some(extra) = inner.extras.remove(&record.id) {
            record.notes = extra.notes;
            record.back_ends = extra.back_ends;
            record.evidence = extra.evidence;
            record.excused = extra.excused;
            if matches!(record.verdict, Verdict::Inapplicable | Verdict::Inconclusive) {
                // It ended early: a later step may have expected it.
                record.notes.extend(extra.wrong.iter().map(|wrong| format!("wrong until then: {wrong}")));
            }
            if record.verdict != Verdict::Pass || extra.wrong.is_some() {
                // Something else is the reason.
                record
                    .notes
                    .extend(extra.fault.iter().map(|fault| format!("a fault of the lab beside it: {fault}")));
            }
            if let Some((verdict, reason)) = at_end(record.verdict, extra.wrong, extra.fault) {
                (record.verdict, record.reason) = (verdict, Some(reason));
                record.step_kind = Some(StepKind::End);
            }
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

    #[test]
    fn what_no_step_looked_at_fails_a_scenario_and_a_fault_of_the_lab_leaves_it_open() {
        let (wrong, fault) = (|| Some("DEL failed".to_owned()), || Some("no memory".to_owned()));
        let ended = |verdict, wrong, fault| at_end(verdict, wrong, fault).map(|(verdict, _)| verdict);
        assert_eq!(ended(Verdict::Pass, wrong(), None), Some(Verdict::Fail));
        assert_eq!(ended(Verdict::Pass, None, fault()), Some(Verdict::Inconclusive));
        assert_eq!(ended(Verdict::Pass, wrong(), fault()), Some(Verdict::Fail));
        assert_eq!(ended(Verdict::Pass, None, None), None);
        assert_eq!(ended(Verdict::Inapplicable, wrong(), fault()), None, "its reason stays");
    }
}
