// SPDX-License-Identifier: Apache-2.0
//! Connections that the API server makes itself, through [`crate::network`]. Failures are in the words of Go's `net`.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::shared::Shared;

/// # Errors
/// Nobody answers there.
pub(crate) async fn dial(shared: &Shared, address: SocketAddr) -> Result<TcpStream, String> {
    let failed = |why: String| format!("dial tcp {address}: connect: {why}");
    let network = shared.network().get().ok_or_else(|| failed("network is unreachable".to_owned()))?;
    network.connect(address).await.map_err(|error| failed(spelled(&error)))
}

/// A system call's failure, as Go writes it.
pub(crate) fn spelled(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}
