// SPDX-License-Identifier: Apache-2.0
//! Where results come together: the writer knows verdicts, hooks know evidence, the report wants both. Shared, so that an
//! interrupted run still has everything up to that moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// A failure that no step looked at.
    pub wrong: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    records: Vec<Record>,
    extras: HashMap<String, Extra>,
}

#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Mutex<Inner>>);

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            if let Some(wrong) = extra.wrong.filter(|_| record.verdict == Verdict::Pass) {
                (record.verdict, record.reason) = (Verdict::Fail, Some(wrong));
                record.step_kind = Some(StepKind::End);
            }
        }
        inner.records.push(record.clone());
        record
    }

    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.inner().records.clone()
    }
}
