// SPDX-License-Identifier: Apache-2.0
//! The API server, as far as the agent needs it: single requests with a deadline, and collections that are followed.
//!
//! | module | what |
//! |---|---|
//! | `client` | where the server is; a request and its answer |
//! | `transport`, `tls`, `account`, `token` | connections, whom to trust, which token is sent, and whether a refused one was good |
//! | `error` | every failure, sorted once |
//! | `follow` | list, then watch, for as long as the agent lives; what comes next is decided in `course` |
//! | `list`, `watch` | the two kinds of body, read piece by piece |

mod account;
mod client;
mod course;
mod error;
mod follow;
mod leases;
mod list;
mod resource;
mod tls;
mod token;
mod transport;
mod watch;

#[cfg(test)]
pub(crate) mod testing;

pub use client::{Client, REQUEST_LIMIT, SetupError};
pub use error::{ApiError, Token, Unauthorized};
pub use follow::{Change, Following, Lost, One};
pub use leases::LeaseAt;
pub use resource::{NoNode, Resource};
pub use token::TokenExpiry;
