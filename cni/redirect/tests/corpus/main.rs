// SPDX-License-Identifier: Apache-2.0
//! Recorded configurations and pods with the rules that upstream makes of them, compared rule by rule, in order.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own data has to stop")]

mod pods;
mod restore;
mod rules;
