// SPDX-License-Identifier: Apache-2.0
//! Listening sockets of both families. IPv4 and IPv6 get a socket each, so that an address is never seen in its mapped
//! form; a kernel without IPv6 gets the IPv4 one only.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::str::FromStr;

use cluster::Transport;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{IpTransparent, Ipv6V6Only, ReuseAddr};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
};
use tokio::net::{TcpListener, UdpSocket};

/// A port to listen on, as `tcp:8080` or `udp:9000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// TCP or UDP.
    pub transport: Transport,
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        write!(out, "{transport}:{}", self.port)
    }
}

/// Malformed [`Endpoint`].
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is neither tcp:PORT nor udp:PORT")]
pub struct NotAnEndpoint(String);

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || NotAnEndpoint(text.to_owned());
        let (transport, port) = text.split_once(':').ok_or_else(wrong)?;
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            _ => return Err(wrong()),
        };
        Ok(Self { transport, port: port.parse().map_err(|_| wrong())? })
    }
}

/// Local addresses to bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// All of them.
    Any,
    /// All of them, and those of others that a TPROXY rule hands over. Needs `CAP_NET_ADMIN`.
    Transparent,
    /// `127.0.0.1` and `::1`: an answer to a redirected datagram then has the source that conntrack expects.
    Loopback,
}

impl On {
    fn addresses(self) -> [IpAddr; 2] {
        match self {
            Self::Any | Self::Transparent => [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
            Self::Loopback => [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        }
    }
}

/// TCP listeners on `port`. Must be called inside a runtime.
pub fn tcp(on: On, port: u16) -> io::Result<Vec<TcpListener>> {
    let sockets = both(on, port, SockType::Stream)?;
    sockets.into_iter().map(|fd| TcpListener::from_std(fd.into())).collect()
}

/// UDP sockets on `port`. Must be called inside a runtime.
pub fn udp(on: On, port: u16) -> io::Result<Vec<UdpSocket>> {
    let sockets = both(on, port, SockType::Datagram)?;
    sockets.into_iter().map(|fd| UdpSocket::from_std(fd.into())).collect()
}

fn both(on: On, port: u16, kind: SockType) -> io::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::with_capacity(2);
    for address in on.addresses() {
        match bound(on, SocketAddr::new(address, port), kind) {
            Ok(socket) => sockets.push(socket),
            // No IPv6 in this kernel, or switched off in this namespace.
            Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) if address.is_ipv6() => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(sockets)
}

fn bound(on: On, at: SocketAddr, kind: SockType) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, kind, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    if at.is_ipv6() {
        setsockopt(&fd, Ipv6V6Only, &true)?;
    }
    if kind == SockType::Stream {
        setsockopt(&fd, ReuseAddr, &true)?;
    }
    if on == On::Transparent {
        setsockopt(&fd, IpTransparent, &true)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(at))?;
    if kind == SockType::Stream {
        listen(&fd, Backlog::MAXCONN)?;
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_they_are_written() {
        for text in ["tcp:8080", "udp:53"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["8080", "sctp:1", "tcp:", "tcp:65536", "tcp:1:2"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn both_families_listen_on_the_same_port() {
        let probe = tcp(On::Loopback, 0).unwrap();
        let port = probe[0].local_addr().unwrap().port();
        drop(probe);
        let sockets = tcp(On::Any, port).unwrap();
        assert!(sockets[0].local_addr().unwrap().is_ipv4());
        assert!(sockets.len() == 1 || sockets[1].local_addr().unwrap().is_ipv6());
    }
}
