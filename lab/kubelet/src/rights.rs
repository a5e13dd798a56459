// SPDX-License-Identifier: Apache-2.0
//! Capabilities of a container's process, as a runtime derives them from a security context.

use k8s_openapi::api::core::v1::SecurityContext;
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, Gid, Uid, remove_capability_from_bounding_set, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};

use crate::error::Error;

/// Default capabilities of a runtime.
const USUAL: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::AUDIT_WRITE);

/// The capabilities of a process that runs as root; another user has none, as in Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights(CapabilitySet);

impl Rights {
    /// All: those of the lab's own processes.
    pub const ALL: Self = Self(CapabilitySet::all());
    /// None, whoever the user is.
    pub const NONE: Self = Self(CapabilitySet::empty());

    /// A container's. Names are taken with and without `CAP_`.
    #[must_use]
    pub fn of_container(context: Option<&SecurityContext>) -> Self {
        if context.and_then(|context| context.privileged) == Some(true) {
            return Self::ALL;
        }
        let wanted = context.and_then(|context| context.capabilities.as_ref());
        let dropped = wanted.and_then(|wanted| wanted.drop.as_ref());
        let added = wanted.and_then(|wanted| wanted.add.as_ref());
        let minus = dropped.into_iter().flatten().map(|name| named(name)).collect();
        let plus = added.into_iter().flatten().map(|name| named(name)).collect();
        Self(USUAL.difference(minus).union(plus))
    }

    /// Drops all others for children of this thread.
    pub(crate) fn take_on(self) -> Result<(), Error> {
        for (_, other) in CapabilitySet::all().difference(self.0).iter_names() {
            remove_capability_from_bounding_set(other)
                .map_err(|errno| Error::system("drop a capability")(errno.into()))?;
        }
        Ok(())
    }
}

/// Gives this thread, and what it starts, a user and a group, and no others. `Command::uid` does it between fork and exec: the kernel then copies the page
/// tables of this whole process, for a process that throws them away.
pub(crate) fn become_user(uid: u32, gid: u32) -> Result<(), Error> {
    let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
    let become_them = || {
        set_thread_res_gid(group, group, group)?;
        match set_thread_groups(&[]) {
            // A user namespace in which groups cannot be given up has none to give up.
            Ok(()) | Err(Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        set_thread_res_uid(user, user, user)?;
        // The kernel hides the files of a process in /proc as soon as one of its threads is another user.
        set_dumpable_behavior(DumpableBehavior::Dumpable)
    };
    become_them().map_err(|errno| Error::system("become another user")(errno.into()))
}

/// Capabilities of a name of capabilities(7), in either case. runc takes any other for none: `ignoring unknown or unavailable capabilities`.
fn named(name: &str) -> CapabilitySet {
    let name = name.to_uppercase();
    match name.trim_start_matches("CAP_") {
        "ALL" => CapabilitySet::all(),
        name => CapabilitySet::from_name(name).unwrap_or(CapabilitySet::empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(context: serde_json::Value) -> Rights {
        Rights::of_container(Some(&serde_json::from_value(context).unwrap()))
    }

    #[test]
    fn dropping_comes_before_adding() {
        let rights = of(json!({ "capabilities": { "drop": ["ALL"], "add": ["NET_ADMIN", "CAP_NET_RAW"] } }));
        assert_eq!(rights.0, CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW);
        assert_eq!(of(json!({ "capabilities": { "drop": ["ALL"] } })).0, CapabilitySet::empty());
    }

    #[test]
    fn every_capability_of_the_kernel_has_a_name() {
        let without = of(json!({ "capabilities": { "drop": ["MKNOD", "CAP_CHOWN", "no-such"] } }));
        assert_eq!(without.0, USUAL.difference(CapabilitySet::MKNOD | CapabilitySet::CHOWN));
        let names =
            ["AUDIT_CONTROL", "BPF", "CHECKPOINT_RESTORE", "IPC_LOCK", "net_bind_service", "SYS_TIME"];
        assert!(names.iter().all(|name| named(name).bits().count_ones() == 1));
        assert_eq!(CapabilitySet::all().iter_names().count(), 41, "of Linux 5.9 and later");
    }

    #[test]
    fn who_asks_for_nothing_may_not_change_the_network() {
        assert!(!Rights::of_container(None).0.contains(CapabilitySet::NET_ADMIN));
        assert_eq!(of(json!({ "privileged": true })), Rights::ALL);
    }
}
