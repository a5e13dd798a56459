// SPDX-License-Identifier: Apache-2.0
//! Sidecar injection as istiod does it, for clusters that have no istiod: a pod goes in as JSON, what its admission would
//! have made of it comes out. Nothing else happens.
//!
//! | module | what it decides |
//! |---|---|
//! | [`config`] | what a mesh says of all its pods |
//! | [`traffic`] | what this pod says of its traffic, and the annotations that say it to the plugin |
//! | [`containers`] | the containers that are added |
//! | [`inject`] | the pod as a whole, and the order of its containers |

pub mod config;
pub mod containers;
pub mod inject;
pub mod traffic;

pub use config::{Config, Mode, Placement, Programming};
pub use inject::{InjectError, inject};
