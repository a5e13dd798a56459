// SPDX-License-Identifier: Apache-2.0
//! The agent's settings: typed, complete, validated. The keys are rows of [`manifests::table`].
//!
//! | module | what |
//! |---|---|
//! | [`layers`] | precedence: flag, watched `ConfigMap`, environment, default |
//! | [`kind`], [`template`] | kinds of values |
//! | [`build`] | texts to [`Settings`]; each group has a file with its type and how it is read |
//! | [`mistake`] | a malformed value |
//! | [`change`] | changes that the running agent applies or rejects |
//! | [`load`] | the settings at the start |
//! | [`effective`] | the same, for another process |

pub mod build;
mod chain;
pub mod change;
pub mod effective;
mod entry;
pub mod kind;
mod kubeconfig;
pub mod layers;
pub mod load;
mod logs;
pub mod mistake;
mod own;
mod places;
mod repair;
mod selectors;
pub mod template;

pub use chain::ChainSettings;
pub use entry::{EntrySettings, NEWEST, OUR_TYPE};
pub use kubeconfig::{ApiAddress, KubeconfigSettings};
pub use layers::Origin;
pub use load::{Loaded, load};
pub use logs::LogSettings;
pub use mistake::Mistake;
pub use own::{Network, OwnPod};
pub use places::Places;
pub use repair::{RepairPolicy, RepairSettings};

/// Every setting. Those of a group change together; which of them can change while the agent runs, the group says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Paths on the node. Fixed: they follow from mounts.
    pub places: Places,
    /// Placement of our entry. Live.
    pub chain: ChainSettings,
    /// Content of our entry. Live.
    pub entry: EntrySettings,
    /// The plugin's credentials. Live.
    pub kubeconfig: KubeconfigSettings,
    /// Repair. Live.
    pub repair: RepairSettings,
    /// The agent's own pod. Fixed.
    pub own: OwnPod,
    /// Logging. The levels are live.
    pub log: LogSettings,
    /// Port of `/metrics`; `None` disables it. Fixed.
    pub monitoring_port: Option<u16>,
    /// `AMBIENT_DISABLE_SAFE_UPGRADE`: uninstall whenever the agent stops.
    pub always_uninstall: bool,
    /// The key of the taint that the agent minds on its own node; `None` for not at all. Fixed.
    pub own_taint: Option<String>,
    /// Obstacle to writing our entry, for people: values that nobody can guess. The runtime's configuration stays as it is, and the
    /// agent is not ready. Empty in the ordinary case.
    pub blocked: Vec<String>,
}
