// SPDX-License-Identifier: Apache-2.0
//! Diagnosis of a step that the kernel rejected. An error number says little: what the step needs is asked for one by one.

use rustix::io::Errno;

use super::ApplyError;
use crate::encode::{query_expression, query_extension};
use crate::netlink::{ExchangeError, Socket};
use crate::read::{self, ReadError};
use crate::snapshot::NfFamily;
use crate::step::{Action, Needed, NeededExtension, Step};

/// The part of a step's need that the kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    Nothing,
    It,
    NftCompat,
}

/// Finds out what a refusal means.
pub(super) fn explain(socket: &mut Socket, step: Step, errno: i32) -> ApplyError {
    decide(step, Errno::from_raw_os_error(errno), |family, needed| match needed {
        Needed::Extension(extension) => lacks_extension(socket, family, extension),
        Needed::Expression { element, .. } => lacks_expression(socket, family, element),
        // Its table is there, so that nothing else can be missing.
        Needed::ChainType(_) => Lack::It,
        // nfnetlink refuses a transaction's first message where the sub-system is not there, and where the whole is not valid.
        Needed::NfTables => match read::with(socket) {
            Err(ReadError::NoNfTables) => Lack::It,
            _ => Lack::Nothing,
        },
    })
}

fn decide(step: Step, reason: Errno, lacks: impl FnMut(NfFamily, &Needed) -> Lack) -> ApplyError {
    let names_owner =
        step.needs.iter().any(|needed| matches!(needed, Needed::Extension(one) if one.name == "owner"));
    match reason {
        Errno::PERM => return ApplyError::Permission,
        Errno::NOENT | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => {
            return missing(step, reason, lacks);
        }
        Errno::INVAL if names_owner => return ApplyError::UnmappedOwner { step: Box::new(step) },
        _ => {}
    }
    ApplyError::Refused { step: Box::new(step), reason: reason.into() }
}

/// Names the missing need, if any.
fn missing(step: Step, reason: Errno, mut lacks: impl FnMut(NfFamily, &Needed) -> Lack) -> ApplyError {
    let step = Box::new(step);
    if step.action == Action::CreateTable {
        return ApplyError::NoFamily { step };
    }
    for needed in &step.needs {
        match (needed, lacks(step.family, needed)) {
            (_, Lack::Nothing) => {}
            (_, Lack::NftCompat) => return ApplyError::NoNftCompat,
            (Needed::NfTables, Lack::It) => return ApplyError::NoNfTables,
            (Needed::ChainType(kind), Lack::It) => {
                let kind = kind.clone();
                return ApplyError::NoChainType { step, kind };
            }
            (Needed::Extension(NeededExtension { name, .. }), Lack::It) => {
                let extension = name.clone();
                return ApplyError::NoExtension { step, extension };
            }
            (Needed::Expression { name, .. }, Lack::It) => {
                let expression = name.clone();
                return ApplyError::NoExpression { step, expression };
            }
        }
    }
    ApplyError::Refused { step, reason: reason.into() }
}

fn lacks_extension(socket: &mut Socket, family: NfFamily, needed: &NeededExtension) -> Lack {
    let target = u32::from(needed.is_target);
    let request = query_extension(family.number(), needed.name.as_bytes(), needed.revision, target);
    match socket.ask(&request, |_| Ok(())) {
        Err(ExchangeError::Refused(errno)) => match Errno::from_raw_os_error(errno) {
            Errno::NOENT | Errno::PROTONOSUPPORT => Lack::It,
            Errno::INVAL => Lack::NftCompat,
            _ => Lack::Nothing,
        },
        _ => Lack::Nothing,
    }
}

/// Asks for a rule of this expression alone, in a transaction that never ends and so never holds. The expression may be refused
/// for want of what goes before it: that is another error.
fn lacks_expression(socket: &mut Socket, family: NfFamily, element: &[u8]) -> Lack {
    let mut lack = Lack::Nothing;
    if socket.send(&query_expression(family, element)).is_ok() {
        // An unreadable reply says nothing about the kernel.
        let _ = socket.acknowledgements(|_, errno| {
            if matches!(
                Errno::from_raw_os_error(errno),
                Errno::NOENT | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT
            ) {
                lack = Lack::It;
            }
        });
    }
    lack
}

#[cfg(test)]
mod tests {
    use redirect::config::{Config, Dns};
    use redirect::generate::ruleset;
    use redirect::ruleset::{Dialect, Ruleset};

