// SPDX-License-Identifier: Apache-2.0
//! From a pod to its redirection rules, and from a packet to what those rules do with it.
//!
//! Pure: no I/O, no clock, no environment. Others gather ([`protocol::pod::PodFacts`], addresses) and apply (`netfilter`).
//!
//! | module | what it decides |
//! |---|---|
//! | [`skip`] | why a pod is left alone; what can be decided from a pod's name |
//! | [`enrol`](mod@enrol) | whether a pod is redirected, and how |
//! | [`annotations`], [`go`], [`list`] | what an annotation may say, in which words it is refused, what it means |
//! | [`parameters`] | what a pod asks for, each value with its source (`source`) |
//! | [`accounts`] | the numbers of users and groups that are named |
//! | [`host`] | what the namespace's addresses and the process' environment add |
//! | [`command_line`], [`dns`] | what a command line may say; which resolvers a `resolv.conf` names |
//! | [`config`] | everything that rules are generated from |
//! | [`generate`] | the rules |
//! | [`ruleset`] | the intermediate form that text, netlink messages and verdicts are derived from |
//! | [`text`] | restore text, nft commands |
//! | [`found`] | rules as somebody found them, read from what the tools print |
//! | [`overtaken`](mod@overtaken) | nat chains of others that come before ours |
//! | [`packet`], [`verdict`](mod@verdict) | a packet, and what the rules do with it |

#![warn(missing_docs)]

pub mod accounts;
pub mod annotations;
pub mod command_line;
pub mod config;
pub mod dns;
pub mod enrol;
pub mod found;
pub mod generate;
pub mod go;
pub mod host;
pub mod list;
pub mod overtaken;
pub mod packet;
pub mod parameters;
mod proxy;
pub mod ruleset;
pub mod sandbox;
pub mod shared;
pub mod skip;
mod source;
pub mod text;
pub mod verdict;

pub use config::Config;
pub use enrol::{Enrolment, enrol, enrol_by};
pub use parameters::Redirect;
pub use proxy::lacks_pod_context;
