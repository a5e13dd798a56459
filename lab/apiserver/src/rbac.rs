// SPDX-License-Identifier: Apache-2.0
//! RBAC evaluation, as the real server does it. Pure: the rules come from `roles`.

use std::fmt;
use std::ops::Deref;

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use serde_json::Value;

use crate::error::ApiError;
use crate::kinds::Kind;
use crate::route::{Target, Verb};

/// A service account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Account {
    pub namespace: String,
    pub name: String,
}

impl Account {
    /// The account of a user; `None` if it is none.
    #[must_use]
    pub fn of(user: &str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// User name: `system:serviceaccount:NAMESPACE:NAME`.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// Group of all accounts of its namespace.
    #[must_use]
    pub fn group(&self) -> String {
        format!("system:serviceaccounts:{}", self.namespace)
    }

    pub(crate) fn groups(&self) -> Vec<String> {
        vec!["system:serviceaccounts".to_owned(), self.group(), "system:authenticated".to_owned()]
    }
}

/// Attributes of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attributes {
    /// Verb.
    pub verb: Verb,
    /// API group; empty for the core group.
    pub group: String,
    /// The resource, with its subresource if there is one: `pods`, `pods/status`.
    pub resource: String,
    /// Namespace; `None` for the whole cluster.
    pub namespace: Option<String>,
    /// The object. A list or a watch has one if its field selector asks for exactly one `metadata.name`.
    pub name: Option<String>,
}

impl Attributes {
    /// Of a request on a resource; `selected` is the name that a list's field selector asks for.
    pub(crate) fn of(verb: Verb, target: &Target, selected: Option<&str>) -> Option<Self> {
        let Target::Resource { collection, name, subresource } = target else { return None };
        let resource = match subresource {
            Some(sub) => format!("{}/{sub}", collection.kind.plural),
            None => collection.kind.plural.to_owned(),
        };
        let listed = matches!(verb, Verb::List | Verb::Watch);
        let name = name.clone().or_else(|| selected.filter(|_| listed).map(str::to_owned));
        // A namespace lies within itself: a role in it can speak of it.
        let own = name.clone().filter(|_| collection.kind.plural == "namespaces" && !listed);
        let group = collection.kind.group.to_owned();
        Some(Self { verb, group, resource, namespace: collection.namespace.clone().or(own), name })
    }

    /// The real server's message.
    pub(crate) fn refusal(&self, kind: &'static Kind, user: &str) -> ApiError {
        let Self { verb, group, resource, namespace, name } = self;
        let place = match namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let why =
            format!("User \"{user}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}");
        ApiError::Denied { kind, name: name.clone(), why }
    }

    /// Smallest grant for this request.
    #[must_use]
    pub fn smallest(&self) -> Grant {
        let rule = PolicyRule {
            api_groups: Some(vec![self.group.clone()]),
            resources: Some(vec![self.resource.clone()]),
            resource_names: self.name.clone().map(|name| vec![name]),
            verbs: vec![self.verb.to_string()],
            non_resource_urls: None,
        };
        Grant { namespace: self.namespace.clone(), rule, role: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoleId {
    /// Namespace; a `ClusterRole` has none.
    pub namespace: Option<String>,
    pub name: String,
}

/// `ClusterRole istio-cni`, `Role istio-system/istio-cni`.
impl fmt::Display for RoleId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            None => write!(out, "ClusterRole {}", self.name),
            Some(namespace) => write!(out, "Role {namespace}/{}", self.name),
        }
    }
}

/// A rule of a bound role.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grant {
    /// Where the rule holds, as bound by a `RoleBinding`; `None` is everywhere, as bound by a `ClusterRoleBinding`.
    pub namespace: Option<String>,
    pub rule: PolicyRule,
    /// Its role, if it has one already.
    pub role: Option<RoleId>,
}

impl Grant {
    /// One verb on one resource everywhere. The resource has its group and subresource as RBAC's errors write it: `pods`,
    /// `pods/status`, `daemonsets.apps`, `daemonsets.apps/status`, or `*` for all resources of all groups.
    #[must_use]
    pub fn new(verb: Verb, resource: &str) -> Self {
        Self::rule(&[verb], resource)
    }

