// SPDX-License-Identifier: Apache-2.0
//! One packet, sent for real, and everything that follows from it: who got it, as what, and whether an answer came back.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use nix::sys::socket::{MsgFlags, SockProtocol, SockaddrStorage, recv, sendto};
use redirect::Config;
use redirect::config::DNS_PORT;
use redirect::host::loopback;
use redirect::ruleset::Family;

use crate::derive::{APP, proxy, proxy_ports};
use crate::flow::Owner;
use crate::net::{Net, Place};
use crate::packet::{Kind, Spec};
use crate::{segment, socket};

/// Timeout for a packet's arrival, or its reply. Everything happens within one kernel; this allows for contention, and is shorter than TCP's
/// retransmission timeout.
pub const PATIENCE: Duration = Duration::from_millis(800);

/// The same on a machine that has something else to do: at a load of 33 on two cores one packet came too late. What TCP sends again meets the same rules.
pub const MORE_PATIENCE: Duration = Duration::from_secs(5);

/// Time to wait for a reply that should not come.
const GLANCE: Duration = Duration::from_millis(3);

/// Payload in both directions.
const WORD: &[u8] = b"w";

/// Observed outcome of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A socket.
    Got {
        /// Where it is.
        place: Place,
        /// The port that it listens on.
        port: u16,
        /// The address that it finds the packet sent to; not known of a datagram.
        local: Option<SocketAddr>,
        /// The sender as it finds it.
        peer: SocketAddr,
        /// The destination before redirection, as conntrack tells it; not known of a datagram.
        original: Option<SocketAddr>,
        /// True if the sender got the reply.
        is_answered: bool,
    },
    /// The kernel itself answered.
    Answered,
    /// Nobody said anything.
    Silence,
    /// The packet could not be sent, or was refused.
    Refused(ErrorKind),
}

/// The proxy's listeners, and the port that each is on.
#[derive(Debug)]
pub struct Proxy {
    owner: Owner,
    streams: Vec<(u16, Family, TcpListener)>,
    datagrams: Vec<(u16, Family, UdpSocket)>,
}

impl Proxy {
    /// Listens in the pod, as the proxy of a configuration.
    pub fn listen(config: &Config) -> io::Result<Self> {
        let owner = proxy(config);
        let mut made = Self { owner, streams: Vec::new(), datagrams: Vec::new() };
        let ports = proxy_ports(config);
        socket::as_owner(owner, || {
            for family in [Family::V4, Family::V6] {
                for &port in &ports {
                    let at = SocketAddr::new(socket::any(family), port);
                    made.streams.push((port, family, socket::listener(at)?));
                }
                // The answer to a redirected datagram must come from the address that it was redirected to.
                let at = SocketAddr::new(loopback(family), DNS_PORT);
                made.datagrams.push((DNS_PORT, family, socket::datagrams(at, 0)?));
            }
            Ok(())
        })?;
        Ok(made)
    }
}

/// Sends a packet and sees what becomes of it. An answer that is expected is waited for as long as `patience` says.
pub fn send(
    net: &Net,
    proxy: &Proxy,
    spec: &Spec,
    port: u16,
    patience: Option<Duration>,
) -> anyhow::Result<Seen> {
    let way = Way { net, proxy, spec, from: SocketAddr::new(spec.source, port), patience };
    let seen = match spec.kind {
        Kind::Tcp => way.tcp(),
        Kind::Udp => way.udp(),
        Kind::Echo => way.kernel(SockProtocol::Icmp),
        Kind::Stray => way.kernel(SockProtocol::Tcp),
    }?;
    match seen {
        Ok(seen) => Ok(seen),
        Err(error) => match error.kind() {
            // EPERM, which is this kind: a rule of the output hook dropped it.
            kind @ (ErrorKind::PermissionDenied
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable) => Ok(Seen::Refused(kind)),
            _ => Err(error.into()),
        },
    }
}

struct Way<'a> {
    net: &'a Net,
    proxy: &'a Proxy,
    spec: &'a Spec,
    from: SocketAddr,
    /// `None` if no answer is expected.
    patience: Option<Duration>,
}

