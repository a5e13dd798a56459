// SPDX-License-Identifier: Apache-2.0
//! The defect that a process plays. Every crate of the woven copy asks here.

/// The variable that names it.
const VARIABLE: &str = "MILLRACE_MUTANT";

/// True if this process plays the defect `name`.
#[must_use]
pub fn plays(name: &str) -> bool {
    std::env::var_os(VARIABLE).is_some_and(|played| played == name)
}
