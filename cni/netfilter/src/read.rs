// SPDX-License-Identifier: Apache-2.0
//! Reads everything that nf_tables holds in the calling thread's namespace for IPv4 and IPv6.

use std::io;
use std::time::Instant;

use rustix::io::Errno;

use crate::encode::{query, query_elements};
use crate::expression::{keys, spell_out, take_counter};
use crate::netlink::{ExchangeError, Socket, deadline};
use crate::nft::{self, attribute, message};
use crate::snapshot::{Base, ChainState, Name, NfFamily, RuleState, Snapshot, TableState};
use crate::wire::{DUMP, Malformed, Message, attributes, be32, be64, fixed, messages, text};

/// Maximum attempts at reading while rules change, all within the time of one.
const ATTEMPTS: u32 = 16;
/// Most tables, chains and rules that are read, and their most bytes. A pod has some tens; one that may change its rules could have any number,
/// for whoever reads them to spend the node's time and memory on.
const MOST: usize = 65_536;
const MOST_BYTES: usize = 32 << 20;

/// Failure to read rules.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The kernel has no nf_tables.
    #[error("read rules: this kernel has no nf_tables")]
    NoNfTables,
    /// The caller may not.
    #[error(
        "read rules: not permitted (needs CAP_NET_ADMIN in the user namespace that owns the network namespace)"
    )]
    Permission,
    /// Others kept changing rules while they were read.
    #[error("read rules: they changed during each of {attempts} attempts")]
    Busy { attempts: u32 },
    /// More are there than are read.
    #[error("read rules: there are more than {MOST} tables, chains and rules, or more than {} MiB of them", MOST_BYTES >> 20)]
    TooMany,
    /// The socket failed, or the kernel refused for a reason of its own.
    #[error("read rules")]
    Socket(#[source] io::Error),
    /// A reply that cannot be decoded.
    #[error("read rules: malformed reply from the kernel")]
    Malformed,
}

/// Reads all tables, chains and rules of families `ip`, `ip6` and `inet` at one generation.
///
/// # Errors
/// See [`ReadError`].
pub fn read() -> Result<Snapshot, ReadError> {
    let mut socket = Socket::netfilter().map_err(no_socket)?;
    with(&mut socket)
}

fn no_socket(errno: Errno) -> ReadError {
    match errno {
        Errno::PROTONOSUPPORT => ReadError::NoNfTables,
        errno => ReadError::Socket(errno.into()),
    }
}

/// The same over a socket that is open.
pub(crate) fn with(socket: &mut Socket) -> Result<Snapshot, ReadError> {
    let mut reader = Reader::until(deadline());
    for _ in 0..ATTEMPTS {
        match reader.once(socket) {
            Ok(Some(snapshot)) => return Ok(snapshot),
            // An interrupted list is not read to its end; what is left of it must not be taken for the next answer.
            Ok(None) | Err(ExchangeError::Interrupted) => *socket = Socket::netfilter().map_err(no_socket)?,
            Err(_) if reader.is_full() => return Err(ReadError::TooMany),
            Err(error) => return Err(translate(error)),
        }
        reader = Reader::until(reader.deadline);
    }
    Err(ReadError::Busy { attempts: ATTEMPTS })
}

fn translate(error: ExchangeError) -> ReadError {
    let errno = match error {
        ExchangeError::Malformed => return ReadError::Malformed,
        ExchangeError::Interrupted => return ReadError::Busy { attempts: ATTEMPTS },
        ExchangeError::System(errno) => errno,
        ExchangeError::Refused(errno) => Errno::from_raw_os_error(errno),
    };
    match errno {
        Errno::PERM => ReadError::Permission,
        // nfnetlink's answer for a sub-system that is not there.
        Errno::INVAL | Errno::OPNOTSUPP => ReadError::NoNfTables,
        errno => ReadError::Socket(errno.into()),
    }
}

/// One attempt at reading.
struct Reader {
    deadline: Instant,
    /// Messages and bytes so far.
    read: usize,
    bytes: usize,
    place: Place,
}

impl Reader {
    fn until(deadline: Instant) -> Self {
        Self { deadline, read: 0, bytes: 0, place: Place::default() }
    }

    fn is_full(&self) -> bool {
        self.read > MOST || self.bytes > MOST_BYTES
    }

    /// `None` if rules changed between the lists.
    fn once(&mut self, socket: &mut Socket) -> Result<Option<Snapshot>, ExchangeError> {
        let mut snapshot = Snapshot { generation: generation(socket)?, tables: Vec::new() };
        let tables = &mut snapshot.tables;
        let mut orphans = self.list(socket, tables, message::GET_TABLE)?;
        if !tables.is_empty() {
            orphans += self.list(socket, tables, message::GET_CHAIN)?;
            orphans += self.list(socket, tables, message::GET_RULE)?;
            match sets(socket, tables, self.deadline) {
                // The set went with its rule.
                Err(ExchangeError::Refused(errno)) if Errno::from_raw_os_error(errno) == Errno::NOENT => {
                    return Ok(None);
                }
                done => done?,
            }
        }
        if generation(socket)? != snapshot.generation {
            return Ok(None);
        }
        if orphans > 0 { Err(ExchangeError::Malformed) } else { Ok(Some(snapshot)) }
    }