    /// The same for several verbs.
    #[must_use]
    pub fn rule(verbs: &[Verb], resource: &str) -> Self {
        let (group, resource) = qualified(resource);
        let rule = PolicyRule {
            api_groups: Some(vec![group]),
            resources: Some(vec![resource]),
            verbs: verbs.iter().map(Verb::to_string).collect(),
            ..PolicyRule::default()
        };
        Self { rule, ..Self::default() }
    }

    /// The same in one namespace only.
    #[must_use]
    pub fn within(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// The same for objects of these names only.
    #[must_use]
    pub fn named(mut self, names: &[&str]) -> Self {
        self.rule.resource_names = Some(names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    /// True if it permits a request.
    #[must_use]
    pub fn allows(&self, request: &Attributes) -> bool {
        let among = |list: &Option<Vec<String>>, test: &dyn Fn(&str) -> bool| {
            list.as_ref().is_some_and(|list| list.iter().any(|one| test(one)))
        };
        let verb = request.verb.to_string();
        let sub = request.resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        let names = self.rule.resource_names.as_deref().unwrap_or_default();
        self.namespace.as_ref().is_none_or(|only| request.namespace.as_ref() == Some(only))
            && self.rule.verbs.iter().any(|one| one == "*" || *one == verb)
            && among(&self.rule.api_groups, &|one| one == "*" || one == request.group)
            && among(&self.rule.resources, &|one| {
                one == "*" || one == request.resource || sub.as_deref() == Some(one)
            })
            && (names.is_empty() || request.name.as_ref().is_some_and(|name| names.contains(name)))
    }

    /// Split into one verb, one group and one resource each.
    fn parts(&self) -> impl Iterator<Item = Self> {
        let PolicyRule { api_groups, resources, verbs, .. } = &self.rule;
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        let mut parts = Vec::new();
        for verb in verbs {
            for group in list(api_groups) {
                parts.extend(list(resources).into_iter().map(|resource| {
                    let mut part = self.clone();
                    part.rule.verbs = vec![verb.clone()];
                    part.rule.api_groups = Some(vec![group.clone()]);
                    part.rule.resources = Some(vec![resource]);
                    part
                }));
            }
        }
        parts.into_iter()
    }
}

/// `get,list pods,configmaps named a in namespace shop (ClusterRole reader)`.
impl fmt::Display for Grant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default().join(",");
        let groups = list(&self.rule.api_groups);
        write!(out, "{} {}", self.rule.verbs.join(","), list(&self.rule.resources))?;
        if !groups.is_empty() {
            write!(out, " of group {groups}")?;
        }
        if self.rule.resource_names.is_some() {
            write!(out, " named {}", list(&self.rule.resource_names))?;
        }
        if let Some(namespace) = &self.namespace {
            write!(out, " in namespace {namespace}")?;
        }
        self.role.as_ref().map_or(Ok(()), |role| write!(out, " ({role})"))
    }
}

/// Group, and resource with its subresource, of a text as RBAC's errors write it, see [`Grant::new`].
#[must_use]
pub fn qualified(text: &str) -> (String, String) {
    let (head, sub) = text.split_once('/').map_or((text, None), |(one, two)| (one, Some(two)));
    let (plural, group) = match head.split_once('.') {
        Some(parts) => parts,
        None if head == "*" => ("*", "*"),
        None => (head, ""),
    };
    (group.to_owned(), sub.map_or_else(|| plural.to_owned(), |sub| format!("{plural}/{sub}")))
}

/// Grants of a user, role by role, by the objects of the API: bindings, and the role of each.
pub fn grants<Object: Deref<Target = Value>>(
    user: &str,
    groups: &[String],
    bindings: impl IntoIterator<Item = Object>,
    role: impl Fn(&RoleId) -> Option<Object>,
) -> Vec<Grant> {
    let mut grants = Vec::new();
    for binding in bindings {
        let subjects: Vec<Subject> = parsed(&binding["subjects"]);
        let namespace = binding["metadata"]["namespace"].as_str().map(str::to_owned);
        if !subjects.iter().any(|subject| is_meant(subject, namespace.as_ref(), user, groups)) {
            continue;
        }
        let Ok(of) = serde_json::from_value::<RoleRef>(binding["roleRef"].clone()) else { continue };
        let of_namespace = (of.kind == "Role").then(|| namespace.clone()).flatten();
        let id = RoleId { namespace: of_namespace, name: of.name };
        let Some(object) = role(&id) else { continue };
        let rules: Vec<PolicyRule> = parsed(&object["rules"]);
        let grant = |rule| Grant { namespace: namespace.clone(), rule, role: Some(id.clone()) };
        grants.extend(rules.into_iter().map(grant));
    }
    grants
}

/// A list that was validated on write; absent is empty.
fn parsed<T: serde::de::DeserializeOwned>(list: &Value) -> Vec<T> {
    serde_json::from_value(list.clone()).unwrap_or_default()
}

/// An account without a namespace is one of the binding's.
fn is_meant(subject: &Subject, here: Option<&String>, user: &str, groups: &[String]) -> bool {
    match subject.kind.as_str() {
        "ServiceAccount" => subject.namespace.as_ref().or(here).is_some_and(|namespace| {
            Account { namespace: namespace.clone(), name: subject.name.clone() }.user() == user
        }),
        "User" => subject.name == user,
        "Group" => groups.contains(&subject.name),
        _ => false,
    }
}

/// True if these grants permit a request.
#[must_use]
pub fn allowed(grants: &[Grant], request: &Attributes) -> bool {
    grants.iter().any(|grant| grant.allows(request))
}

/// The parts of grants (one verb on one resource) that none of these requests needed.
#[must_use]
pub fn unused(grants: &[Grant], requests: &[Attributes]) -> Vec<Grant> {
    let needed = |part: &Grant| requests.iter().any(|request| part.allows(request));
    grants.iter().flat_map(Grant::parts).filter(|part| !needed(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Attributes, Grant, allowed, qualified, unused};
    use crate::route::Verb;

    /// `get pods/status shop/cart`, `list daemonsets.apps`, `watch configmaps kube-system/`.
    fn request(text: &str) -> Attributes {
        let mut words = text.split(' ');
        let verb = words.next().unwrap();
        let (resource, place) = (words.next().unwrap(), words.next().unwrap_or(""));
        let (group, resource) = qualified(resource);
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (namespace, name) = place.split_once('/').unwrap_or(("", place));
        Attributes {
            verb: *Verb::ALL.iter().find(|one| one.to_string() == verb).unwrap(),
            group,
            resource,
            namespace: some(namespace),
            name: some(name),
        }
    }

    #[test]
    fn a_grant_allows_its_verb_resource_names_and_namespace_and_no_more() {
        use Verb::{Get, List, Patch, Watch};
        let maps = Grant::rule(&[Get, List, Watch], "configmaps").named(&["conf"]).within("kube-system");
        let cases: [(Grant, &[&str], &[&str]); 6] = [
            (
                Grant::new(Get, "pods"),
                &["get pods shop/cart", "get pods x/y"],
                &["list pods", "get pods/status shop/cart", "get pods.apps shop/cart", "watch pods"],
            ),
            (Grant::new(Patch, "pods/status"), &["patch pods/status shop/cart"], &["patch pods shop/cart"]),
            (Grant::new(Patch, "*/status"), &["patch pods/status a/b"], &["patch pods a/b"]),
            (Grant::new(Get, "*"), &["get pods/status a/b", "get daemonsets.apps a/b"], &["list pods"]),
            (Grant::new(Get, "daemonsets.apps"), &["get daemonsets.apps a/b"], &["get daemonsets a/b"]),
            (
                maps,
                &["get configmaps kube-system/conf", "list configmaps kube-system/conf"],
                &[
                    "list configmaps kube-system/",
                    "get configmaps shop/conf",
                    "watch configmaps conf",
                    "get configmaps kube-system/other",
                ],
            ),
        ];
        for (grant, yes, no) in cases {
            for text in yes {
                assert!(allowed(std::slice::from_ref(&grant), &request(text)), "{grant}: {text}");
                assert!(request(text).smallest().allows(&request(text)), "{text}");
            }
            for text in no {
                assert!(!allowed(std::slice::from_ref(&grant), &request(text)), "{grant}: {text}");
            }
        }
    }

    #[test]
    fn parts_that_no_request_needed_are_unused() {
        let grants =
            [Grant::rule(&[Verb::Get, Verb::List], "pods"), Grant::new(Verb::Get, "daemonsets.apps")];
        let requests = [request("list pods")];
        let found: Vec<String> = unused(&grants, &requests).iter().map(Grant::to_string).collect();
        assert_eq!(found, ["get pods", "get daemonsets of group apps"]);
    }
}
