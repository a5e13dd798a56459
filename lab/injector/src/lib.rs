// SPDX-License-Identifier: Apache-2.0
//! Sidecar injection as istiod does it, for clusters that have no istiod: a pod goes in as JSON, what its admission would
//! have made of it comes out. Nothing else happens.
//!
//! | module | what it decides |
//! |---|---|
//! | [`config`] | what a mesh says of all its pods |
//! | `error` | errors of injection |
//! | `documents` | what a mesh's documents say of it |
//! | [`traffic`] | what this pod says of its traffic, and the annotations that say it to the plugin |
//! | [`containers`] | the containers that are added |
//! | [`openshift`] | who the proxy is where a platform assigns users to namespaces |
//! | `networks` | how a pod asks Multus for the plugin |
//! | `overrides` | pods that declare a proxy of their own |
//! | [`inject`](mod@inject) | the pod as a whole, and the order of its containers |
//! | `validate` | annotations that refuse a pod |
//! | `workload` | labels and annotations that every injected pod gets |
//! | [`review`] | which pods are injected, as the webhook answers |
//! | `patch` | two documents as a JSON patch |

pub mod config;
pub mod containers;
mod documents;
mod error;
pub mod inject;
mod networks;
pub mod openshift;
mod overrides;
mod patch;
pub mod review;
pub mod traffic;
mod validate;
mod workload;

pub use config::{Config, Mode, Placement, Platform, Programming, Provider};
pub use error::InjectError;
pub use inject::inject;
pub use review::{allowed, answer};
