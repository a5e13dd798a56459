// SPDX-License-Identifier: Apache-2.0
//! A pod's network namespace, decided over everything that was gathered; pure.
//!
//! The address alone is no proof: addresses are used again, and a process can sit in another pod's namespace. Somebody who knows
//! sandboxes must name the pod, too: the runtime's CNI result cache, or, where the cache says nothing of a namespace, the cgroup of the
//! oldest process in it (the sandbox's own, who came first).

use std::net::IpAddr;

use protocol::pod::{MIRROR_ANNOTATION, Metadata};
use serde::{Deserialize, Serialize};

/// Identity of a pod, as sandboxes are labelled with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub namespace: String,
    pub name: String,
    /// UIDs: its own, and for a static pod the one that the kubelet uses.
    pub uids: Vec<String>,
}

/// Pod of a cached result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Named {
    /// `K8S_POD_NAMESPACE`
    pub namespace: String,
    /// `K8S_POD_NAME`
    pub name: String,
    /// `K8S_POD_UID`; older kubelets omit it.
    pub uid: String,
}

impl From<&Metadata> for Identity {
    fn from(pod: &Metadata) -> Self {
        let mirror = pod.annotations.get(MIRROR_ANNOTATION);
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uids: [&pod.uid].into_iter().chain(mirror).filter(|uid| !uid.is_empty()).cloned().collect(),
        }
    }
}

impl Identity {
    /// True if a cached result is this pod's. Names are reused, UIDs never.
    #[must_use]
    pub fn is(&self, named: &Named) -> bool {
        if named.uid.is_empty() {
            return (&self.namespace, &self.name) == (&named.namespace, &named.name);
        }
        self.uids.contains(&named.uid)
    }
}

/// Owner of a namespace, as far as known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sandbox {
    #[default]
    Unknown,
    /// By the runtime's cache.
    Cached(Named),
    /// By the cgroup of its oldest process, which names a pod by this UID.
    Process(String),
}

/// A network namespace of the node that could be a pod's; the node's own and the agent's are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub addresses: Vec<IpAddr>,
    /// Owner.
    pub sandbox: Sandbox,
}

/// Failure to find a pod's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NotFound {
    #[error("the pod has no address yet")]
    NoAddress,
    #[error(
        "no namespace on this node has the pod's address (is the node's /proc mounted, and is the netns directory the runtime's?)"
    )]
    NoCandidate,
    /// Namespaces with its address belong to others.
    #[error("the namespace that has the pod's address belongs to another pod")]
    OtherPod,
    /// The owner of the namespace with its address is unknown.
    #[error(
        "a namespace has the pod's address, and neither the CNI result cache nor a process says whose it is (is the cache mounted?)"
    )]
    Unknown,
    /// More than one matches.
    #[error("more than one namespace has the pod's address and names the pod")]
    Ambiguous,
}

/// The one namespace that is `pod`'s: its place among the candidates.
///
/// # Errors
/// There is none, or it cannot be told for sure.
pub fn find(pod: &Identity, addresses: &[IpAddr], candidates: &[Candidate]) -> Result<usize, NotFound> {
    let first = addresses.first().ok_or(NotFound::NoAddress)?;
    let with_address: Vec<(usize, &Sandbox)> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.addresses.contains(first))
        .map(|(at, candidate)| (at, &candidate.sandbox))
        .collect();
    let is_its = |sandbox: &Sandbox| match sandbox {
        Sandbox::Unknown => false,
        Sandbox::Cached(named) => pod.is(named),
        Sandbox::Process(uid) => pod.uids.contains(uid),
    };
    let mut its = with_address.iter().filter(|(_, sandbox)| is_its(sandbox));
    match (its.next(), its.next()) {
        (Some(_), Some(_)) => Err(NotFound::Ambiguous),
        (Some(&(at, _)), None) => Ok(at),
        (None, _) if with_address.is_empty() => Err(NotFound::NoCandidate),
        (None, _) if with_address.iter().any(|(_, sandbox)| **sandbox == Sandbox::Unknown) => {
            Err(NotFound::Unknown)
        }
        (None, _) => Err(NotFound::OtherPod),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Identity {
        Identity { namespace: "shop".into(), name: "cart".into(), uids: vec!["u-1".into(), "mirror".into()] }
    }

    fn named(name: &str, uid: &str) -> Sandbox {
        Sandbox::Cached(Named { namespace: "shop".into(), name: name.into(), uid: uid.into() })
    }

    fn candidate(address: &str, sandbox: Sandbox) -> Candidate {
        Candidate { addresses: vec!["127.0.0.1".parse().unwrap(), address.parse().unwrap()], sandbox }
    }

    fn found(candidates: &[Candidate]) -> Result<usize, NotFound> {
        find(&pod(), &["10.9.0.2".parse().unwrap()], candidates)
    }

    #[test]
    fn address_and_sandbox_must_both_say_so() {
        let by_uid = candidate("10.9.0.2", named("cart", "u-1"));
        let by_mirror = candidate("10.9.0.2", named("cart", "mirror"));
        let by_name = candidate("10.9.0.2", named("cart", ""));
        let by_process = candidate("10.9.0.2", Sandbox::Process("u-1".into()));
        for right in [by_uid, by_mirror, by_name, by_process] {
            assert_eq!(
                found(&[candidate("10.9.0.3", named("till", "u-2")), right.clone()]),
                Ok(1),
                "{right:?}"
            );
        }
        assert_eq!(
            found(&[candidate("10.9.0.3", named("cart", "u-1"))]),
            Err(NotFound::NoCandidate),
            "its former sandbox"
        );
        assert_eq!(
            found(&[candidate("10.9.0.2", named("till", "u-2"))]),
            Err(NotFound::OtherPod),
            "its address went to another"
        );
        assert_eq!(
            found(&[candidate("10.9.0.2", named("cart", "u-0"))]),
            Err(NotFound::OtherPod),
            "its name was used before"
        );
        assert_eq!(found(&[candidate("10.9.0.2", Sandbox::Process("u-2".into()))]), Err(NotFound::OtherPod));
        assert_eq!(found(&[candidate("10.9.0.2", Sandbox::Unknown)]), Err(NotFound::Unknown));
        assert_eq!(find(&pod(), &[], &[]), Err(NotFound::NoAddress));
    }

    #[test]
    fn of_two_with_its_address_its_own_counts_and_two_of_its_own_are_none() {
        let (own, other) =
            (candidate("10.9.0.2", named("cart", "u-1")), candidate("10.9.0.2", named("till", "u-2")));
        assert_eq!(found(&[other.clone(), own.clone()]), Ok(1));
        assert_eq!(found(&[own.clone(), other, candidate("10.9.0.2", Sandbox::Unknown)]), Ok(0));
        assert_eq!(found(&[own.clone(), own]), Err(NotFound::Ambiguous));
    }
}
