// SPDX-License-Identifier: Apache-2.0
//! Recorded configurations and pods with the rules that upstream makes of them, compared rule by rule, in order.

mod pods;
mod restore;
mod rules;