    use super::*;
    use crate::encode;
    use crate::fake::ordinary;
    use crate::wire::messages;

    fn rules(dialect: Dialect) -> Ruleset {
        ruleset(&Config { dialect, dns: Dns::All, ..ordinary() }).unwrap()
    }

    /// Error for the first step that `is_refused`, by a kernel that lacks `missing`.
    fn said(rules: &Ruleset, is_refused: &str, errno: Errno, missing: &str) -> (ApplyError, String) {
        let batch = encode::batch(rules, None).unwrap();
        let steps = messages(&batch).map(|message| Step::of(&batch, message.unwrap().sequence));
        let step = steps.into_iter().find(|step| step.to_string().contains(is_refused)).unwrap();
        let error = decide(step, errno, |_, needed| match needed {
            Needed::Extension(extension) if missing == "nft_compat" => {
                assert!(extension.revision < 4);
                Lack::NftCompat
            }
            Needed::Extension(extension) if extension.name == missing => Lack::It,
            Needed::Expression { name, .. } if *name == missing => Lack::It,
            Needed::ChainType(_) => Lack::It,
            Needed::NfTables if missing == "nf_tables" => Lack::It,
            _ => Lack::Nothing,
        });
        let text = error.to_string();
        (error, text)
    }

    #[test]
    fn what_a_kernel_lacks_for_native_rules_is_named() {
        let rules = rules(Dialect::Nft);
        let (error, text) = said(&rules, "redirect to :15001", Errno::NOENT, "redir");
        assert!(matches!(error, ApplyError::NoExpression { .. }), "{text}");
        assert!(text.contains("inet istio-proxy-nat istio-redirect") && text.contains("\"redir\""), "{text}");
        let (error, text) = said(&rules, "ct zone set 1", Errno::OPNOTSUPP, "ct");
        assert!(matches!(error, ApplyError::NoExpression { .. }) && text.contains("\"ct\""), "{text}");
        let (error, text) = said(&rules, "create chain inet istio-proxy-nat output", Errno::NOENT, "");
        assert!(matches!(error, ApplyError::NoChainType { .. }), "{text}");
        assert!(text.ends_with("no chains of type nat in family inet"), "{text}");
        let (error, text) = said(&rules, "create table inet istio-proxy-nat", Errno::AFNOSUPPORT, "");
        assert!(matches!(error, ApplyError::NoFamily { .. }) && text.ends_with("family inet"), "{text}");
    }

    #[test]
    fn what_a_kernel_lacks_for_the_rules_of_iptables_is_named() {
        let rules = rules(Dialect::Iptables);
        let (error, text) = said(&rules, "--uid-owner", Errno::NOENT, "owner");
        assert!(matches!(error, ApplyError::NoExtension { .. }) && text.contains("\"owner\""), "{text}");
        let (error, _) = said(&rules, "--uid-owner", Errno::NOENT, "nft_compat");
        assert!(matches!(error, ApplyError::NoNftCompat));
        let (error, text) = said(&rules, "create chain ip6 nat OUTPUT", Errno::NOENT, "");
        assert!(matches!(error, ApplyError::NoChainType { .. }), "{text}");
        assert!(text.ends_with("no chains of type nat in family ip6"), "{text}");
        let (error, _) = said(&rules, "--uid-owner", Errno::INVAL, "");
        assert!(matches!(error, ApplyError::UnmappedOwner { .. }));
    }

    #[test]
    fn a_transaction_that_is_refused_as_a_whole_does_not_mean_that_there_is_no_nf_tables() {
        let rules = rules(Dialect::Nft);
        let (error, _) = said(&rules, "commit", Errno::OPNOTSUPP, "nf_tables");
        assert!(matches!(error, ApplyError::NoNfTables));
        let (error, _) = said(&rules, "commit", Errno::OPNOTSUPP, "");
        assert!(matches!(error, ApplyError::Refused { .. }));
    }

    #[test]
    fn a_refusal_for_another_reason_keeps_it() {
        for dialect in [Dialect::Iptables, Dialect::Nft] {
            for errno in [Errno::NOENT, Errno::INVAL, Errno::BUSY] {
                let (error, text) = said(&rules(dialect), "add to", errno, "");
                assert!(matches!(error, ApplyError::Refused { .. }), "{dialect:?} {errno}: {text}");
            }
        }
    }
}
