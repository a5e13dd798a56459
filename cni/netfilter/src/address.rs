// SPDX-License-Identifier: Apache-2.0
//! The addresses of the calling thread's namespace, and the helper address `::6` on its `lo`. Which address decides what is up
//! to `redirect`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use crate::netlink::{ExchangeError, Socket, deadline};
use crate::wire::{ACK, CREATE, DUMP, EXCL, Malformed, Writer, attributes, fixed};

const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
pub(crate) const AF_UNSPEC: u8 = 0;
pub(crate) const AF_INET: u8 = 2;
pub(crate) const AF_INET6: u8 = 10;
/// Length of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// `IFA_F_NODAD`: usable at once.
const NO_DUPLICATE_DETECTION: u32 = 0x02;
/// `LOOPBACK_IFINDEX`: `lo` is the first interface of every namespace.
pub(crate) const LOOPBACK: u32 = 1;
/// Room for the addresses of an ordinary pod.
const FEW: usize = 8;
/// Maximum attempts at a list that changes meanwhile.
pub(crate) const ATTEMPTS: usize = 5;

/// The source that upstream's sidecar connects from, so that inbound rules can tell its packets.
pub const HELPER: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);

/// Failure to read or add addresses.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// No rtnetlink socket, or it failed.
    #[error("talk to rtnetlink")]
    Socket(#[source] io::Error),
    /// The kernel refused to list addresses.
    #[error("list addresses")]
    List(#[source] io::Error),
    /// The list changed each time it was read.
    #[error("list addresses: they kept changing")]
    Busy,
    /// A reply that cannot be read.
    #[error("list addresses: malformed reply from the kernel")]
    Malformed,
    /// The kernel refused to add or remove the helper address.
    #[error("{verb} {HELPER}/128 on lo")]
    Change {
        /// `add` or `remove`.
        verb: &'static str,
        /// The kernel's reason.
        #[source]
        reason: io::Error,
    },
    /// The caller may not.
    #[error(
        "{0} {HELPER}/128 on lo: not permitted (needs CAP_NET_ADMIN in the user namespace that owns the network namespace)"
    )]
    Permission(&'static str),
    /// The kernel runs without IPv6 (`ipv6.disable=1`, or built without).
    #[error("add {HELPER}/128 on lo: this kernel has no IPv6")]
    NoIpv6InKernel,
    /// IPv6 is switched off in this namespace.
    #[error("add {HELPER}/128 on lo: IPv6 is disabled here (net.ipv6.conf.lo.disable_ipv6)")]
    Ipv6Disabled,
}

impl AddressError {
    fn refused(verb: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::PERM => Self::Permission(verb),
            // The kernel's errno where the interface has IPv6 switched off.
            Errno::ACCESS => Self::Ipv6Disabled,
            Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::NODEV => Self::NoIpv6InKernel,
            errno => Self::Change { verb, reason: errno.into() },
        }
    }
}

/// One address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Prefix length.
    pub length: u8,
    /// Index of its interface; 1 is `lo`.
    pub interface: u32,
    /// `IFA_F_*`.
    pub flags: u32,
}

/// Outcome of adding the helper address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// It was added.
    Added,
    /// It was there.
    Present,
}

/// A connection to rtnetlink in the namespace that the thread was in when it was made.
pub struct Rtnetlink(Socket);

impl Rtnetlink {
    /// Connects.
    ///
    /// # Errors
    /// [`AddressError::Socket`].
    pub fn open() -> Result<Self, AddressError> {
        Socket::route().map(Self).map_err(|errno| AddressError::Socket(errno.into()))
    }

    pub(crate) fn socket(&mut self) -> &mut Socket {
        &mut self.0
    }

    /// All addresses of the namespace, loopback included, in the order in which the kernel lists them (IPv4 first).
    ///
    /// # Errors
    /// If rtnetlink fails.
    pub fn list(&mut self) -> Result<Vec<Address>, AddressError> {
        let mut request = Writer::with_capacity(32);
        request.message(RTM_GETADDR, DUMP);
        request.raw([AF_UNSPEC, 0, 0, 0, 0, 0, 0, 0]);
        let request = request.into_bytes();
        let deadline = deadline();
        for _ in 0..ATTEMPTS {
            let mut found = Vec::with_capacity(FEW);
            let answer = self.0.ask_until(deadline, &request, |message| {
                if message.kind == RTM_NEWADDR {
                    found.extend(address(message.body)?);
                }
                Ok(())
            });
            match answer {
                Ok(()) => return Ok(found),
                // The rest of this list is still to come: it must not be taken for the next one.
                Err(ExchangeError::Interrupted) => *self = Self::open()?,
                Err(ExchangeError::Malformed) => return Err(AddressError::Malformed),
                Err(ExchangeError::System(errno)) => return Err(AddressError::Socket(errno.into())),
                Err(ExchangeError::Refused(errno)) => {
                    return Err(AddressError::List(io::Error::from_raw_os_error(errno)));
                }
            }
        }
        Err(AddressError::Busy)
    }

