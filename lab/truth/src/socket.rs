// SPDX-License-Identifier: Apache-2.0
//! Sockets with an owner. netfilter's owner is the user and group for files of the thread that made the socket's file
//! (`f_cred`), so one thread can own sockets of everybody.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::{
    Ip6tOriginalDst, IpTransparent, Ipv6V6Only, Linger, Mark, OriginalDst, ReuseAddr,
};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, connect, getsockopt,
    listen, setsockopt, socket,
};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use redirect::ruleset::Family;

use crate::flow::Owner;

/// Makes files as somebody else.
pub fn as_owner<T>(owner: Owner, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    setfsgid(gid);
    setfsuid(uid);
    // Neither call says that it failed; each says who it was before.
    let is_somebody = setfsgid(gid) == gid && setfsuid(uid) == uid;
    let result = if is_somebody {
        work()
    } else {
        Err(io::Error::other(format!("no such user here: {}:{}", owner.uid, owner.gid)))
    };
    setfsuid(Uid::from_raw(0));
    setfsgid(Gid::from_raw(0));
    result
}

fn domain(family: Family) -> AddressFamily {
    match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    }
}

/// All addresses of a family.
#[must_use]
pub fn any(family: Family) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// A socket that takes any address for its own and does not wait, bound as soon as the address is free.
fn bound(at: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    patiently(|| bound_now(at, kind))
}

fn bound_now(at: SocketAddr, kind: SockType) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(domain(Family::of(at.ip())), kind, flags, None)?;
    if at.is_ipv6() {
        setsockopt(&fd, Ipv6V6Only, &true)?;
    }
    // Its level is that of IPv4; an IPv6 socket takes it as well.
    setsockopt(&fd, IpTransparent, &true)?;
    setsockopt(&fd, ReuseAddr, &true)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(at))?;
    Ok(fd)
}

/// Tries again while the address is somebody else's who is about to let it go.
fn patiently<T>(attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let deadline = Instant::now() + FORK;
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::yield_now();
            }
            made => return made,
        }
    }
}

/// Maximum time that a process forked by another thread holds copies of closed sockets: until its exec, which may wait for a core.
const FORK: Duration = Duration::from_secs(10);

/// A listener; what it accepts must be accepted as the same owner.
pub fn listener(at: SocketAddr) -> io::Result<TcpListener> {
    // Either call fails if another socket listens there.
    patiently(|| {
        let fd = bound_now(at, SockType::Stream)?;
        listen(&fd, Backlog::new(8)?)?;
        Ok(fd.into())
    })
}

/// A socket for datagrams.
pub fn datagrams(at: SocketAddr, mark: u32) -> io::Result<UdpSocket> {
    let fd = bound(at, SockType::Datagram)?;
    if mark != 0 {
        setsockopt(&fd, Mark, &mark)?;
    }
    Ok(fd.into())
}

/// Begins a connection. It ends with a reset: nothing of it lingers.
pub fn begin(from: SocketAddr, to: SocketAddr, mark: u32) -> io::Result<TcpStream> {
    let fd = bound(from, SockType::Stream)?;
    if mark != 0 {
        setsockopt(&fd, Mark, &mark)?;
    }
    setsockopt(&fd, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 })?;
    match connect(fd.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(fd.into()),
        Err(errno) => Err(errno.into()),
    }
}

/// A socket for whole segments or messages of a protocol.
pub fn raw(at: IpAddr, protocol: SockProtocol) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(domain(Family::of(at)), SockType::Raw, flags, protocol)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(at, 0)))?;
    Ok(fd)
}

/// Where a connection was addressed to before a rule redirected it, if conntrack knows.
#[must_use]
pub fn original(stream: &TcpStream) -> Option<SocketAddr> {
    match stream.local_addr().ok()? {
        SocketAddr::V4(_) => {
            let raw = getsockopt(stream, OriginalDst).ok()?;
            let address = Ipv4Addr::from(u32::from_be(raw.sin_addr.s_addr));
            Some((address, u16::from_be(raw.sin_port)).into())
        }
        SocketAddr::V6(_) => {
            let raw = getsockopt(stream, Ip6tOriginalDst).ok()?;
            Some((Ipv6Addr::from(raw.sin6_addr.s6_addr), u16::from_be(raw.sin6_port)).into())
        }
    }
}

/// Waits until one of several has something, and says which; `None` after the deadline.
pub fn wait(of: &[&dyn AsFd], patience: Duration) -> io::Result<Option<usize>> {
    let deadline = Instant::now() + patience;
    let mut fds: Vec<PollFd<'_>> = of.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, left) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(fds.iter().position(|fd| fd.any().unwrap_or(false)))
}
