// SPDX-License-Identifier: Apache-2.0
//! What each mode asks the API server for. A table, so that charts and tests can be held against it.

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `install-cni taint --mode readiness`
    Readiness,
    /// `install-cni taint --mode untaint`
    Untaint,
    /// The agent, with `MILLRACE_TAINT_OWN_NODE`: beyond what every agent may do.
    Node,
}

/// Where a right is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the cluster.
    Cluster,
    /// In the namespaces whose pods are looked at: those of the configuration, or `--cni-namespace`.
    Pods,
    /// In `--configmap-namespace`.
    ConfigMap,
    /// In `--lease-namespace`.
    Lease,
    /// In `default`, where events of nodes are kept.
    Events,
}

/// Which objects a right can be narrowed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// None: there is no name, or nobody knows it beforehand.
    Any,
    /// The one that the command line names (`--configmap-name`, `--lease-name`).
    Named,
}

/// One right: a verb on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    /// As RBAC has it.
    pub verb: &'static str,
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The plural.
    pub resource: &'static str,
    /// Where.
    pub place: Place,
    /// Of which objects.
    pub names: Names,
}

const fn core(verb: &'static str, resource: &'static str, place: Place, names: Names) -> Right {
    Right { verb, group: "", resource, place, names }
}

const fn lease(verb: &'static str, names: Names) -> Right {
    Right { verb, group: "coordination.k8s.io", resource: "leases", place: Place::Lease, names }
}

static READINESS: [Right; 13] = [
    core("get", "nodes", Place::Cluster, Names::Any),
    core("list", "nodes", Place::Cluster, Names::Any),
    core("watch", "nodes", Place::Cluster, Names::Any),
    core("patch", "nodes", Place::Cluster, Names::Any),
    core("create", "events", Place::Events, Names::Any),
    core("patch", "events", Place::Events, Names::Any),
    core("list", "pods", Place::Pods, Names::Any),
    core("watch", "pods", Place::Pods, Names::Any),
    lease("create", Names::Any),
    lease("get", Names::Named),
    lease("update", Names::Named),
    core("list", "configmaps", Place::ConfigMap, Names::Named),
    core("watch", "configmaps", Place::ConfigMap, Names::Named),
];

/// What a mode needs: nothing else is ever asked for, and all of it is.
#[must_use]
pub fn rights(role: Role) -> &'static [Right] {
    // What comes first in the table is what the others need, too.
    match role {
        Role::Readiness => &READINESS,
        Role::Untaint => READINESS.split_at(11).0,
        Role::Node => READINESS.split_at(6).0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mode_has_more_than_it_is_for() {
        let has = |role, resource| rights(role).iter().any(|right| right.resource == resource);
        assert!(!has(Role::Untaint, "configmaps") && has(Role::Untaint, "leases"));
        assert!(!has(Role::Node, "pods") && !has(Role::Node, "leases") && has(Role::Node, "events"));
        for role in [Role::Readiness, Role::Untaint, Role::Node] {
            assert!(rights(role).iter().all(|right| right.verb != "delete" && right.verb != "*"));
            assert!(rights(role).iter().all(|right| right.resource != "nodes" || right.verb != "update"));
        }
    }
}
