// SPDX-License-Identifier: Apache-2.0
//! The front: a reverse proxy between an API server and everything on its nodes that asks it. It records requests, and lets go wrong what a
//! feature asks for. It knows nothing of the server behind it but a client, so it stands before the embedded one in process as before a
//! real one over the network.
//!
//! What it decrypts it sends on as it is, credentials included, with three exceptions: a body arrives whole at the server, the client's
//! wish for protobuf becomes one for JSON (every client of Kubernetes accepts both), and `Host` is the server's. Connections that are
//! upgraded (`exec`, `attach`, `portforward`) are carried, and nothing more is known of them.
//!
//! | module | what |
//! |---|---|
//! | `request`, `identity` | what is asked, and by whom: pure |
//! | `rules` | which requests and connections a fault meets: no I/O |
//! | `forward` | to the server and back |
//! | `past` | lists as of a version: pure |
//! | `stream` | a watch, line by line |
//! | `answer` | answers of its own, and broken ones |
//! | [`proxy`] | one request, from its arrival to its answer |

mod answer;
mod forward;
mod identity;
mod past;
pub mod proxy;
mod request;
mod rules;
mod stream;

pub use forward::{Unreachable, Upstream};
pub use proxy::Proxy;
