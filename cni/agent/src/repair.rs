// SPDX-License-Identifier: Apache-2.0
//! Repair: pods that came up without redirection are found, and repaired, deleted or labelled, as the operator wants; whatever their
//! validation says, the rules of all enrolled pods are looked at.
//!
//! | module | what |
//! |---|---|
//! | [`detect`](mod@detect) | whether a pod is repair's business, and broken; pure |
//! | [`decide`] | what is done about which pod, and when; pure |
//! | [`find`](mod@find) | which namespace is a pod's; pure |
//! | [`cache`], [`process`] | who says whose a namespace is |
//! | [`gather`](mod@gather) | all namespaces of the node |
//! | [`ask`], [`child`], [`inside`] | the process that enters namespaces, and how it is asked |
//! | [`worker`], [`actions`] | what drives all of it; what it asks of the API server |
//! | [`probe`], [`packets`] | the proof that traffic is redirected |

pub mod actions;
pub mod ask;
pub mod cache;
pub mod child;
pub mod decide;
pub mod detect;
pub mod find;
pub mod gather;
pub mod inside;
pub mod packets;
pub mod probe;
pub mod process;
pub mod turn;
pub mod worker;
