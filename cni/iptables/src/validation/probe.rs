// SPDX-License-Identifier: Apache-2.0
//! Listeners where the proxy would listen, and connections that rules must send to them.

use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    ip_original_dst, ipv6_original_dst, set_ipv6_v6only, set_socket_reuseaddr, set_socket_reuseport,
    socket_error,
};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, accept_with, bind, connect, ipproto, listen, socket_with,
};

use super::Route;

/// Timeout of a connection attempt.
const PERIOD: Duration = Duration::from_secs(1);
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// Listen backlog; there is one connection at a time.
const BACKLOG: i32 = 16;

/// Listeners with their addresses.
#[derive(Debug, Default)]
pub struct Listeners(Vec<(OwnedFd, SocketAddr)>);

/// An accepted connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Its local port.
    pub(super) port: u16,
    /// `SO_ORIGINAL_DST`, if the kernel has it.
    pub(super) original: Option<SocketAddr>,
}

/// Fate of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Accepted by a listener of ours.
    Arrived { port: u16 },
    /// Not redirected: refused, or answered by another process.
    NotRedirected,
    /// No route.
    Unreachable(Errno),
    /// Timeout.
    Silence,
}

fn stream(address: IpAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, FLAGS, Some(ipproto::TCP))
}

/// Non-blocking connect; EINPROGRESS counts as success.
fn dial(route: &Route) -> Result<OwnedFd, Errno> {
    let client = stream(route.source)?;
    bind(&client, &SocketAddr::new(route.source, 0))?;
    match connect(&client, &route.target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(client),
        Err(errno) => Err(errno),
    }
}

fn original(connection: &OwnedFd, listener: SocketAddr) -> Option<SocketAddr> {
    match listener {
        SocketAddr::V4(_) => ip_original_dst(connection).ok().map(SocketAddr::V4),
        SocketAddr::V6(_) => ipv6_original_dst(connection).ok().map(SocketAddr::V6),
    }
}

impl Listeners {
    /// Listens on one more address, beside whoever of the same user listens there.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn add(&mut self, address: SocketAddr) -> Result<(), Errno> {
        let listener = stream(address.ip())?;
        set_socket_reuseaddr(&listener, true)?;
        set_socket_reuseport(&listener, true)?;
        if address.is_ipv6() {
            set_ipv6_v6only(&listener, true)?;
        }
        bind(&listener, &address)?;
        listen(&listener, BACKLOG)?;
        self.0.push((listener, address));
        Ok(())
    }

    /// True without listeners.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Connects once a second until a connection to the target arrives here, and says on which port. `missed` hears of the first
    /// one that does not.
    #[must_use]
    pub fn prove(&self, route: &Route, deadline: Instant, missed: impl FnOnce()) -> Option<u16> {
        let mut next = Instant::now();
        let mut client: Option<OwnedFd> = None;
        let mut missed = Some(missed);
        loop {
            let now = Instant::now();
            if now >= deadline {
                return None;
            }
            if now >= next {
                // One that fails is not the end: rules may come, and `::6` with them.
                let before = client.take().is_some();
                client = dial(route).ok();
                if before || client.is_none() {
                    missed.take().into_iter().for_each(|missed| missed());
                }
                next = now + PERIOD;
            }
            self.wait(None, next.min(deadline) - now);
            let wanted = route.target.port();
            let found = self
                .arrivals()
                .into_iter()
                .find(|arrival| arrival.original.is_some_and(|original| original.port() == wanted));
            if let Some(arrival) = found {
                drop(client);
                return Some(arrival.port);
            }
        }
    }

    /// Connects once, and returns the connection's fate.
    pub(super) fn send(&self, route: &Route, patience: Duration) -> Fate {
        let client = match dial(route) {
            Ok(client) => client,
            Err(Errno::CONNREFUSED) => return Fate::NotRedirected,
            Err(errno) => return Fate::Unreachable(errno),
        };
        let deadline = Instant::now() + patience;
        loop {
            let now = Instant::now();
            if now >= deadline {
                return Fate::Silence;
            }
            let settled = self.wait(Some(&client), deadline - now);
            // On loopback a connection waits at its listener before its sender knows that it stands.
            let mut arrivals = self.arrivals().into_iter();
            if let Some(arrival) = arrivals.find(|arrival| arrival.original == Some(route.target)) {
                return Fate::Arrived { port: arrival.port };
            }
            if settled {
                return match socket_error(&client) {
                    Ok(Ok(()) | Err(Errno::CONNREFUSED)) => Fate::NotRedirected,
                    Ok(Err(errno)) | Err(errno) => Fate::Unreachable(errno),
                };
            }
        }
    }

    /// Waits until something arrives or the client's connection is settled, and says whether that is.
    fn wait(&self, client: Option<&OwnedFd>, time: Duration) -> bool {
        let mut polled: Vec<PollFd<'_>> =
            client.map(|client| PollFd::new(client, PollFlags::OUT)).into_iter().collect();
        polled.extend(self.0.iter().map(|(listener, _)| PollFd::new(listener, PollFlags::IN)));
        let time = Timespec::try_from(time).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        // An interruption only makes the caller look earlier.
        let _ = poll(&mut polled, Some(&time));
        client.is_some() && polled.first().is_some_and(|client| !client.revents().is_empty())
    }

    /// Takes all connections that wait. Each is told where it was sent to, and closed.
    fn arrivals(&self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for (listener, address) in &self.0 {
            while let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) {
                let original = original(&connection, *address);
                if let Some(original) = original {
                    // The peer may have closed.
                    let _ = write!(TcpStream::from(connection), "{}", original.port());
                }
                arrivals.push(Arrival { port: address.port(), original });
            }
        }
        arrivals
    }
}
