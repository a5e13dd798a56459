// SPDX-License-Identifier: Apache-2.0
//! The truth table: the same packets judged by `redirect::verdict` and by the kernel, over many pods. A disagreement is a
//! bug in one of the two.
//!
//! | module | what it does |
//! |---|---|
//! | [`data`] | what `scenarios/truth/*.yaml` says: pods, packets, rules that nothing can reach |
//! | [`evaluate`] | what the evaluator says of a pod's packets |
//! | [`kernel`] | the same packets in real namespaces: who answered, which counters moved |
//! | [`compare`] | disagreements, coverage and shares |

pub mod compare;
pub mod data;
pub mod evaluate;
pub mod kernel;
