// SPDX-License-Identifier: Apache-2.0
//! Named defects, for proving that a feature can turn red. They exist only in builds with debug assertions (cargo's dev profile),
//! where [`VARIABLE`] says which one a process plays; in what ships [`crate::mutant!`] is `false` and no name is compiled in.

/// The variable that names the defect. Only builds with defects look at it.
pub const VARIABLE: &str = "MILLRACE_MUTANT";

/// Whether this process plays the defect `name`.
#[cfg(debug_assertions)]
#[must_use]
pub fn plays(name: &str) -> bool {
    std::env::var_os(VARIABLE).is_some_and(|played| played == name)
}

/// Whether this process plays a named defect (see [`mod@crate::mutant`]).
#[cfg(debug_assertions)]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        $crate::mutant::plays($name)
    };
}

/// Whether this process plays a named defect (see [`mod@crate::mutant`]): never, in this build.
#[cfg(not(debug_assertions))]
#[macro_export]
macro_rules! mutant {
    ($name:literal) => {
        false
    };
}
