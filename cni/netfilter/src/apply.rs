// SPDX-License-Identifier: Apache-2.0
//! Makes the calling thread's namespace hold a ruleset over netlink, in one transaction: all of it or nothing. A ruleset of the iptables
//! dialect goes into the tables of iptables (back end nft-compat), one of the native dialect into tables of its own (back end nft);
//! what was there of ours in either goes in the same transaction.
//!
//! A fresh namespace costs one send: the first transaction is written for a namespace whose nf_tables nobody ever touched, and
//! names that generation, so that the kernel refuses it elsewhere. Only then is read what is there, and a transaction that names
//! the generation read is planned from it ([`crate::plan`]). If others change rules in between, that one is refused, too, and it
//! starts again.

mod error;
mod refusal;

use redirect::ruleset::{Dialect, Ruleset};
use rustix::io::Errno;

use crate::encode::{self, EncodeError};
use crate::netlink::{ExchangeError, Socket};
use crate::nft::{ERESTART, UNTOUCHED};
use crate::plan::{Plan, plan, without_native};
use crate::read::{self, ReadError};
use crate::step::Step;

pub use error::ApplyError;

/// Maximum attempts at a transaction while others change rules.
const ATTEMPTS: u32 = 16;

/// Outcome of applying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// There was nothing of ours; now there is.
    Created,
    /// Something of ours was there (half applied, older, upstream's, another back end's) and was replaced.
    Replaced,
    /// The wanted rules were there; nothing was sent.
    Unchanged,
}

/// Applies a ruleset. One without rules removes what is ours.
///
/// # Errors
/// See [`ApplyError`].
pub fn apply(ruleset: &Ruleset) -> Result<Applied, ApplyError> {
    send(ruleset, &fresh(ruleset)?).map(|(applied, _)| applied)
}

/// The transaction for a namespace whose nf_tables nobody ever touched.
pub(crate) fn fresh(ruleset: &Ruleset) -> Result<Vec<u8>, EncodeError> {
    encode::batch(ruleset, Some(UNTOUCHED))
}

/// Applies a ruleset whose [`fresh`] transaction is this. True if nobody had touched nf_tables there.
pub(crate) fn send(ruleset: &Ruleset, fresh: &[u8]) -> Result<(Applied, bool), ApplyError> {
    let mut socket = open()?;
    if !ruleset.rules.is_empty() && commit(&mut socket, fresh)? == Commit::Done {
        return Ok((Applied::Created, true));
    }
    for _ in 0..ATTEMPTS {
        let snapshot = read::with(&mut socket)?;
        let Plan::Send { batch, replaces } = plan(&snapshot, ruleset)? else {
            return Ok((Applied::Unchanged, false));
        };
        if commit(&mut socket, &batch)? == Commit::Done {
            return Ok((if replaces { Applied::Replaced } else { Applied::Created }, false));
        }
    }
    Err(ApplyError::Busy { attempts: ATTEMPTS })
}

fn open() -> Result<Socket, ApplyError> {
    Socket::netfilter().map_err(|errno| match errno {
        Errno::PROTONOSUPPORT => ApplyError::NoNfTables,
        errno => ApplyError::Socket(errno.into()),
    })
}

/// Outcome of removing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// Something of ours was there, and is gone.
    Rules,
    /// There was nothing of ours.
    Nothing,
}

/// Removes everything of ours in every back end of nf_tables, in one transaction. What the legacy back end holds is elsewhere.
///
/// # Errors
/// See [`ApplyError`]. A kernel without nf_tables holds nothing in it: that is no error.
pub fn remove() -> Result<Removed, ApplyError> {
    let nothing = Ruleset { dialect: Dialect::Iptables, ipv6: true, rules: Vec::new() };
    match apply(&nothing) {
        Ok(Applied::Unchanged) | Err(ApplyError::NoNfTables | ApplyError::Read(ReadError::NoNfTables)) => {
            Ok(Removed::Nothing)
        }
        Ok(Applied::Created | Applied::Replaced) => Ok(Removed::Rules),
        Err(error) => Err(error),
    }
}

/// Removes the tables of the native back end, and leaves those of iptables as they are.
///
/// # Errors
/// See [`ApplyError`].
pub(crate) fn remove_native() -> Result<Removed, ApplyError> {
    let socket = &mut open()?;
    for _ in 0..ATTEMPTS {
        let Some(batch) = without_native(&read::with(socket)?) else { return Ok(Removed::Nothing) };
        if commit(socket, &batch)? == Commit::Done {
            return Ok(Removed::Rules);
        }
    }
    Err(ApplyError::Busy { attempts: ATTEMPTS })
}

/// Outcome of a transaction that was not rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commit {
    /// It holds.
    Done,
    /// The namespace is at another generation.
    Outdated,
}

/// Sends a transaction and reads every answer: an acknowledgement alone does not say that it holds, as the kernel sends it even
/// if another message was refused.
fn commit(socket: &mut Socket, batch: &[u8]) -> Result<Commit, ApplyError> {
    socket.send(batch).map_err(|errno| match errno {
        Errno::MSGSIZE => ApplyError::TooLarge { bytes: batch.len() },
        errno => ApplyError::Socket(errno.into()),
    })?;
    let mut refused: Option<(u32, i32)> = None;
    let mut acknowledged = false;
    let drained = socket.acknowledgements(|sequence, errno| {
        if errno == 0 {
            acknowledged = true;
        } else {
            refused.get_or_insert((sequence, errno));
        }
    });
    match refused {
        Some((_, ERESTART)) => return Ok(Commit::Outdated),
        Some((sequence, errno)) => return Err(refusal::explain(socket, Step::of(batch, sequence), errno)),
        None => {}
    }
    match drained {
        Ok(()) if acknowledged => Ok(Commit::Done),
        Ok(()) => Err(ApplyError::NotAcknowledged),
        Err(ExchangeError::System(errno)) => Err(ApplyError::Socket(errno.into())),
        Err(_) => Err(ApplyError::NotAcknowledged),
    }
}
