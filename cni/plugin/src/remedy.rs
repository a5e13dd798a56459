// SPDX-License-Identifier: Apache-2.0
//! Remedies that an error's text does not give: on locked-down nodes the plugin itself lacks rights.

use std::io::ErrorKind;

use netfilter::address::AddressError;
use netfilter::ground::GroundError;
use netfilter::iptables::{IptablesError, Problem};
use netfilter::legacy::LegacyError;
use netfilter::program::ProgramError;
use netfilter::route::RouteError;
use netfilter::{ApplyError, NetnsError, ReadError};

/// A path that even root may not use.
pub(crate) const DENIED: &str = "root may do this: look for denials of a security module (SELinux: ausearch -m avc -c istio-cni; AppArmor: dmesg) \
    and label the file as its policy wants, or allow it";
/// The credentials are not there, and nobody listens.
pub(crate) const NO_AGENT: &str = "the node agent writes this file when it starts: look whether its pod (istio-cni-node) runs on this node. If istio-cni was \
    uninstalled, this node was left behind: apply what `install-cni manifests --purge` prints, or run `install-cni --purge` here";
/// The credentials are refused, and nobody listens.
pub(crate) const LEFT_BEHIND: &str = "no node agent runs on this node, and the credentials that the last one left are refused: look why its pod \
    (istio-cni-node) does not run. If istio-cni was uninstalled, this node was left behind: apply what `install-cni manifests --purge` prints, \
    or run `install-cni --purge` here";
const READ_ONLY: &str = "the file system is mounted read-only: choose a path on another one";
const ENTER: &str = "the plugin needs CAP_SYS_ADMIN in its own user namespace and in the one that owns the pod's network namespace: run the \
    container runtime as root of the node, and look for denials of a security module";
const ADMINISTER: &str = "the plugin gets its rights from the container runtime: give that CAP_NET_ADMIN (and CAP_SYS_ADMIN, to enter the pod), \
    and look for denials of a security module";
const LAST_RESORT: &str = "load what the kernel lacks (modules nf_tables, nft_compat, nft_nat), or install iptables with its variant legacy";
const LOOK_UP_USERS: &str = "the pod runs with hostUsers: false and the user of its proxy is not among the users that it has: choose a \
    runAsUser and runAsGroup below 65536";

/// About a path that is refused.
pub(crate) fn of_path(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::PermissionDenied => DENIED,
        ErrorKind::ReadOnlyFilesystem => READ_ONLY,
        _ => "",
    }
}

/// About a namespace that cannot be opened or entered.
pub(crate) fn of_netns(error: &NetnsError) -> &'static str {
    match error {
        NetnsError::Open { reason, .. } => of_path(reason.kind()),
        NetnsError::Enter { reason, .. } if reason.kind() == ErrorKind::PermissionDenied => ENTER,
        NetnsError::Enter { .. } | NetnsError::NotANamespace { .. } => "",
    }
}

/// About a namespace that cannot be programmed.
pub(crate) fn of_program(error: &ProgramError) -> &'static str {
    match error {
        ProgramError::Apply(ApplyError::Permission | ApplyError::Read(ReadError::Permission))
        | ProgramError::Ground(
            GroundError::Address(AddressError::Permission(_)) | GroundError::Route(RouteError::Permission(_)),
        )
        | ProgramError::Iptables(IptablesError::Read(ReadError::Permission)) => ADMINISTER,
        ProgramError::Legacy(error) | ProgramError::Iptables(IptablesError::Legacy(error)) => {
            of_legacy(error)
        }
        ProgramError::Iptables(IptablesError::Start { reason, .. }) => of_path(reason.kind()),
        ProgramError::Apply(ApplyError::UnmappedOwner { .. }) => LOOK_UP_USERS,
        ProgramError::Instead { failure, .. } => match of_program(failure) {
            "" if is_of_no_tool(failure) => LAST_RESORT,
            advice => advice,
        },
        _ => "",
    }
}

/// True if there is no tool, or none that works.
fn is_of_no_tool(failure: &ProgramError) -> bool {
    matches!(
        failure,
        ProgramError::Iptables(
            IptablesError::NoTool { .. }
                | IptablesError::Start { .. }
                | IptablesError::Failed { problem: Problem::Unknown, .. }
        )
    )
}

fn of_legacy(error: &LegacyError) -> &'static str {
    match error {
        LegacyError::List { reason, .. } => of_path(reason.kind()),
        LegacyError::Permission { .. } => ADMINISTER,
        LegacyError::Read { .. } | LegacyError::Malformed { .. } => "",
    }
}
