// SPDX-License-Identifier: Apache-2.0
//! What holds for every configuration, every packet and every pod.

mod configs;
mod packets;
mod parse;
mod pods;
mod rulesets;
mod verdicts;
