// SPDX-License-Identifier: Apache-2.0
//! Puts a [`redirect::ruleset::Ruleset`] into a network namespace and reads it back, over netlink: no process is started,
//! no lock file is touched.
//!
//! | module | what it does |
//! |---|---|
//! | [`netns`] | opens and enters a network namespace |
//! | [`node_root`] | finds it by its path on the node, from within a container |
//! | [`owner`] | enters the user namespace that owns it |
//! | [`address`] | lists its addresses, adds the IPv6 inbound helper address |
//! | [`route`] | policy routes, which TPROXY needs |
//! | [`guest`] | links to a guest, whose packets pass below netfilter |
//! | [`ground`] | what rules stand on: the helper address and the policy routes |
//! | [`encode`] | rules to nf_tables messages, as `iptables-nft` 1.8.9 or `nft` 1.0.6 would have written them; pure |
//! | [`expression`] | the expressions of a rule, read back; pure |
//! | [`describe`] | a rule's expressions as a person knows them from `iptables -S` or `nft list`; pure |
//! | [`snapshot`] | all tables, chains and rules of the namespace |
//! | [`read`](mod@read) | reads a snapshot |
//! | [`ours`] | which of them are ours, this version's or another's; pure |
//! | [`plan`] | what has to be sent so that a namespace holds a ruleset; pure |
//! | [`apply`](mod@apply) | makes the current namespace hold a ruleset, in one transaction |
//! | [`step`] | what a refused message of a transaction asked for |
//! | [`found`] | what a namespace holds, ready to be judged and compared; pure |
//! | [`lack`] | what keeps it from redirecting as wanted; pure |
//! | [`look`](mod@look) | reads all of that |
//! | [`program`](mod@program) | all of it: addresses, policy routes, rules through the back end that is right here |
//! | [`flows`] | connections that were open before the rules |
//! | [`backend`] | the back ends, and which one is right |
//! | [`iptables`] | the back ends that use the iptables tools |
//! | [`legacy`] | tables of legacy iptables, which nf_tables does not show |
//! | [`arena`] | an allocator for a process that lives for a millisecond |
//!
//! Everything except [`netns`], [`node_root`] and [`arena`] acts on the namespace of the calling thread.

pub mod address;
pub mod apply;
pub mod arena;
pub mod backend;
pub mod describe;
pub mod encode;
pub mod expression;
pub mod flows;
pub mod found;
pub mod ground;
pub mod guest;
pub mod iptables;
pub mod lack;
pub mod legacy;
pub mod look;
pub mod netns;
pub mod node_root;
pub mod ours;
pub mod owner;
pub mod plan;
pub mod program;
pub mod read;
pub mod route;
pub mod snapshot;
pub mod step;

mod decode;
#[cfg(test)]
mod fake;
mod home;
mod netlink;
mod nft;
mod residue;
#[cfg(test)]
mod robustness;
mod unshare;
mod wanted;
mod wire;

pub use apply::{Applied, ApplyError, Removed, apply, remove};
pub use backend::{Backend, Choice, Reason, Wish};
pub use encode::EncodeError;
pub use found::{compare, found_rules};
pub use look::{LookError, look};
pub use netns::{Netns, NetnsError, NetnsId};
pub use node_root::NodeRoot;
pub use ours::has_rules_of_ours;
pub use plan::PlanError;
pub use program::{ProgramError, Programmed, program};
pub use read::{ReadError, read};
pub use snapshot::Snapshot;
pub use step::Step;
