// SPDX-License-Identifier: Apache-2.0
//! Reads everything that nf_tables holds in the calling thread's namespace for IPv4 and IPv6.

use std::io;

use rustix::io::Errno;

use crate::encode::{query, query_elements};
use crate::expression::{keys, spell_out, take_counter};
use crate::netlink::{ExchangeError, Socket};
use crate::nft::{self, attribute, message};
use crate::snapshot::{Base, ChainState, Name, NfFamily, RuleState, Snapshot, TableState};
use crate::wire::{DUMP, Malformed, Message, attributes, be32, be64, fixed, messages, text};

/// Maximum attempts at reading while rules change.
const ATTEMPTS: u32 = 16;

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
    for _ in 0..ATTEMPTS {
        match once(socket) {
            Ok(Some(snapshot)) => return Ok(snapshot),
            // An interrupted list is not read to its end; what is left of it must not be taken for the next answer.
            Ok(None) | Err(ExchangeError::Interrupted) => *socket = Socket::netfilter().map_err(no_socket)?,
            Err(error) => return Err(translate(error)),
        }
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

/// One attempt; `None` if rules changed between the lists.
fn once(socket: &mut Socket) -> Result<Option<Snapshot>, ExchangeError> {
    let mut snapshot = Snapshot { generation: generation(socket)?, tables: Vec::new() };
    let tables = &mut snapshot.tables;
    let mut orphans = 0_usize;
    let mut list = |tables: &mut Vec<TableState>, kind| {
        socket.ask(&query(kind, DUMP).into_bytes(), |reply| {
            orphans += usize::from(take(tables, &reply)?.is_none());
            Ok(())
        })
    };
    list(tables, message::GET_TABLE)?;
    if !tables.is_empty() {
        list(tables, message::GET_CHAIN)?;
        list(tables, message::GET_RULE)?;
        match sets(socket, tables) {
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

/// Reads the sets without a name into the rules that ask for them.
fn sets(socket: &mut Socket, tables: &mut [TableState]) -> Result<(), ExchangeError> {
    for table in tables {
        let family = table.family.number();
        for rule in table.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
            let spelled = spell_out(&rule.expressions, |set| {
                elements(socket, &query_elements(family, table.name.as_bytes(), set))
            })?;
            rule.expressions = spelled.unwrap_or_else(|| std::mem::take(&mut rule.expressions));
        }
    }
    Ok(())
}

/// The elements of a set; `None` if they are more than keys.
fn elements(socket: &mut Socket, request: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ExchangeError> {
    let mut found = Some(Vec::new());
    socket.ask(request, |reply| {
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
    let mut snapshot = Snapshot::default();
    for reply in messages(bytes) {
        let known = reply.and_then(|reply| take(&mut snapshot.tables, &reply));
        known.ok().flatten().ok_or(ReadError::Malformed)?;
    }
    Ok(snapshot)
}

/// Adds what a reply says, if it is about IPv4 or IPv6; `None` if it belongs to something that is not known.
fn take(tables: &mut Vec<TableState>, reply: &Message<'_>) -> Result<Option<()>, Malformed> {
    let (header, body) = reply.body.split_at_checked(nft::GENERIC_HEADER).ok_or(Malformed)?;
    let Some(family) = header.first().and_then(|number| NfFamily::of(*number)) else {
        return Ok(Some(()));
    };
    match reply.kind {
        message::NEW_TABLE => table(tables, family, body).map(Some),
        message::NEW_CHAIN => chain(tables, family, body),
        message::NEW_RULE => rule(tables, family, body),
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
    Ok(table_of(tables, family, table).map(|table| table.chains.push(found)))
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
    let chain = table_of(tables, family, table)
        .and_then(|table| table.chains.iter_mut().find(|known| Some(known.name.as_bytes()) == chain));
    Ok(chain.map(|chain| chain.rules.push(found)))
}

fn table_of<'a>(
    tables: &'a mut [TableState],
    family: NfFamily,
    name: Option<&[u8]>,
) -> Option<&'a mut TableState> {
    tables.iter_mut().find(|table| table.family == family && Some(table.name.as_bytes()) == name)
}
