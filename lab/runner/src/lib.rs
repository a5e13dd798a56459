// SPDX-License-Identifier: Apache-2.0
//! The lab's runner: features in, verdicts out.
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`], [`exit`] | the command line and the exit codes |
//! | [`locate`], [`sut`], [`product`], [`elf`] | the workspace, the binaries under test, what is claimed of them |
//! | [`carried`], [`pack`] | the program with all that it needs in one file |
//! | `container` | a run in a container, with the feature of that name |
//! | [`chart`] | what the program under test would have an operator apply |
//! | [`plan`], [`sandbox`] | what is decided outside; the namespaces that it is done in |
//! | [`drawn`] | names and addresses that a run draws by its seed |
//! | [`sealed`], [`tampered`], [`alone`] | the files that a run executes and that nobody may change, nor their processes; the product's programs that the lab itself calls |
//! | [`catalogue`], [`back_ends`], [`list`] | features found, parsed, played on every back end, selected, listed |
//! | [`names`] | ids of scenarios that survive edits, and former ones |
//! | [`probe`], [`doctor`] | what the environment can do, with evidence |
//! | [`portable`] | which scenarios only Millrace can pass |
//! | [`lacks`] | what it lacks and a run can do without, and how to get it |
//! | [`run`], [`writer`], [`ledger`], [`board`], `conclusion` | a run, its events, its results, its display, its end |
//! | [`up`] | a cluster that stays, for kubectl |
//! | [`verdict`], [`stop`], [`stress`] | what became of a scenario, why a step stopped it, one record of many runs |
//! | [`report`], [`junit`], [`evidence`], [`merge`] | what a run leaves behind, and several runs as one |
//! | [`suite`], [`machine`], [`pulse`] | what judged, by digests; where, and what that machine gave the run of its processors |
//! | `directory`, `journal`, `salvage`, `redact` | where and how that is written, whatever ends the run; what never leaves |
//! | [`steps`], [`tier`], [`pod`] | the steps and the world that they act on |
//! | [`exposure`] | what of a pod got past its rules |
//! | [`istiod`], [`guard`] | the objects that make a cluster inject pods; those of a policy agent that has to admit them |
//! | [`sweep`] | situations x policies as data, and the table of what was measured |
//! | [`truth`] | the binaries under test as the truth table calls them |
//! | [`vocabulary`] | every step, its description and an example |
//! | [`mutants`] | named defects: which there are, and whether they are caught |

pub mod alone;
pub mod archive;
pub mod back_ends;
pub mod binaries;
pub mod board;
pub mod carried;
pub mod catalogue;
pub mod chart;
pub mod cli;
pub mod components;
#[cfg(feature = "container")]
mod container;
pub mod doctor;
pub mod drawn;
pub mod elf;
pub mod errors;
pub mod evidence;
pub mod exit;
pub mod exposure;
pub mod guard;
pub mod immutable;
pub mod istiod;
pub mod junit;
pub mod lacks;
pub mod ledger;
pub mod list;
pub mod locate;
pub mod machine;
pub mod merge;
pub mod mutants;
pub mod names;
pub mod pack;
pub mod plan;
pub mod pod;
pub mod portable;
pub mod probe;
pub mod product;
pub mod pulse;
pub mod redact;
pub mod report;
pub mod run;
pub mod sandbox;
pub mod sealed;
pub mod steps;
pub mod stop;
pub mod stopwatch;
pub mod stress;
pub mod suite;
pub mod sut;
pub mod sweep;
pub mod tampered;
pub mod tier;
pub mod truth;
pub mod up;
pub mod verdict;
pub mod vocabulary;
pub mod writer;

mod conclusion;
mod directory;
mod journal;
mod salvage;
mod shared;
mod start;
mod termination;

pub use start::start;
