// SPDX-License-Identifier: Apache-2.0
//! Capabilities of a cluster that is there, judged by what its nodes show.

use crate::tier::Seen;
use cluster::Probe;

use super::{RANGE_UID, maps};
use crate::catalogue::NEEDS;

/// Reason against needs that are about a node which the lab makes.
const NOT_OURS: &str = "the node is not the lab's";

/// True for a need that some clusters meet; the others are about a node that the lab makes.
#[must_use]
pub fn is_of_clusters(need: &str) -> bool {
    judge(need).is_some()
}

/// The look at a node that decides a need: evidence that it is met, or that it is not.
type Judge = fn(&Seen) -> Result<String, String>;

fn judge(need: &str) -> Option<Judge> {
    match need {
        "real-kernel" => Some(kernel),
        "ipv6" => Some(ipv6),
        "any-uid" => Some(any_uid),
        _ => None,
    }
}

/// Capabilities: a need is met if each node meets it.
#[must_use]
pub fn of_cluster(about: &str, nodes: &[Seen]) -> Vec<Probe> {
    NEEDS.map(|need| probe(need, about, nodes)).to_vec()
}

fn probe(need: &str, about: &str, nodes: &[Seen]) -> Probe {
    let (met, evidence) = match judge(need) {
        None => (false, NOT_OURS.to_owned()),
        Some(judge) => match nodes.iter().map(judge).collect::<Result<Vec<_>, _>>() {
            Ok(all) if all.is_empty() => (false, "no node was looked at".to_owned()),
            Ok(all) => (true, format!("{about}; {}", all.join(", "))),
            Err(why) => (false, why),
        },
    };
    Probe { need: need.to_owned(), met, evidence, absent: false }
}

fn kernel(node: &Seen) -> Result<String, String> {
    let Seen { node, kernel, .. } = node;
    match kernel {
        Ok(release) => Ok(format!("{node} has netfilter of kernel {release}")),
        Err(why) => Err(format!("{node} has no netfilter: {why}")),
    }
}

fn ipv6(node: &Seen) -> Result<String, String> {
    let Seen { node, inet6, .. } = node;
    match inet6.as_deref() {
        Ok("") => Err(format!("{node} has no IPv6 address")),
        Ok(addresses) => Ok(format!("{node} has {} IPv6 addresses", addresses.lines().count())),
        Err(why) => Err(format!("{node} has no IPv6: {why}")),
    }
}

fn any_uid(node: &Seen) -> Result<String, String> {
    let Seen { node, users, .. } = node;
    let map = users.as_deref().map(|map| map.split_whitespace().collect::<Vec<_>>().join(" "));
    match users {
        Ok(users) if maps(users, RANGE_UID) => Ok(format!("{node} has uid_map {map:?}")),
        Ok(_) => Err(format!("{node} has no uid {RANGE_UID}: uid_map {map:?}")),
        Err(why) => Err(format!("users of {node} are unknown: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen {
            node: "worker".to_owned(),
            kernel: Ok("6.1.0".to_owned()),
            inet6: Ok("fe80::1 02 40 20 80 eth0".to_owned()),
            users: Ok("0 0 4294967295".to_owned()),
        }
    }

    fn met(nodes: &[Seen]) -> Vec<String> {
        let probes = of_cluster("API server v1.34", nodes);
        assert_eq!(probes.len(), NEEDS.len());
        probes.into_iter().filter(|probe| probe.met).map(|probe| probe.need).collect()
    }

    #[test]
    fn a_cluster_has_what_each_of_its_nodes_shows() {
        assert_eq!(met(&[seen(), seen()]), ["real-kernel", "ipv6", "any-uid"]);
        let no_kernel = Seen { kernel: Err("ENOENT".to_owned()), ..seen() };
        assert_eq!(met(&[seen(), no_kernel]), ["ipv6", "any-uid"]);
        let no_ipv6 = Seen { inet6: Ok(String::new()), ..seen() };
        assert_eq!(met(&[no_ipv6, seen()]), ["real-kernel", "any-uid"]);
        let few_users = Seen { users: Ok("0 100000 65536".to_owned()), ..seen() };
        assert_eq!(met(&[few_users]), ["real-kernel", "ipv6"]);
    }

    #[test]
    fn what_nobody_looked_at_is_not_met() {
        assert_eq!(met(&[]), Vec::<String>::new());
        let blind = || Err("the hand is gone".to_owned());
        let blind = Seen { kernel: blind(), inet6: blind(), users: blind(), ..seen() };
        assert_eq!(met(&[blind]), Vec::<String>::new());
    }
}
