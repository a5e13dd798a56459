// SPDX-License-Identifier: Apache-2.0
//! The container runtime between the CNI directory and a pod: a list that is written is not a list that is loaded.
//!
//! | module | what |
//! |---|---|
//! | [`adds`] | whether the runtime goes by our entry, by the ADDs that come; pure |
//! | [`cri`] | asks the runtime at its socket |
//! | [`kind`] | which runtime a node has |
//! | [`loaded`] | whether the runtime has loaded our entry; pure |
//! | [`follow`] | publishes that as a part of readiness, and asks for the kind |

pub mod adds;
pub mod cri;
pub mod follow;
pub mod kind;
pub mod loaded;

pub use follow::Runtime;
pub use kind::RuntimeKind;
