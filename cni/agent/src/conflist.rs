// SPDX-License-Identifier: Apache-2.0
//! Configurations of container networks: which of a directory's files a runtime reads, and what has to change so that our entry is in it.
//! Pure: files come in as text, changes go out as steps.
//!
//! | module | what |
//! |---|---|
//! | [`document`] | a file's text: what it says and where, and whether runtimes take it |
//! | [`splice`] | our entry in and out of a list, every other byte as it was |
//! | [`entry`] | our entry |
//! | [`scan`] | a directory's files in the order in which runtimes look at them |
//! | [`networks`] | the directory's networks by name |
//! | [`unused`] | lists that are no network of pods |
//! | [`plan`] | what to write and remove, and whether what is there is right |
//! | [`copy`] | lists of our own that repeat the primary's: their names, and how they are recognized |
//! | [`multus`] | Multus' configuration: which network it attaches, and whether that has our entry |
//! | [`leave`] | what to write and remove so that nothing of ours is left |

pub mod copy;
pub mod document;
pub mod entry;
pub mod leave;
pub mod multus;
pub mod networks;
pub mod plan;
pub mod scan;
pub mod splice;
pub mod unused;

#[cfg(test)]
mod change_tests;
#[cfg(test)]
mod copy_tests;
#[cfg(test)]
mod networks_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod raise_tests;

pub use crate::settings::{NEWEST, OUR_TYPE};
