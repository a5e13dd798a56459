// SPDX-License-Identifier: Apache-2.0
//! The network that the API server is in, for connections that it makes itself.

use std::io;
use std::net::SocketAddr;

use futures::future::BoxFuture;
use tokio::net::TcpStream;

/// Network of the control plane.
pub trait Network: Send + Sync {
    fn connect(&self, to: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}
