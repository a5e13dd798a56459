// SPDX-License-Identifier: Apache-2.0
//! From a pod to its redirection rules, and from a packet to what those rules do with it.
//!
//! Pure: no I/O, no clock, no environment. Others gather ([`protocol::pod::PodFacts`], addresses) and apply (`netfilter`).
//!
//! | module | noun |
//! |---|---|
//! | [`ruleset`] | the intermediate form that text, netlink messages and verdicts are derived from |
//! | [`packet`] | a packet, as a verdict needs it |

pub mod packet;
pub mod ruleset;
