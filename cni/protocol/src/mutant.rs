// SPDX-License-Identifier: Apache-2.0
//! Named defects, for proving that a feature can turn red. They exist only with the feature `mutants`, which the lab's build of its
//! woven copy of this workspace switches on and nothing else: there [`VARIABLE`] names the one that a process plays. Everywhere else
//! [`crate::mutant!`] is `false` and no name is compiled in.

/// The variable that names the defect. Only builds with defects look at it.
pub const VARIABLE: &str = "MILLRACE_MUTANT";

/// Whether this process plays the defect `name`.
#[cfg(feature = "mutants")]
#[must_use]
pub fn plays(name: &str) -> bool {
    std::env::var_os(VARIABLE).is_some_and(|played| played == name)
}

/// Whether this process plays a named defect (see [`mod@crate::mutant`]).
#[cfg(feature = "mutants")]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::plays($name)
    };
}

/// Whether this process plays a named defect (see [`mod@crate::mutant`]): never, in this build.
#[cfg(not(feature = "mutants"))]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        false
    };
}
