// SPDX-License-Identifier: Apache-2.0
//! Which rules are ours, this version's or another's, or upstream's; pure.

use crate::snapshot::Snapshot;

/// Whether the namespace holds redirection rules of any version and of either nf_tables back end.
#[must_use]
pub fn has_rules_of_ours(snapshot: &Snapshot) -> bool {
    let _ = snapshot;
    todo!()
}
