// SPDX-License-Identifier: Apache-2.0
//! Stands in for the sidecar proxy: takes redirected connections, says what their original destination was, and in the
//! mode [`Mode::Forward`] carries the exchange on to it as its own user.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::ValueEnum;
use cluster::{Answer, ProxyHop};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{Ip6tOriginalDst, OriginalDst};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::listen::{self, On};
use crate::upstream::{self, Interception};
use crate::{line, own};

/// Port for captured outbound connections.
pub const OUTBOUND: u16 = 15001;
/// Port for captured inbound connections.
pub const INBOUND: u16 = 15006;
/// Ports that the real proxy serves by itself: merged metrics, health, its own metrics.
pub const OWN: [u16; 3] = [15020, 15021, 15090];

/// Deadline of the far side; shorter than a client's, so that the client hears of it from the proxy.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Handling of a captured connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Carry it on to its original destination.
    Forward,
    /// Answer it; no packet follows from it.
    Sink,
}

/// Listens on all the proxy's ports in both families and serves until it is killed.
pub async fn run(mode: Mode, interception: Interception) -> anyhow::Result<()> {
    // A real proxy comes up long after the kernel has got round to it.
    own::until_own_on_lo(upstream::SOURCE_V6).await?;
    let inbound = match interception {
        Interception::Redirect => On::Any,
        Interception::Tproxy => On::Transparent,
    };
    let captured = [(OUTBOUND, On::Any, mode), (INBOUND, inbound, mode)];
    let own = OWN.map(|port| (port, On::Any, Mode::Sink));
    for (port, on, mode) in captured.into_iter().chain(own) {
        let place = CapturePort { port, mode, interception };
        for listener in listen::tcp(on, port)? {
            tokio::spawn(accept(listener, place));
        }
    }
    line::announce("ready proxy")?;
    pending().await
}

/// Listener's port, and its handling.
#[derive(Debug, Clone, Copy)]
struct CapturePort {
    port: u16,
    mode: Mode,
    interception: Interception,
}

async fn accept(listener: TcpListener, place: CapturePort) {
    loop {
        if let Ok((stream, peer)) = listener.accept().await {
            tokio::spawn(serve(stream, peer, place));
        }
    }
}

async fn serve(mut stream: TcpStream, peer: SocketAddr, place: CapturePort) -> io::Result<()> {
    let CapturePort { port, mode, interception } = place;
    let original = original_destination(&stream, port)?;
    let hop = ProxyHop { port, original: original.to_string(), peer: peer.to_string() };
    let request = line::read(&mut stream).await?;
    let forwarded = match mode {
        Mode::Forward if original.port() != port => {
            let client = (port == INBOUND).then_some(peer.ip());
            let exchange = forward(request, original, interception.source(client));
            tokio::time::timeout(PATIENCE, exchange).await.ok().and_then(Result::ok)
        }
        _ => None,
    };
    line::write(&mut stream, &through(hop, forwarded)).await
}

/// Answer to the client for one that came through `hop`, or for none.
pub(crate) fn through(hop: ProxyHop, answer: Option<Answer>) -> Answer {
    match answer {
        Some(Answer::App { port, peer, mut via }) => {
            via.insert(0, hop);
            Answer::App { port, peer, via }
        }
        Some(beyond @ Answer::Proxy { .. }) => beyond,
        Some(Answer::Refused | Answer::Silence) | None => Answer::Proxy { hop },
    }
}

/// Where the connection was addressed to before the rules changed it; its local address if nothing changed it, which is all
/// that TPROXY needs.
pub(crate) fn original_destination(stream: &TcpStream, port: u16) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    if local.port() != port {
        return Ok(local);
    }
    let before = match local {
        SocketAddr::V4(_) => getsockopt(stream, OriginalDst).map(|raw| {
            let address = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
            SocketAddr::from((address, u16::from_be(raw.sin_port)))
        }),
        SocketAddr::V6(_) => getsockopt(stream, Ip6tOriginalDst).map(|raw| {
            SocketAddr::from((Ipv6Addr::from(raw.sin6_addr.s6_addr), u16::from_be(raw.sin6_port)))
        }),
    };
    // Conntrack does not know the connection (ENOENT, or ENOPROTOOPT without conntrack): nothing was changed.
    Ok(before.unwrap_or(local))
}

async fn forward(mut request: String, to: SocketAddr, from: upstream::Source) -> io::Result<Answer> {
    let mut stream = upstream::connect(to, from).await?;
    request.push('\n');
    stream.write_all(request.as_bytes()).await?;
    Ok(serde_json::from_str(&line::read(&mut stream).await?)?)
}
