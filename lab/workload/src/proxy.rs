// SPDX-License-Identifier: Apache-2.0
//! Stands in for the sidecar proxy: takes redirected connections, says what their original destination was, and in the
//! mode [`Mode::Forward`] carries the exchange on to it as its own user.

use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::ValueEnum;
use cluster::{Answer, ProxyHop};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{Ip6tOriginalDst, OriginalDst};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use crate::line;
use crate::listen::{self, On};
use crate::own;

/// Captured outbound connections arrive here.
pub const OUTBOUND: u16 = 15001;
/// Captured inbound connections arrive here.
pub const INBOUND: u16 = 15006;
/// DNS of the pod arrives here, when it is captured.
pub const DNS: u16 = 15053;
/// Ports that the real proxy serves by itself: merged metrics, health, its own metrics.
pub const OWN: [u16; 3] = [15020, 15021, 15090];

/// The sources of forwarded inbound connections, as the real proxy uses them: rules know them by these.
const INBOUND_SOURCE_V4: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);
const INBOUND_SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);

/// How long the far side may take; less than a client waits, so that the client hears of it from us.
const PATIENCE: Duration = Duration::from_millis(1000);

/// What to do with a captured connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Carry it on to its original destination.
    Forward,
    /// Answer it; no packet follows from it.
    Sink,
}

/// Listens on all the proxy's ports in both families and serves until it is killed.
pub async fn run(mode: Mode) -> anyhow::Result<()> {
    // A real proxy comes up long after the kernel has got round to it.
    own::until_own_on_lo(INBOUND_SOURCE_V6).await?;
    for (port, on) in [(OUTBOUND, On::Any), (INBOUND, On::Any), (DNS, On::Loopback)] {
        for listener in listen::tcp(on, port)? {
            tokio::spawn(accept(listener, port, if port == DNS { Mode::Sink } else { mode }));
        }
    }
    for port in OWN {
        for listener in listen::tcp(On::Any, port)? {
            tokio::spawn(accept(listener, port, Mode::Sink));
        }
    }
    for socket in listen::udp(On::Loopback, DNS)? {
        tokio::spawn(datagrams(socket));
    }
    line::announce("ready proxy")?;
    pending().await
}

async fn accept(listener: TcpListener, port: u16, mode: Mode) {
    loop {
        if let Ok((stream, peer)) = listener.accept().await {
            tokio::spawn(serve(stream, peer, port, mode));
        }
    }
}

async fn serve(mut stream: TcpStream, peer: SocketAddr, port: u16, mode: Mode) -> io::Result<()> {
    let original = original_destination(&stream)?;
    let hop = ProxyHop { port, original: original.to_string(), peer: peer.to_string() };
    let request = line::read(&mut stream).await?;
    let forwarded = match mode {
        Mode::Forward if original.port() != port => {
            let exchange = forward(request, original, port);
            tokio::time::timeout(PATIENCE, exchange).await.ok().and_then(Result::ok)
        }
        _ => None,
    };
    let answer = match forwarded {
        Some(Answer::App { port, peer, mut via }) => {
            via.insert(0, hop);
            Answer::App { port, peer, via }
        }
        Some(beyond @ Answer::Proxy { .. }) => beyond,
        Some(Answer::Refused | Answer::Silence) | None => Answer::Proxy { hop },
    };
    line::write(&mut stream, &answer).await
}

/// Where the connection was addressed to before the rules changed it; its local address if nothing changed it.
fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
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

async fn forward(mut request: String, to: SocketAddr, port: u16) -> io::Result<Answer> {
    let mut stream = connect(to, port).await?;
    request.push('\n');
    stream.write_all(request.as_bytes()).await?;
    Ok(serde_json::from_str(&line::read(&mut stream).await?)?)
}

async fn connect(to: SocketAddr, port: u16) -> io::Result<TcpStream> {
    let fresh = || if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let mut socket = fresh()?;
    if port == INBOUND {
        let source = if to.is_ipv4() { INBOUND_SOURCE_V4.into() } else { IpAddr::V6(INBOUND_SOURCE_V6) };
        if socket.bind(SocketAddr::new(source, 0)).is_err() {
            // `::6` is on `lo` only where somebody put it.
            socket = fresh()?;
        }
    }
    socket.connect(to).await
}

async fn datagrams(socket: UdpSocket) -> io::Result<()> {
    let local = socket.local_addr()?;
    let mut buffer = [0; 2048];
    loop {
        if let Ok((_, peer)) = socket.recv_from(&mut buffer).await {
            // The kernel does not tell the original destination of a datagram that REDIRECT changed.
            let hop = ProxyHop { port: DNS, original: local.to_string(), peer: peer.to_string() };
            let _gone = socket.send_to(&line::encode(&Answer::Proxy { hop })?, peer).await;
        }
    }
}
