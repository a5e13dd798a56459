// SPDX-License-Identifier: Apache-2.0
//! Containers of the application that run with the proxy's user or group: rules match the owner of a socket, so their outbound traffic
//! is the proxy's to them.

use std::fmt;

use protocol::pod::{Container, PodFacts};
use serde::{Deserialize, Serialize};

use crate::proxy::{NAME, containers, number};
use crate::ruleset::Id;

/// Containers of Istio's own; validation runs as the proxy on purpose.
const ISTIO: [&str; 3] = [NAME, "istio-validation", "istio-init"];

/// User or group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are the field's own")]
pub enum Account {
    User,
    Group,
}

/// A container of the application whose user or group is the proxy's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SharedAccount {
    /// The container.
    pub container: String,
    /// User or group.
    pub account: Account,
    /// Its number.
    pub id: Id,
}

impl fmt::Display for SharedAccount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (account, field) = match self.account {
            Account::User => ("user", "runAsUser"),
            Account::Group => ("group", "runAsGroup"),
        };
        write!(
            out,
            "container {} runs with the proxy's {account} {}: its outbound traffic bypasses the proxy in plain text; give it another {field}",
            self.container, self.id
        )
    }
}

/// Containers with the proxy's user `uid` or group `gid`, as far as the pod says their users. Init containers that end are left out: the
/// proxy's user is the documented way for them to reach the network before the proxy runs.
pub(crate) fn shared(pod: &PodFacts, uid: &Id, gid: &Id) -> Vec<SharedAccount> {
    let of_pod = pod.spec.security_context.unwrap_or_default();
    let stays = |container: &&Container| {
        !pod.spec.init_containers.iter().any(|init| std::ptr::eq(init, *container))
            || container.restart_policy.as_deref() == Some("Always")
    };
    let apps = containers(pod).filter(|container| !ISTIO.contains(&container.name.as_str())).filter(stays);
    let ids = apps.flat_map(|container| {
        let own = container.security_context.unwrap_or_default();
        let (user, group) =
            (own.run_as_user.or(of_pod.run_as_user), own.run_as_group.or(of_pod.run_as_group));
        [(container, Account::User, user, uid), (container, Account::Group, group, gid)]
    });
    ids.filter_map(|(container, account, id, of_proxy)| {
        let id = id.map(number).filter(|id| id == of_proxy)?;
        Some(SharedAccount { container: container.name.clone(), account, id })
    })
    .collect()
}