    /// Adds what one list says; returns how much of it belongs to nothing that is known.
    fn list(
        &mut self,
        socket: &mut Socket,
        tables: &mut Vec<TableState>,
        kind: u16,
    ) -> Result<usize, ExchangeError> {
        let mut orphans = 0;
        socket.ask_until(self.deadline, &query(kind, DUMP).into_bytes(), |reply| {
            (self.read, self.bytes) = (self.read + 1, self.bytes + reply.body.len());
            if self.is_full() {
                return Err(Malformed);
            }
            orphans += usize::from(take(tables, &reply, &mut self.place)?.is_none());
            Ok(())
        })?;
        Ok(orphans)
    }
}

/// Reads the sets without a name into the rules that ask for them.
fn sets(socket: &mut Socket, tables: &mut [TableState], deadline: Instant) -> Result<(), ExchangeError> {
    for table in tables {
        let family = table.family.number();
        for rule in table.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
            let spelled = spell_out(&rule.expressions, |set| {
                elements(socket, &query_elements(family, table.name.as_bytes(), set), deadline)
            })?;
            rule.expressions = spelled.unwrap_or_else(|| std::mem::take(&mut rule.expressions));
        }
    }
    Ok(())
}

/// The elements of a set; `None` if they are more than keys.
fn elements(
    socket: &mut Socket,
    request: &[u8],
    deadline: Instant,
) -> Result<Option<Vec<Vec<u8>>>, ExchangeError> {
    let mut found = Some(Vec::new());
    socket.ask_until(deadline, request, |reply| {
        for attribute in attributes(reply.body.get(nft::GENERIC_HEADER..).ok_or(Malformed)?) {
            if let (attribute::ELEMENTS, list) = attribute? {
                match (&mut found, keys(list)?) {
                    (Some(found), Some(keys)) => found.extend(keys),
                    _ => found = None,
                }
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn generation(socket: &mut Socket) -> Result<u32, ExchangeError> {
    let mut found = None;
    let request = query(message::GET_GEN, crate::wire::ACK).into_bytes();
    socket.ask(&request, |reply| {
        if reply.kind == message::NEW_GEN {
            found = Some(generation_of(&reply)?);
        }
        Ok(())
    })?;
    found.ok_or(ExchangeError::Malformed)
}

fn generation_of(reply: &Message<'_>) -> Result<u32, Malformed> {
    for attribute in attributes(reply.body.get(nft::GENERIC_HEADER..).ok_or(Malformed)?) {
        if let (attribute::GENERATION_ID, payload) = attribute? {
            return be32(payload);
        }
    }
    Err(Malformed)
}

/// Parses replies of the kernel, one behind the other: tables, chains, rules; others are passed over. Sets without a name are not
/// asked for.
///
/// # Errors
/// They are malformed, or name what none of them made.
pub fn replies(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let (mut snapshot, mut place) = (Snapshot::default(), Place::default());
    for reply in messages(bytes) {
        let known = reply.and_then(|reply| take(&mut snapshot.tables, &reply, &mut place));
        known.ok().flatten().ok_or(ReadError::Malformed)?;
    }
    Ok(snapshot)
}

/// Adds what a reply says, if it is about IPv4 or IPv6; `None` if it belongs to something that is not known.
fn take(
    tables: &mut Vec<TableState>,
    reply: &Message<'_>,
    place: &mut Place,
) -> Result<Option<()>, Malformed> {
    let (header, body) = reply.body.split_at_checked(nft::GENERIC_HEADER).ok_or(Malformed)?;
    let Some(family) = header.first().and_then(|number| NfFamily::of(*number)) else {
        return Ok(Some(()));
    };
    match reply.kind {
        message::NEW_TABLE => table(tables, family, body).map(Some),
        message::NEW_CHAIN => chain(tables, family, body, place),
        message::NEW_RULE => rule(tables, family, body, place),
        _ => Ok(Some(())),
    }
}

/// Adds a table from its message.
pub(crate) fn table(tables: &mut Vec<TableState>, family: NfFamily, body: &[u8]) -> Result<(), Malformed> {
    let mut found = TableState { family, name: Name::new(&[]), flags: 0, chains: Vec::new() };
    for attribute in attributes(body) {
        match attribute? {
            (attribute::TABLE_NAME, payload) => found.name = Name::new(text(payload)),
            (attribute::TABLE_FLAGS, payload) => found.flags = be32(payload)?,
            _ => {}
        }
    }
    tables.push(found);
    Ok(())
}

/// Adds a chain from its message to its table; `None` if that is not known.
pub(crate) fn chain(
    tables: &mut [TableState],
    family: NfFamily,
    body: &[u8],
    place: &mut Place,
) -> Result<Option<()>, Malformed> {
    let mut table = None;
    let mut found = ChainState { name: Name::new(&[]), handle: 0, base: None, rules: Vec::new() };
    let (mut hook, mut policy, mut kind) = (None, 1, Name::new(&[]));
    for attribute in attributes(body) {
        match attribute? {
            (attribute::CHAIN_TABLE, payload) => table = Some(text(payload)),
            (attribute::CHAIN_HANDLE, payload) => found.handle = be64(payload)?,
            (attribute::CHAIN_NAME, payload) => found.name = Name::new(text(payload)),
            (attribute::CHAIN_HOOK, payload) => hook = Some(self::hook(payload)?),
            (attribute::CHAIN_POLICY, payload) => policy = be32(payload)?,
            (attribute::CHAIN_TYPE, payload) => kind = Name::new(text(payload)),
            _ => {}
        }
    }
    found.base = hook.map(|(hook, priority)| Base { hook, priority, kind, policy });
    Ok(place.table(tables, family, table).map(|table| table.chains.push(found)))
}

fn hook(body: &[u8]) -> Result<(u32, i32), Malformed> {
    let (mut number, mut priority) = (0, 0);
    for attribute in attributes(body) {
        match attribute? {
            (attribute::HOOK_NUMBER, payload) => number = be32(payload)?,
            (attribute::HOOK_PRIORITY, payload) => priority = i32::from_be_bytes(fixed(Some(payload))?),
            _ => {}
        }
    }
    Ok((number, priority))
}

/// Adds a rule from its message to its chain; `None` if that is not known.
pub(crate) fn rule(
    tables: &mut [TableState],
    family: NfFamily,
    body: &[u8],
    place: &mut Place,
) -> Result<Option<()>, Malformed> {
    let (mut table, mut chain) = (None, None);
    let mut found = RuleState { handle: 0, counter: None, expressions: Vec::new(), userdata: Vec::new() };
    for attribute in attributes(body) {
        match attribute? {
            (attribute::RULE_TABLE, payload) => table = Some(text(payload)),
            (attribute::RULE_CHAIN, payload) => chain = Some(text(payload)),
            (attribute::RULE_HANDLE, payload) => found.handle = be64(payload)?,
            (attribute::RULE_EXPRESSIONS, payload) => found.expressions = payload.to_vec(),
            (attribute::RULE_USERDATA, payload) => found.userdata = payload.to_vec(),
            _ => {}
        }
    }
    found.counter = take_counter(&mut found.expressions)?;
    let table = place.table(tables, family, table);
    let chain = table.and_then(|table| place.chain(&mut table.chains, chain));
    Ok(chain.map(|chain| chain.rules.push(found)))
}

/// Where the last chain and rule belonged to. The kernel lists chains and rules in the order of what they are in, so the next ones are of the same, or
/// of what follows it.
#[derive(Debug, Default)]
pub(crate) struct Place {
    table: usize,
    chain: usize,
}

impl Place {
    fn table<'a>(
        &mut self,
        tables: &'a mut [TableState],
        family: NfFamily,
        name: Option<&[u8]>,
    ) -> Option<&'a mut TableState> {
        let is_it = |table: &TableState| table.family == family && Some(table.name.as_bytes()) == name;
        found(tables, &mut self.table, is_it)
    }

    fn chain<'a>(&mut self, chains: &'a mut [ChainState], name: Option<&[u8]>) -> Option<&'a mut ChainState> {
        found(chains, &mut self.chain, |chain| Some(chain.name.as_bytes()) == name)
    }
}

/// The element that is meant, looked for from a place on, and then before it.
fn found<'a, T>(all: &'a mut [T], place: &mut usize, is_it: impl Fn(&T) -> bool) -> Option<&'a mut T> {
    let behind = all.iter().skip(*place).position(&is_it).map(|further| *place + further);
    *place = behind.or_else(|| all.iter().position(is_it))?;
    all.get_mut(*place)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Comparisons until all of these were found, one after the other.
    fn comparisons(wanted: impl Iterator<Item = usize>) -> usize {
        let (mut all, mut place, compared) = ((0..1_000).collect::<Vec<_>>(), 0, Cell::new(0));
        for one in wanted {
            let is_it = |other: &usize| {
                compared.set(compared.get() + 1);
                *other == one
            };
            assert_eq!(found(&mut all, &mut place, is_it), Some(&mut { one }));
        }
        compared.get()
    }

    #[test]
    fn what_is_listed_in_order_is_found_without_a_search() {
        let in_order = (0..1_000).flat_map(|one| [one; 3]);
        assert!(comparisons(in_order) <= 4_000);
        assert!(comparisons([5, 3, 999, 0].into_iter()) > 1_000, "in any other order it is found as well");
        assert_eq!(found(&mut [1, 2], &mut 7, |_| false), None);
    }
}
