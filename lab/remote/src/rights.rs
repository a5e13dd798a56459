// SPDX-License-Identifier: Apache-2.0
//! Rights that a run needs in somebody's cluster. All are asked for before anything is made.

use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

use crate::error::Error;
use crate::objects::from;

/// Group, resource (with its subresource after a slash) and verbs.
type Row = (&'static str, &'static str, &'static [&'static str]);

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Of every run: its hands, pods of scenarios, and their removal. At its end it looks for more that has its label, and does without where it may not.
const GUEST: [Row; 7] = [
    ("", "namespaces", &["create", "get", "list", "watch", "delete"]),
    ("", "nodes", &["list"]),
    ("apps", "daemonsets", &["create"]),
    ("", "pods", &["create", "get", "list", "watch", "delete"]),
    ("", "events", &["list", "watch"]),
    ("", "pods/log", &["get"]),
    // A stream begins with a GET; of servers with AuthorizePodWebsocketUpgradeCreatePermission it needs `create` as well.
    ("", "pods/exec", &["create", "get"]),
];

/// Of a run that has the cluster to itself, besides: it deploys the node agent, changes nodes, and watches what steps wait for. It makes roles of more than it may
/// do itself.
const WHOLE: [Row; 26] = [
    ("", "namespaces", &["patch"]),
    ("", "nodes", &["create", "get", "watch", "patch", "delete"]),
    ("", "nodes/status", &["patch"]),
    ("", "pods", &["patch", "deletecollection"]),
    ("", "pods/eviction", &["create"]),
    ("", "pods/proxy", &["get"]),
    ("", "pods/status", &["patch"]),
    ("", "configmaps", &["create", "get", "list", "watch", "patch", "delete"]),
    ("", "resourcequotas", &["create", "get", "list", "patch", "delete"]),
    ("", "serviceaccounts", &["create", "get", "list", "watch", "patch", "delete"]),
    ("", "serviceaccounts/token", &["create"]),
    ("", "services", &["create", "get", "list", "watch", "patch", "delete"]),
    ("apps", "daemonsets", &["get", "list", "watch", "patch", "delete"]),
    ("apps", "deployments", &["create", "get", "list", "watch", "patch", "delete"]),
    ("apps", "replicasets", &["create", "get", "list", "watch", "patch", "delete"]),
    ("apps", "statefulsets", &["create", "get", "watch", "patch", "delete"]),
    ("batch", "jobs", &["create", "get", "watch", "patch", "delete"]),
    ("coordination.k8s.io", "leases", &["get", "watch"]),
    ("networking.k8s.io", "networkpolicies", &["create", "get", "list", "patch", "delete"]),
    (RBAC, "roles", &["create", "get", "list", "patch", "delete", "bind", "escalate"]),
    (RBAC, "rolebindings", &["create", "get", "list", "patch", "delete"]),
    (RBAC, "clusterroles", &["create", "get", "list", "patch", "delete", "bind", "escalate"]),
    (RBAC, "clusterrolebindings", &["create", "get", "list", "patch", "delete"]),
    (ADMISSION, "mutatingwebhookconfigurations", &["create", "list", "patch", "delete"]),
    (ADMISSION, "validatingadmissionpolicies", &["create", "list", "patch", "delete"]),
    (ADMISSION, "validatingadmissionpolicybindings", &["create", "list", "patch", "delete"]),
];

/// One verb on one resource of a group, in all namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Right {
    group: &'static str,
    resource: &'static str,
    verb: &'static str,
}

/// Rights of a run, which may have the cluster to itself.
fn needed(is_whole: bool) -> Vec<Right> {
    let more: &[Row] = if is_whole { &WHOLE } else { &[] };
    let rows = GUEST.iter().chain(more);
    let rights = |&(group, resource, verbs): &Row| {
        verbs.iter().map(move |&verb| Right { group, resource, verb }).collect::<Vec<_>>()
    };
    rows.flat_map(rights).collect()
}

/// Those that are not allowed, a text for each resource: `get, list pods/log`, `create daemonsets.apps`.
fn missing(answers: &[(Right, bool)]) -> Vec<String> {
    let mut of: Vec<(String, Vec<&str>)> = Vec::new();
    for (Right { group, resource, verb }, _) in answers.iter().filter(|(_, is_allowed)| !is_allowed) {
        let name = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
        match of.iter_mut().find(|(known, _)| *known == name) {
            Some((_, verbs)) => verbs.push(verb),
            None => of.push((name, vec![verb])),
        }
    }
    of.iter().map(|(name, verbs)| format!("{} {name}", verbs.join(", "))).collect()
}

/// Asks for all rights of a run at once.
///
/// # Errors
/// Some are missing, and all of these are named; or the API server does not answer.
pub(crate) async fn permitted(client: &Client, is_whole: bool) -> Result<(), Error> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answers = try_join_all(needed(is_whole).into_iter().map(|right| asked(&reviews, right))).await?;
    let missing = missing(&answers);
    if missing.is_empty() { Ok(()) } else { Err(Error::Denied(missing)) }
}

async fn asked(reviews: &Api<SelfSubjectAccessReview>, right: Right) -> Result<(Right, bool), Error> {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((right.resource, ""));
    let attributes = json!({
        "verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource,
    });
    let review = from(json!({ "spec": { "resourceAttributes": attributes } }))?;
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(Error::api("ask what the user may do"))?;
    Ok((right, answer.status.is_some_and(|status| status.allowed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_named_at_once() {
        let allowed = [("", "pods", "get"), ("", "pods", "list")];
        let answers: Vec<_> = needed(false)
            .into_iter()
            .map(|one| (one, allowed.contains(&(one.group, one.resource, one.verb))))
            .collect();
        let found = missing(&answers);
        assert_eq!(found.len(), GUEST.len(), "{found:?}");
        for one in ["create, watch, delete pods", "create daemonsets.apps", "create, get pods/exec"] {
            assert!(found.contains(&one.to_owned()), "{one} is not in {found:?}");
        }
        assert!(missing(&[]).is_empty());
    }

    #[test]
    fn no_right_is_asked_for_twice() {
        let all = needed(true);
        for (at, right) in all.iter().enumerate() {
            assert!(!all[..at].contains(right), "{right:?}");
        }
        assert!(all.len() > needed(false).len());
    }
}
