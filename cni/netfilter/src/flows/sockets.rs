// SPDX-License-Identifier: Apache-2.0
//! Sockets of the calling thread's namespace, over sock_diag (`linux/inet_diag.h`).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::address::{AF_INET, AF_INET6};
use crate::netlink::{ExchangeError, Socket};
use crate::wire::{ACK, DUMP, Malformed, Writer, fixed};

/// `SOCK_DIAG_BY_FAMILY`, `SOCK_DESTROY`
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// States of TCP in which a socket sends or receives, and the state of a listener.
const SYN_SENT: u8 = 2;
const OPEN: [u8; 6] = [1, SYN_SENT, 3, 4, 5, 8];
const LISTEN: u8 = 10;
/// Length of `struct inet_diag_sockid`.
const ID: usize = 48;

/// A socket of TCP with a peer, or one of UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) is_tcp: bool,
    pub(super) local: SocketAddr,
    /// `0.0.0.0:0` of a socket of UDP without a peer.
    pub(super) remote: SocketAddr,
    pub(super) uid: u32,
    /// 0: no process has it open.
    pub(super) inode: u64,
    /// A connection that the peer has not accepted yet.
    pub(super) is_starting: bool,
    pub(super) family: u8,
    /// `struct inet_diag_sockid`
    pub(super) id: [u8; ID],
}

#[cfg(test)]
impl Open {
    pub(super) fn of(local: SocketAddr, remote: SocketAddr, uid: u32, inode: u64) -> Self {
        Self { is_tcp: true, local, remote, uid, inode, is_starting: false, family: AF_INET, id: [0; ID] }
    }
}

/// Sockets of the namespace.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) open: Vec<Open>,
    /// Ports of TCP at which something listens.
    pub(super) listening: BTreeSet<u16>,
}

pub(super) fn list(socket: &mut Socket) -> Result<Sockets, ExchangeError> {
    let mut found = Sockets::default();
    for family in [AF_INET, AF_INET6] {
        for protocol in [TCP, UDP] {
            let states = match protocol {
                TCP => OPEN.iter().chain(&[LISTEN]).fold(0, |states, state| states | 1_u32 << state),
                _ => u32::MAX,
            };
            socket.ask(&request(BY_FAMILY, DUMP, (family, protocol), states, &[0; ID]), |reply| {
                take(&mut found, protocol == TCP, reply.body)
            })?;
        }
    }
    Ok(found)
}

/// Closes a socket: its process reads `ECONNABORTED`, and its peer gets a reset. True if that was done.
pub(super) fn close(socket: &mut Socket, open: &Open) -> bool {
    let protocol = if open.is_tcp { TCP } else { UDP };
    let request = request(DESTROY, ACK, (open.family, protocol), u32::MAX, &open.id);
    socket.ask(&request, |_| Ok(())).is_ok()
}

/// `struct inet_diag_req_v2`
fn request(kind: u16, flags: u16, (family, protocol): (u8, u8), states: u32, id: &[u8; ID]) -> Vec<u8> {
    let mut out = Writer::with_capacity(80);
    out.message(kind, flags);
    out.raw([family, protocol, 0, 0]);
    out.raw(states.to_ne_bytes());
    out.raw(*id);
    out.into_bytes()
}

/// `struct inet_diag_msg`
fn take(found: &mut Sockets, is_tcp: bool, body: &[u8]) -> Result<(), Malformed> {
    let [family, state, _, _] = fixed(body.get(..4))?;
    let id: [u8; ID] = fixed(body.get(4..4 + ID))?;
    let uid = u32::from_ne_bytes(fixed(body.get(64..68))?);
    let inode = u32::from_ne_bytes(fixed(body.get(68..72))?);
    let end = |port: usize, address: usize| -> Result<SocketAddr, Malformed> {
        let port = u16::from_be_bytes(fixed(id.get(port..port + 2))?);
        let bytes: [u8; 16] = fixed(id.get(address..address + 16))?;
        let [a, b, c, d, ..] = bytes;
        let address = match family {
            AF_INET => IpAddr::from([a, b, c, d]),
            // A socket of both families speaks IPv4 by mapped addresses.
            _ => Ipv6Addr::from(bytes).to_canonical(),
        };
        Ok(SocketAddr::new(address, port))
    };
    let (local, remote) = (end(0, 4)?, end(2, 20)?);
    if is_tcp && state == LISTEN {
        found.listening.insert(local.port());
        return Ok(());
    }
    let is_starting = is_tcp && state == SYN_SENT;
    let inode = u64::from(inode);
    found.open.push(Open { is_tcp, local, remote, uid, inode, is_starting, family, id });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_both_ends_its_user_and_its_inode() {
        let mut body = vec![AF_INET6, 1, 0, 0];
        let mut id = [0; ID];
        id[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
        id[4..20].copy_from_slice(&"::ffff:10.9.0.2".parse::<Ipv6Addr>().unwrap().octets());
        id[20..36].copy_from_slice(&"::ffff:10.9.0.1".parse::<Ipv6Addr>().unwrap().octets());
        body.extend(id);
        body.extend([0; 12]);
        body.extend(1000_u32.to_ne_bytes());
        body.extend(7_u32.to_ne_bytes());
        let mut found = Sockets::default();
        take(&mut found, true, &body).unwrap();
        let [open] = found.open.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (open.local, open.remote),
            ("10.9.0.2:40000".parse().unwrap(), "10.9.0.1:80".parse().unwrap())
        );
        assert_eq!((open.uid, open.inode, open.is_starting), (1000, 7, false));
        body[1] = LISTEN;
        take(&mut found, true, &body).unwrap();
        assert!(found.listening.contains(&40000) && found.open.len() == 1);
        assert_eq!(take(&mut found, true, &body[..60]), Err(Malformed));
    }
}
