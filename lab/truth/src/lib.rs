// SPDX-License-Identifier: Apache-2.0
//! The truth table: what `redirect` says of packets against what the kernel does with them, over many configurations and
//! all back ends.
//!
//! A lane is a thread with namespaces of its own: a pod, a guest behind it, and everything outside. For each configuration a writer (the
//! production library, or whatever the caller has: the lab has the binaries under test) programs the pod; then packets are sent for real, one after the other, from sockets of the users that the
//! rules speak of, and after each the counters of all rules are read. Nothing else speaks in there, so what moved is the packet's
//! doing. No process is started per packet, which is what makes thousands of packets a matter of seconds.
//!
//! | module | what it does |
//! |---|---|
//! | [`settings`] | a configuration as the reference corpora write it |
//! | [`data`] | the configurations: written by hand, from the corpora, random |
//! | [`packet`], [`derive`](mod@derive), [`random`] | the packets of a configuration |
//! | [`net`], [`socket`], [`segment`] | namespaces, sockets with an owner, bytes of raw packets |
//! | [`forget`] | an end to rules and connections of the configuration before |
//! | [`exchange`] | sends a packet and sees who got it |
//! | [`counters`] | the rules of a namespace with their counters |
//! | [`fates`] | fates of packets that were recorded with upstream's rules |
//! | [`flow`] | a connection: its packets at every hook that they meet |
//! | [`expect`](mod@expect) | what the evaluator says |
//! | [`writer`] | who programs the pods |
//! | [`command_line`] | a configuration as a call of `istio-iptables` |
//! | [`lane`] | a thread's work |
//! | [`unreachable`](mod@unreachable) | rules that no packet can meet, with the reason |
//! | [`findings`] | what it all came to; pure |

pub mod command_line;
pub mod counters;
pub mod data;
pub mod derive;
pub mod exchange;
pub mod expect;
pub mod fates;
pub mod findings;
pub mod flow;
pub mod forget;
pub mod lane;
pub mod net;
mod nfnetlink;
pub mod packet;
pub mod random;
pub mod segment;
pub mod settings;
pub mod socket;
pub mod unreachable;
pub mod writer;

pub use command_line::CommandLine;
pub use fates::Fates;
pub use findings::Findings;
pub use lane::{Judge, Plan, run};
pub use netfilter::Backend;
pub use unreachable::Unreachable;
pub use writer::{Library, Refusal, Writer};
