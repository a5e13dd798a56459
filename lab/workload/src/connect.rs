// SPDX-License-Identifier: Apache-2.0
//! An app's own init container that needs the network: says who answered, and fails if nobody did.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use cluster::{Answer, Traffic, Transport};
use tokio::time::{Instant, interval};

use crate::{client, line};

/// Deadline and interval of its attempts: a sidecar that starts before it may listen a moment later.
const TRIES: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_millis(200);

/// Connects to an address over TCP.
///
/// # Errors
/// The kernel refuses the socket.
pub async fn run(to: SocketAddr) -> io::Result<ExitCode> {
    let traffic = Traffic {
        transport: Transport::Tcp,
        destination: to.ip(),
        port: to.port(),
        uid: 0,
        gid: 0,
        source_port: 0,
    };
    let (began, mut due) = (Instant::now(), interval(INTERVAL));
    loop {
        due.tick().await;
        match client::send(&traffic, TRIES).await? {
            Answer::App { via, .. } => {
                let way = if via.is_empty() { "directly" } else { "through a proxy" };
                line::announce(&format!("{to} answered {way}"))?;
                return Ok(ExitCode::SUCCESS);
            }
            answer if began.elapsed() >= TRIES => {
                line::announce(&format!("{to} did not answer: {answer:?}"))?;
                return Ok(ExitCode::FAILURE);
            }
            _ => {}
        }
    }
}
