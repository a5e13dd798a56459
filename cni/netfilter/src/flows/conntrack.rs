// SPDX-License-Identifier: Apache-2.0
//! Conntrack entries of the calling thread's namespace, over ctnetlink.

use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;

use crate::netlink::{ExchangeError, Socket};
use crate::nft::GENERIC_HEADER;
use crate::wire::{ACK, DUMP, Malformed, Writer, attributes, be32, fixed};

/// `NFNL_SUBSYS_CTNETLINK << 8`, with `IPCTNL_MSG_CT_GET`, `IPCTNL_MSG_CT_DELETE` and `IPCTNL_MSG_CT_GET_STATS`.
const GET: u16 = 1 << 8 | 1;
const DELETE: u16 = 1 << 8 | 2;
const STATISTICS: u16 = 1 << 8 | 5;
/// `CTA_STATS_GLOBAL_ENTRIES`: the namespace's number of entries.
const ENTRIES: u16 = 1;
// Attributes: `CTA_*`, those of a tuple, of its addresses and of its protocol.
const TUPLE: u16 = 1;
const REPLY: u16 = 2;
const MARK: u16 = 8;
const ID: u16 = 12;
const ZONE: u16 = 18;
const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const SOURCE_V4: u16 = 1;
const DESTINATION_V4: u16 = 2;
const SOURCE_V6: u16 = 3;
const DESTINATION_V6: u16 = 4;
const PROTOCOL_NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) protocol: u8,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

/// A connection that conntrack knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) original: Tuple,
    pub(super) reply: Tuple,
    pub(super) mark: u32,
    pub(super) zone: u16,
    /// Family and attributes by which the kernel finds it.
    family: u8,
    tuple: Vec<u8>,
    id: Option<[u8; 4]>,
}

impl Entry {
    /// True if NAT changed an address or a port: a rule decided about it already.
    pub(super) fn is_translated(&self) -> bool {
        (self.reply.source, self.reply.destination) != (self.original.destination, self.original.source)
    }

    #[cfg(test)]
    pub(super) fn of(original: Tuple, reply: Tuple) -> Self {
        Self { original, reply, mark: 0, zone: 0, family: 2, tuple: Vec::new(), id: None }
    }
}

/// TCP and UDP connections. One that is added meanwhile may be left out.
///
/// All namespaces of a machine share one table, through which the kernel goes bucket by bucket; so it is asked first whether this one has any entry.
pub(super) fn list(socket: &mut Socket) -> Result<Vec<Entry>, ExchangeError> {
    let mut entries = Vec::new();
    if count(socket) == Some(0) {
        return Ok(entries);
    }
    let mut request = Writer::with_capacity(32);
    request.message(GET, DUMP);
    request.raw([0; GENERIC_HEADER]);
    socket.ask(&request.into_bytes(), |reply| {
        entries.extend(entry(reply.body)?);
        Ok(())
    })?;
    Ok(entries)
}

/// Number of entries of the namespace; `None` if the kernel does not tell.
fn count(socket: &mut Socket) -> Option<u32> {
    let mut found = None;
    let mut request = Writer::with_capacity(32);
    request.message(STATISTICS, ACK);
    request.raw([0; GENERIC_HEADER]);
    let told = socket.ask(&request.into_bytes(), |reply| {
        found = counted(reply.body)?;
        Ok(())
    });
    told.ok().and(found)
}

fn counted(body: &[u8]) -> Result<Option<u32>, Malformed> {
    let (_, body) = body.split_at_checked(GENERIC_HEADER).ok_or(Malformed)?;
    for attribute in attributes(body) {
        if let (ENTRIES, payload) = attribute? {
            return be32(payload).map(Some);
        }
    }
    Ok(None)
}

/// An entry from its message; `None` for protocols without ports.
fn entry(body: &[u8]) -> Result<Option<Entry>, Malformed> {
    let (header, body) = body.split_at_checked(GENERIC_HEADER).ok_or(Malformed)?;
    let (mut original, mut reply, mut raw, mut mark, mut zone, mut id) = (None, None, Vec::new(), 0, 0, None);
    for attribute in attributes(body) {
        match attribute? {
            (TUPLE, payload) => (original, raw) = (tuple(payload)?, payload.to_vec()),
            (REPLY, payload) => reply = tuple(payload)?,
            (MARK, payload) => mark = be32(payload)?,
            (ZONE, payload) => zone = u16::from_be_bytes(fixed(Some(payload))?),
            (ID, payload) => id = Some(fixed(Some(payload))?),
            _ => {}
        }
    }
    let family = header.first().copied().unwrap_or_default();
    let known = original.zip(reply);
    Ok(known.map(|(original, reply)| Entry { original, reply, mark, zone, family, tuple: raw, id }))
}