impl Way<'_> {
    fn patience(&self) -> Duration {
        self.patience.unwrap_or(GLANCE)
    }

    /// Makes the sender's socket.
    fn client<T>(&self, make: impl FnOnce() -> io::Result<T>) -> anyhow::Result<io::Result<T>> {
        let owner = if self.spec.from == Place::Pod { self.spec.sender } else { APP };
        self.net.at(self.spec.from, || socket::as_owner(owner, make))
    }

    /// Makes the socket at the destination, unless the proxy listens there.
    fn server<T>(
        &self,
        taken: bool,
        make: impl FnOnce(SocketAddr) -> io::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        if taken {
            return Ok(None);
        }
        let at = self.spec.destination;
        let (place, port) = (self.spec.place(), at.port());
        let of_proxy = place == Place::Pod && self.proxy.streams.iter().any(|(own, ..)| *own == port);
        let owner = if of_proxy { self.proxy.owner } else { APP };
        Ok(Some(self.net.at(place, || socket::as_owner(owner, || make(at)))??))
    }

    fn tcp(&self) -> anyhow::Result<io::Result<Seen>> {
        let (family, port) = (self.spec.family(), self.spec.destination.port());
        let streams = || self.proxy.streams.iter().filter(|(_, of, _)| *of == family);
        let taken = self.spec.place() == Place::Pod && streams().any(|(at, ..)| *at == port);
        let app =
            self.server(taken, |at| socket::listener(SocketAddr::new(socket::any(family), at.port())))?;
        let own = app.iter().map(|listener| (self.spec.place(), port, APP, listener));
        let proxies = streams().map(|(port, _, at)| (Place::Pod, *port, self.proxy.owner, at));
        let listeners: Vec<_> = own.chain(proxies).collect();
        let client = match self.client(|| socket::begin(self.from, self.spec.destination, self.spec.mark))? {
            Ok(client) => client,
            Err(error) => return Ok(Err(error)),
        };
        let all: Vec<&dyn AsFd> = listeners.iter().map(|(.., at)| *at as &dyn AsFd).collect();
        let Some(which) = socket::wait(&all, self.patience())? else {
            return Ok(client.take_error()?.map_or(Ok(Seen::Silence), Err));
        };
        let (place, port, owner, listener) = listeners[which];
        let stream = socket::as_owner(owner, || Ok(listener.accept()?.0))?;
        let (local, peer) = (Some(stream.local_addr()?), stream.peer_addr()?);
        let original = socket::original(&stream);
        let is_answered = self.converse(client, stream).unwrap_or(false);
        Ok(Ok(Seen::Got { place, port, local, peer, original, is_answered }))
    }

    /// A word each way, then a reset. Returns once both ends know of it.
    fn converse(&self, mut client: TcpStream, mut server: TcpStream) -> io::Result<bool> {
        let mut word = [0; WORD.len()];
        client.write_all(WORD)?;
        if socket::wait(&[&server], self.patience())?.is_none() {
            return Ok(false);
        }
        server.read_exact(&mut word)?;
        server.write_all(WORD)?;
        let is_answered = socket::wait(&[&client], self.patience())?.is_some();
        drop(client);
        socket::wait(&[&server], self.patience())?;
        Ok(is_answered)
    }

    fn udp(&self) -> anyhow::Result<io::Result<Seen>> {
        let (family, port) = (self.spec.family(), self.spec.destination.port());
        let datagrams = || self.proxy.datagrams.iter().filter(|(_, of, _)| *of == family);
        let loopback = self.spec.destination.ip() == loopback(family);
        let taken = loopback && datagrams().any(|(at, ..)| *at == port);
        let app = self.server(taken, |at| socket::datagrams(at, 0))?;
        let own = app.iter().map(|socket| (self.spec.place(), port, socket));
        let proxies = datagrams().map(|(port, _, socket)| (Place::Pod, *port, socket));
        let sockets: Vec<_> = own.chain(proxies).collect();
        let mut word = [0; WORD.len()];
        for (.., socket) in datagrams() {
            // An answer of before that a rule took for a question.
            while socket.recv_from(&mut word).is_ok() {}
        }
        let sent = self.client(|| {
            let client = socket::datagrams(self.from, self.spec.mark)?;
            client.send_to(WORD, self.spec.destination)?;
            Ok(client)
        })?;
        let client = match sent {
            Ok(client) => client,
            Err(error) => return Ok(Err(error)),
        };
        let all: Vec<&dyn AsFd> = sockets.iter().map(|(.., at)| *at as &dyn AsFd).collect();
        let Some(which) = socket::wait(&all, self.patience.unwrap_or(PATIENCE))? else {
            return Ok(Ok(Seen::Silence));
        };
        let (place, port, server) = sockets[which];
        let (_, peer) = server.recv_from(&mut word)?;
        server.send_to(WORD, peer)?;
        let answered = socket::wait(&[&client], self.patience())?.is_some();
        let is_answered = answered && client.recv_from(&mut word)?.1 == self.spec.destination;
        Ok(Ok(Seen::Got { place, port, local: None, peer, original: None, is_answered }))
    }

    /// A packet that a kernel answers by itself.
    fn kernel(&self, protocol: SockProtocol) -> anyhow::Result<io::Result<Seen>> {
        let is_v6 = self.spec.destination.is_ipv6();
        let echo = protocol == SockProtocol::Icmp;
        let protocol = if echo && is_v6 { SockProtocol::IcmpV6 } else { protocol };
        let bytes = if echo {
            segment::echo(is_v6, self.from.port())
        } else {
            segment::stray(self.from, self.spec.destination)
        };
        let to = SocketAddr::new(self.spec.destination.ip(), 0);
        let sent = self.client(|| {
            let client = socket::raw(self.from.ip(), protocol)?;
            sendto(client.as_raw_fd(), &bytes, &SockaddrStorage::from(to), MsgFlags::empty())?;
            Ok(client)
        })?;
        let client = match sent {
            Ok(client) => client,
            Err(error) => return Ok(Err(error)),
        };
        let mut buffer = [0; 512];
        while socket::wait(&[&client], self.patience())?.is_some() {
            let length = recv(client.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let whole = buffer.get(..length).unwrap_or_default();
            let body = if is_v6 { whole } else { segment::body(whole) };
            let is_ours = if echo {
                segment::is_reply(is_v6, body, self.from.port())
            } else {
                segment::is_reset(body, self.spec.destination.port(), self.from.port())
            };
            if is_ours {
                return Ok(Ok(Seen::Answered));
            }
        }
        Ok(Ok(Seen::Silence))
    }
}