    /// Adds `::6/128` to `lo`, without duplicate address detection.
    ///
    /// # Errors
    /// [`AddressError::NoIpv6InKernel`] or [`AddressError::Ipv6Disabled`] where there is no IPv6, otherwise the kernel's reason.
    pub fn add_loopback_helper(&mut self) -> Result<Helper, AddressError> {
        match self.change_helper(RTM_NEWADDR, CREATE | EXCL | ACK)? {
            None => Ok(Helper::Added),
            Some(Errno::EXIST) => Ok(Helper::Present),
            Some(errno) => Err(AddressError::refused("add", errno)),
        }
    }

    /// Removes `::6/128` from `lo`. Having nothing to remove is a success.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn remove_loopback_helper(&mut self) -> Result<(), AddressError> {
        match self.change_helper(RTM_DELADDR, ACK)? {
            None | Some(Errno::ADDRNOTAVAIL | Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::NODEV) => Ok(()),
            Some(errno) => Err(AddressError::refused("remove", errno)),
        }
    }

    /// Sends one message about the helper address; the answer is the kernel's refusal, if any.
    fn change_helper(&mut self, kind: u16, flags: u16) -> Result<Option<Errno>, AddressError> {
        let mut request = Writer::with_capacity(80);
        request.message(kind, flags);
        request.raw([AF_INET6, 128, 0, 0]);
        request.raw(LOOPBACK.to_ne_bytes());
        request.attribute(IFA_LOCAL, HELPER.octets());
        request.attribute(IFA_ADDRESS, HELPER.octets());
        request.attribute(IFA_FLAGS, NO_DUPLICATE_DETECTION.to_ne_bytes());
        match self.0.ask(&request.into_bytes(), |_| Ok(())) {
            Ok(()) => Ok(None),
            Err(ExchangeError::Refused(errno)) => Ok(Some(Errno::from_raw_os_error(errno))),
            Err(ExchangeError::System(errno)) => Err(AddressError::Socket(errno.into())),
            Err(ExchangeError::Interrupted | ExchangeError::Malformed) => Err(AddressError::Malformed),
        }
    }
}

/// [`Rtnetlink::list`] on a connection of its own.
///
/// # Errors
/// If rtnetlink fails.
pub fn list() -> Result<Vec<Address>, AddressError> {
    Rtnetlink::open()?.list()
}

/// [`Rtnetlink::add_loopback_helper`] on a connection of its own.
///
/// # Errors
/// As that.
pub fn add_loopback_helper() -> Result<Helper, AddressError> {
    Rtnetlink::open()?.add_loopback_helper()
}

/// One address from the body of its message; none for families other than IP.
fn address(body: &[u8]) -> Result<Option<Address>, Malformed> {
    let (header, rest) = body.split_at_checked(ADDRESS_HEADER).ok_or(Malformed)?;
    let [family, length, flags, _scope, i0, i1, i2, i3] = fixed(Some(header))?;
    let interface = u32::from_ne_bytes([i0, i1, i2, i3]);
    let (mut local, mut peer, mut flags) = (None, None, u32::from(flags));
    for attribute in attributes(rest) {
        match attribute? {
            (IFA_LOCAL, payload) => local = Some(ip(family, payload)?),
            (IFA_ADDRESS, payload) => peer = Some(ip(family, payload)?),
            (IFA_FLAGS, payload) => flags = u32::from_ne_bytes(fixed(Some(payload))?),
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the other end.
    let ip = local.or(peer).flatten();
    Ok(ip.map(|ip| Address { ip, length, interface, flags }))
}

fn ip(family: u8, payload: &[u8]) -> Result<Option<IpAddr>, Malformed> {
    Ok(match family {
        AF_INET => Some(Ipv4Addr::from(fixed::<4>(Some(payload))?).into()),
        AF_INET6 => Some(Ipv6Addr::from(fixed::<16>(Some(payload))?).into()),
        _ => None,
    })
}
