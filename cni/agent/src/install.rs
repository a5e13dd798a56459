// SPDX-License-Identifier: Apache-2.0
//! Gets the plugin onto the node and keeps it there: binary first, then credentials, the configuration last; and off it in the reverse order.
//!
//! | module | what |
//! |---|---|
//! | [`binaries`] | the plugin's binary |
//! | [`kubeconfig`] | the plugin's credentials |
//! | [`directory`] | the configurations of a directory: read, and changed by a plan |
//! | [`mounts`] | whether a directory that is mounted was deleted or moved on the node |
//! | [`pass`] | looks at all of it and puts right what is not |
//! | [`versions`] | which plugins can do the newest version of the specification |
//! | [`fight`] | what to do about somebody who keeps undoing it |
//! | [`judge`] | what a look means, and when the next one is due |
//! | [`claim`] | which of several agents of a node does all this |
//! | [`task`] | looks, when something changed |
//! | [`uninstall`] | takes everything back |
//! | [`purge`] | the same by hand, wherever it is run |
//! | [`cache`], [`sandboxes`] | whether a runtime, or Multus, still needs the plugin for a DEL |

pub mod binaries;
pub mod cache;
pub mod claim;
pub mod directory;
pub mod fight;
pub mod judge;
pub mod kubeconfig;
pub mod mounts;
pub mod pass;
pub mod purge;
pub mod sandboxes;
pub mod task;
pub mod uninstall;
pub mod versions;

#[cfg(test)]
mod node_tests;

/// The plugin's credentials, in the run directory.
pub const KUBECONFIG: &str = "istio-cni-kubeconfig";
/// The plugin's binary, in the target directories.
pub const BINARY: &str = "istio-cni";
