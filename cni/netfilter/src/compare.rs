// SPDX-License-Identifier: Apache-2.0
//! How what a namespace holds differs from what is wanted; pure.

use std::fmt;

use redirect::ruleset::Ruleset;

use crate::snapshot::Snapshot;

/// One difference, fit for a person through its `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {}

impl fmt::Display for Difference {
    fn fmt(&self, _out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// All differences; none means that the namespace redirects as wanted. Rules of others do not count.
#[must_use]
pub fn compare(snapshot: &Snapshot, wanted: &Ruleset) -> Vec<Difference> {
    let _ = (snapshot, wanted);
    todo!()
}
