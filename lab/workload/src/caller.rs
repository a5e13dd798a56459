// SPDX-License-Identifier: Apache-2.0
//! The caller: opens a connection to each sender that asks over UDP, and sends it the answer. Where the app itself answered, with no proxy on the way,
//! that comes from a port of its own: whoever captures packets here sees how many got past.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cluster::traffic::{CALLED, CALLER, PAST};
use cluster::{Answer, Traffic, Transport};
use tokio::net::UdpSocket;

use crate::listen::{self, On};
use crate::{client, line};

/// Deadline of a connection: below the first retransmission, as a sender's.
const DEADLINE: Duration = Duration::from_millis(900);

/// Sockets of a family.
#[derive(Debug)]
struct Sockets {
    asked: UdpSocket,
    past: UdpSocket,
}

/// Listens in both families, says so on standard output, and calls until it is killed.
pub async fn run() -> io::Result<()> {
    for (asked, past) in listen::udp(On::Any, CALLER)?.into_iter().zip(listen::udp(On::Any, PAST)?) {
        tokio::spawn(calls(Arc::new(Sockets { asked, past })));
    }
    line::announce("ready caller")?;
    pending().await
}

async fn calls(sockets: Arc<Sockets>) {
    let mut buffer = [0; 2048];
    loop {
        // ECONNREFUSED arrives here when a sender is gone.
        if let Ok((_, sender)) = sockets.asked.recv_from(&mut buffer).await {
            tokio::spawn(call(Arc::clone(&sockets), sender));
        }
    }
}

async fn call(sockets: Arc<Sockets>, sender: SocketAddr) -> io::Result<()> {
    let traffic = Traffic {
        transport: Transport::Tcp,
        destination: sender.ip(),
        port: CALLED,
        uid: 0,
        gid: 0,
        source_port: 0,
    };
    let answer = client::send(&traffic, DEADLINE).await?;
    let from = match &answer {
        // Nobody listens: neither the sender nor a proxy.
        Answer::Refused | Answer::Silence => return Ok(()),
        Answer::App { via, .. } if via.is_empty() => &sockets.past,
        Answer::App { .. } | Answer::Proxy { .. } => &sockets.asked,
    };
    from.send_to(&line::encode(&answer)?, sender).await.map(drop)
}
