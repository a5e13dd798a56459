// SPDX-License-Identifier: Apache-2.0
//! The processes that live in the lab's pods, and the lab's base CNI plugin. They share one binary and one line
//! protocol: who connects sends one line, who answers sends one line of JSON ([`cluster::Answer`]).
//!
//! | module | what it is |
//! |---|---|
//! | [`cli`] | the subcommands |
//! | [`app`] | the application: answers on its ports |
//! | [`client`] | sends traffic and reports who answered |
//! | [`sender`] | sends from the first instruction on, whatever becomes of it |
//! | [`caller`] | opens a connection to whoever asks, and tells who answered |
//! | [`stray`] | sends a segment of no connection |
//! | [`proxy`], [`upstream`] | stands in for the sidecar proxy; its own connections |
//! | [`dns`] | stands in for the DNS side of the sidecar's agent |
//! | [`guest`] | stands in for a virtual machine in the pod |
//! | [`hand`] | runs programs on a node and in its pods' networks |
//! | [`network`], [`disturb`] | lists and compares what is in a network; changes it as a stranger would |
//! | [`injector`] | injection as a webhook |
//! | [`wire`], [`translate`] | a node's link to the others; services and masquerading in its nat chains |
//! | [`agent`] | stands in for the node agent's socket |
//! | [`node`] | the first process of a node of real components |
//! | [`record`] | a CNI plugin whose calls are written down |
//! | [`oci`] | an OCI runtime on a restricted machine |
//! | [`kernel`] | runs a program on a kernel that lacks something |
//! | [`basenet`] | the base CNI plugin `lab-net` |
//! | [`multus`] | stands in for Multus, thin and thick |
//! | [`chained`] | stands in for the plugins of other networks |
//! | [`listen`], [`line`](mod@line) | sockets of both families; reading and writing lines |
//! | [`own`] | waiting until the kernel takes an address for its own |

pub mod agent;
pub mod app;
pub mod basenet;
pub mod caller;
pub mod chained;
pub mod cli;
pub mod client;
pub mod connect;
pub mod disturb;
pub mod dns;
pub mod guest;
pub mod hand;
pub mod injector;
pub mod kernel;
pub mod line;
pub mod listen;
pub mod multus;
pub mod network;
pub mod node;
pub mod oci;
pub mod own;
pub mod proxy;
pub mod record;
pub mod sender;
pub mod stray;
pub mod translate;
pub mod upstream;
pub mod wire;
