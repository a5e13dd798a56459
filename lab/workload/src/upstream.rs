// SPDX-License-Identifier: Apache-2.0
//! The proxy's own connections: which source they have, so that rules know them by it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{IpTransparent, Mark};
use tokio::net::{TcpSocket, TcpStream};

/// Source address of forwarded inbound connections.
pub const SOURCE_V4: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);
/// The same in IPv6; `lo` has it only where somebody added it.
pub const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);

/// The mark of connections that carry the client's address as their source: policy routes bring the answers back.
const MARK: u32 = 1337;

/// Variable with another mark.
const MARK_VARIABLE: &str = "ISTIO_INBOUND_TPROXY_MARK";

/// The variable by which an injector tells the proxy how its inbound traffic is caught.
pub const INTERCEPTION: &str = "ISTIO_META_INTERCEPTION_MODE";

/// Interception mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interception {
    /// NAT: the app sees an address of the proxy's own.
    Redirect,
    /// TPROXY: the app sees the client's address.
    Tproxy,
}

/// Source address of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The kernel's choice.
    Any,
    /// [`SOURCE_V4`] or [`SOURCE_V6`].
    Helper,
    /// Address of the client.
    Client(IpAddr),
}

impl Interception {
    /// Reads the environment.
    #[must_use]
    pub fn of_environment() -> Self {
        match std::env::var(INTERCEPTION) {
            Ok(mode) if mode == "TPROXY" => Self::Tproxy,
            _ => Self::Redirect,
        }
    }

    /// The source of a connection that carries on an inbound one of `client`; outbound there is none.
    #[must_use]
    pub fn source(self, client: Option<IpAddr>) -> Source {
        match (self, client) {
            (_, None) => Source::Any,
            (Self::Redirect, Some(_)) => Source::Helper,
            (Self::Tproxy, Some(client)) => Source::Client(client),
        }
    }
}

fn mark() -> u32 {
    std::env::var(MARK_VARIABLE).ok().and_then(|mark| mark.parse().ok()).unwrap_or(MARK)
}

/// Connects to `to` from a source of this kind.
///
/// # Errors
/// The source cannot be taken, or nobody answers.
pub async fn connect(to: SocketAddr, from: Source) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    match from {
        Source::Any => {}
        Source::Helper => {
            let helper = if to.is_ipv4() { IpAddr::V4(SOURCE_V4) } else { IpAddr::V6(SOURCE_V6) };
            socket.bind(SocketAddr::new(helper, 0))?;
        }
        Source::Client(client) => {
            setsockopt(&socket, IpTransparent, &true)?;
            setsockopt(&socket, Mark, &mark())?;
            socket.bind(SocketAddr::new(client, 0))?;
        }
    }
    socket.connect(to).await
}
