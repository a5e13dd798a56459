// SPDX-License-Identifier: Apache-2.0
//! Real components: built from their sources into a cache, and started as a cluster without a container engine. Each node has namespaces of
//! its own; everything but cgroups is gone with the process that started it.
//!
//! | module | noun |
//! |---|---|
//! | [`components`] | recipes, the cache, a build |
//! | [`cluster`] | a cluster: control plane, network, nodes |
//! | [`options`] | settings of a cluster |
//! | [`control`] | etcd, API server, controllers, scheduler |
//! | `kubeconfig` | kubeconfigs with a certificate |
//! | [`front`] | who stands before the API server |
//! | [`node`] | runtime and kubelet in a [`place`] |
//! | [`runtime`] | containerd, CRI-O |
//! | [`network`] | the standard plugins, Multus |
//! | `joined`, `kubelets` | an embedded API server as control plane, and the kubelets behind it |
//! | [`place`] | namespaces of a node, and programs in them |
//! | [`program`], [`programs`] | a program that stays, and its log; those of a cluster |
//! | [`image`], [`registry`] | images, and who serves them |
//! | [`family`] | IPv4 and IPv6, or IPv4 alone |
//! | [`quirks`] | what a restricted machine refuses |
//! | [`tools`] | programs that the machine has |
//! | [`cgroups`] | made before, removed after |

pub mod cgroups;
pub mod cluster;
pub mod components;
pub mod control;
pub mod error;
pub mod family;
pub mod front;
pub mod image;
mod joined;
mod kubeconfig;
mod kubelets;
pub mod network;
pub mod node;
pub mod options;
pub mod place;
pub mod program;
pub mod programs;
pub mod quirks;
pub mod registry;
pub mod runtime;
pub mod tools;

pub use cluster::Cluster;
pub use components::{Components, Progress};
pub use error::Error;
pub use options::ClusterOptions;
pub use programs::Programs;
