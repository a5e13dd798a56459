// SPDX-License-Identifier: Apache-2.0
//! Makes the calling thread's namespace hold a ruleset for back end nft-compat, in one transaction: all of it or nothing.
//!
//! A fresh namespace costs one send: the first transaction is written for a namespace whose nf_tables nobody ever touched, and
//! names that generation, so that the kernel refuses it elsewhere. Only then is read what is there, and a transaction that names
//! the generation read is planned from it ([`crate::plan`]). If others change rules in between, that one is refused, too, and it
//! starts again.

use std::io;

use protocol::mutant;
use redirect::ruleset::Ruleset;
use rustix::io::Errno;

use crate::encode::{self, EncodeError, query_extension};
use crate::netlink::{ExchangeError, Socket};
use crate::nft::{self, ERESTART, UNTOUCHED};
use crate::plan::{Plan, PlanError, plan};
use crate::read::{self, ReadError};
use crate::snapshot::{Name, NfFamily};
use crate::step::{Action, Needed, Step};

/// How often a transaction is planned anew because others changed rules meanwhile.
const ATTEMPTS: u32 = 16;

/// What applying came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// There was nothing of ours; now there is.
    Created,
    /// Something of ours was there (half applied, older, upstream's, another back end's) and was replaced.
    Replaced,
    /// The wanted rules were there; nothing was sent.
    Unchanged,
}

/// Why a ruleset could not be applied. The namespace is as it was, except where a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The ruleset cannot be written for this back end; nothing was sent.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// The ruleset cannot go next to what is there; nothing was sent.
    #[error(transparent)]
    Plan(PlanError),
    /// The rules that are there could not be read; nothing was sent.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The kernel has no nf_tables.
    #[error("apply rules: this kernel has no nf_tables")]
    NoNfTables,
    /// The kernel has nf_tables, but not what runs iptables' extensions in it.
    #[error("apply rules: this kernel has no nft_compat (CONFIG_NFT_COMPAT)")]
    NoNftCompat,
    /// The kernel lacks an extension.
    #[error("{step}: this kernel has no xtables extension {extension:?} for it")]
    NoExtension {
        /// The rule that needs it.
        step: Box<Step>,
        /// The extension.
        extension: Name,
    },
    /// The caller may not.
    #[error(
        "apply rules: not permitted (needs CAP_NET_ADMIN in the user namespace that owns the network namespace)"
    )]
    Permission,
    /// A rule names a user or group that this user namespace does not have, or this is not the user namespace that owns the
    /// network namespace.
    #[error(
        "{step}: its user or group is not mapped in the user namespace that owns the network namespace, or the caller is in another"
    )]
    UnmappedOwner {
        /// The rule.
        step: Box<Step>,
    },
    /// Others kept changing rules.
    #[error("apply rules: others changed rules during each of {attempts} attempts")]
    Busy {
        /// How often it was tried.
        attempts: u32,
    },
    /// The kernel refused a step.
    #[error("{step}")]
    Refused {
        /// The step.
        step: Box<Step>,
        /// The kernel's reason.
        #[source]
        reason: io::Error,
    },
    /// The transaction is longer than what the kernel takes at once, and the caller may not raise that; nothing was sent.
    #[error("apply rules: {bytes} bytes are more than net.core.wmem_max lets this user send at once")]
    TooLarge {
        /// Its length.
        bytes: usize,
    },
    /// The kernel did not say that it accepted the transaction, nor that it did not. What the namespace holds is not known.
    #[error("apply rules: the kernel did not acknowledge the transaction")]
    NotAcknowledged,
    /// The socket failed. What the namespace holds is not known if that happened on the way back.
    #[error("apply rules")]
    Socket(#[source] io::Error),
}

impl From<PlanError> for ApplyError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Encode(error) => Self::Encode(error),
            error => Self::Plan(error),
        }
    }
}

/// Applies a ruleset. One without rules removes what is ours.
///
/// # Errors
/// See [`ApplyError`].
pub fn apply(ruleset: &Ruleset) -> Result<Applied, ApplyError> {
    let fresh = encode::batch(ruleset, Some(UNTOUCHED))?;
    let mut socket = Socket::netfilter().map_err(|errno| match errno {
        Errno::PROTONOSUPPORT => ApplyError::NoNfTables,
        errno => ApplyError::Socket(errno.into()),
    })?;
    if !ruleset.rules.is_empty() && commit(&mut socket, &fresh)? == Commit::Done {
        return Ok(Applied::Created);
    }
    for _ in 0..ATTEMPTS {
        let snapshot = read::with(&mut socket)?;
        let Plan::Send { batch, replaces } = plan(&snapshot, ruleset)? else {
            let refuses = mutant!("second-add-fails");
            return if refuses { Err(ApplyError::NotAcknowledged) } else { Ok(Applied::Unchanged) };
        };
        if commit(&mut socket, &batch)? == Commit::Done {
            return Ok(if replaces { Applied::Replaced } else { Applied::Created });
        }
    }
    Err(ApplyError::Busy { attempts: ATTEMPTS })
}

/// What became of a transaction that was not refused.
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
        Some((sequence, errno)) => return Err(refusal(socket, Step::of(batch, sequence), errno)),
        None => {}
    }
    match drained {
        Ok(()) if acknowledged => Ok(Commit::Done),
        Ok(()) => Err(ApplyError::NotAcknowledged),
        Err(ExchangeError::System(errno)) => Err(ApplyError::Socket(errno.into())),
        Err(_) => Err(ApplyError::NotAcknowledged),
    }
}

/// Finds out what a refusal means.
fn refusal(socket: &mut Socket, step: Step, errno: i32) -> ApplyError {
    let reason = Errno::from_raw_os_error(errno);
    let names_owner = step.extensions.iter().any(|needed| needed.name == "owner");
    match reason {
        Errno::PERM => return ApplyError::Permission,
        // How nfnetlink answers for a sub-system that is not there: it refuses the transaction's first message.
        Errno::OPNOTSUPP if step.action == Action::Commit => return ApplyError::NoNfTables,
        Errno::NOENT | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT => {
            for needed in &step.extensions {
                match lacks(socket, step.family, needed) {
                    Lack::Extension => {
                        let extension = needed.name.clone();
                        return ApplyError::NoExtension { step: Box::new(step), extension };
                    }
                    Lack::NftCompat => return ApplyError::NoNftCompat,
                    Lack::Nothing => {}
                }
            }
        }
        Errno::INVAL if names_owner => return ApplyError::UnmappedOwner { step: Box::new(step) },
        _ => {}
    }
    ApplyError::Refused { step: Box::new(step), reason: reason.into() }
}

/// What the kernel lacks of an extension.
enum Lack {
    Nothing,
    Extension,
    NftCompat,
}

fn lacks(socket: &mut Socket, family: NfFamily, needed: &Needed) -> Lack {
    let family = match family {
        NfFamily::Ip6 => nft::family::IPV6,
        NfFamily::Ip | NfFamily::Inet => nft::family::IPV4,
    };
    let target = u32::from(needed.is_target);
    let request = query_extension(family, needed.name.as_bytes(), needed.revision, target);
    match socket.ask(&request, |_| Ok(())) {
        Err(ExchangeError::Refused(errno)) => match Errno::from_raw_os_error(errno) {
            Errno::NOENT | Errno::PROTONOSUPPORT => Lack::Extension,
            Errno::INVAL => Lack::NftCompat,
            _ => Lack::Nothing,
        },
        _ => Lack::Nothing,
    }
}
