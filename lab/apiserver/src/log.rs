// SPDX-License-Identifier: Apache-2.0
//! Every request in the order of arrival, with what only the server knows of it: who answered a read, which grant was missing. What features
//! assert of requests is in the record of the front, which stands before any server. Bounded: what was dropped is counted.

use std::collections::VecDeque;

use crate::rbac::Grant;
use crate::reads::Read;
use crate::route::Verb;

#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// Sequence number of its arrival, from 0.
    pub order: u64,
    pub verb: Verb,
    pub path: String,
    /// The resource with its group and subresource, as in [`Grant::new`]; `None` for other paths.
    pub resource: Option<String>,
    /// The object; for a list or a watch, the name that its field selector asks for.
    pub name: Option<String>,
    pub query: Option<String>,
    /// User (`system:anonymous` without valid credentials).
    pub user: String,
    /// Backend of the read; `None` for other verbs, and for rejected requests.
    pub read: Option<Read>,
    /// The code that it was answered with; `None` while it has no answer.
    pub code: Option<u16>,
    /// The smallest grant that would have allowed it, if it was denied for want of one.
    pub missing: Option<Grant>,
}

#[derive(Debug)]
pub(crate) struct Log {
    kept: VecDeque<Logged>,
    next: u64,
    limit: usize,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), next: 0, limit }
    }

    /// Adds an arrival; the number is for [`Log::answered`].
    pub(crate) fn arrived(&mut self, mut entry: Logged) -> u64 {
        entry.order = self.next;
        self.next += 1;
        self.kept.push_back(entry);
        if self.kept.len() > self.limit {
            // The oldest go: a scenario asserts on what it has just caused. `dropped` tells the report.
            self.kept.pop_front();
        }
        self.next - 1
    }

    pub(crate) fn answered(&mut self, order: u64, code: u16) {
        self.edit(order, |entry| entry.code = Some(code));
    }

    pub(crate) fn read(&mut self, order: u64, read: Option<Read>) {
        self.edit(order, |entry| entry.read = read);
    }

    pub(crate) fn missing(&mut self, order: u64, missing: Grant) {
        self.edit(order, |entry| entry.missing = Some(missing));
    }

    fn edit(&mut self, order: u64, change: impl FnOnce(&mut Logged)) {
        let first = self.dropped();
        let place = order.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        // One that is no longer kept has nothing left to note.
        if let Some(entry) = place.and_then(|place| self.kept.get_mut(place)) {
            change(entry);
        }
    }

    pub(crate) fn all(&self) -> Vec<Logged> {
        self.kept.iter().cloned().collect()
    }

    pub(crate) fn count(&self, mut filter: impl FnMut(&Logged) -> bool) -> usize {
        self.kept.iter().filter(|entry| filter(entry)).count()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.next.saturating_sub(u64::try_from(self.kept.len()).unwrap_or(u64::MAX))
    }
}