fn tuple(payload: &[u8]) -> Result<Option<Tuple>, Malformed> {
    let (mut source, mut destination, mut protocol, mut ports) = (None, None, 0, [None; 2]);
    for part in attributes(payload) {
        match part? {
            (TUPLE_ADDRESSES, addresses) => {
                for address in attributes(addresses) {
                    match address? {
                        (SOURCE_V4, bytes) => source = Some(IpAddr::from(fixed::<4>(Some(bytes))?)),
                        (DESTINATION_V4, bytes) => destination = Some(IpAddr::from(fixed::<4>(Some(bytes))?)),
                        (SOURCE_V6, bytes) => source = Some(IpAddr::from(fixed::<16>(Some(bytes))?)),
                        (DESTINATION_V6, bytes) => {
                            destination = Some(IpAddr::from(fixed::<16>(Some(bytes))?))
                        }
                        _ => {}
                    }
                }
            }
            (TUPLE_PROTOCOL, of_protocol) => {
                for one in attributes(of_protocol) {
                    match one? {
                        (PROTOCOL_NUMBER, bytes) => [protocol] = fixed(Some(bytes))?,
                        (SOURCE_PORT, bytes) => ports[0] = Some(u16::from_be_bytes(fixed(Some(bytes))?)),
                        (DESTINATION_PORT, bytes) => ports[1] = Some(u16::from_be_bytes(fixed(Some(bytes))?)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let (Some(source), Some(destination), [Some(from), Some(to)]) = (source, destination, ports) else {
        return Ok(None);
    };
    let (source, destination) = (SocketAddr::new(source, from), SocketAddr::new(destination, to));
    Ok(Some(Tuple { protocol, source, destination }))
}

/// Deletes an entry. True if it is gone, by whomever.
pub(super) fn delete(socket: &mut Socket, entry: &Entry) -> bool {
    let mut request = Writer::with_capacity(160);
    request.message(DELETE, ACK);
    request.raw([entry.family, 0, 0, 0]);
    request.bytes(TUPLE | crate::wire::NESTED, &entry.tuple);
    if entry.zone != 0 {
        request.attribute(ZONE, entry.zone.to_be_bytes());
    }
    if let Some(id) = entry.id {
        // Not one that began with the same addresses since.
        request.attribute(ID, id);
    }
    match socket.ask(&request.into_bytes(), |_| Ok(())) {
        Ok(()) => true,
        Err(ExchangeError::Refused(errno)) => Errno::from_raw_os_error(errno) == Errno::NOENT,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
        attribute(kind | crate::wire::NESTED, &parts.concat())
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn direction(kind: u16, source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Vec<u8> {
        let addresses = nested(1, &[attribute(1, &source.0), attribute(2, &destination.0)]);
        let ports = [
            attribute(1, &[6]),
            attribute(2, &source.1.to_be_bytes()),
            attribute(3, &destination.1.to_be_bytes()),
        ];
        nested(kind, &[addresses, nested(2, &ports)])
    }

    #[test]
    fn the_number_of_entries_is_the_statistics() {
        let header = [0; GENERIC_HEADER].to_vec();
        let told = [header.clone(), attribute(3, &[9; 4]), attribute(ENTRIES, &[0, 0, 1, 2])].concat();
        assert!(matches!(counted(&told), Ok(Some(258))));
        assert!(matches!(counted(&header), Ok(None)));
        assert!(counted(&[0]).is_err());
    }

    #[test]
    fn an_entry_has_both_directions_its_mark_and_its_zone() {
        let (pod, peer, proxy) = (([10, 9, 0, 2], 40000), ([10, 9, 0, 1], 80), ([127, 0, 0, 1], 15001));
        let message = |reply| {
            [
                vec![2, 0, 0, 0],
                direction(TUPLE, pod, peer),
                reply,
                attribute(MARK, &1337_u32.to_be_bytes()),
                attribute(ZONE, &2_u16.to_be_bytes()),
            ]
            .concat()
        };
        let plain = entry(&message(direction(REPLY, peer, pod))).unwrap().unwrap();
        assert_eq!((plain.mark, plain.zone, plain.is_translated()), (1337, 2, false));
        assert_eq!(plain.original.destination, "10.9.0.1:80".parse().unwrap());
        let redirected = entry(&message(direction(REPLY, proxy, pod))).unwrap().unwrap();
        assert!(redirected.is_translated());
        assert_eq!(entry(&[2, 0]), Err(Malformed));
    }
}
