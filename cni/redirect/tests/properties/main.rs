// SPDX-License-Identifier: Apache-2.0
//! Properties of every configuration, every packet and every pod.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot read its own data has to stop"
)]

mod agreement;
mod configs;
mod former;
mod found;
mod packets;
mod parse;
mod pods;
mod rulesets;
mod same;
mod shadows;
mod verdicts;

use proptest::prelude::ProptestConfig;

/// Number of cases of a property: `cases`, or the value of `PROPTEST_CASES`.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(cases),
    }
}
