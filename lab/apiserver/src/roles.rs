// SPDX-License-Identifier: Apache-2.0
//! Roles and bindings: what the objects of the API allow an account, and the objects that allow it. Pure, over the store.
//!
//! As in a real cluster but for two things: a role that aggregates others is refused, and whoever may write roles may write
//! any (only the lab does).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::kinds::{self, Kind, RBAC, Scope};
use crate::rbac::{self, Account, Grant, RoleId};
use crate::selector::Selector;
use crate::store::{Collection, DeleteOptions, Key, Store};

/// Grants of a user, role by role.
pub(crate) fn grants(user: &str, groups: &[String], store: &Store) -> Vec<Grant> {
    let kinds = [&kinds::CLUSTER_ROLE_BINDING, &kinds::ROLE_BINDING];
    let bindings = kinds.into_iter().flat_map(|kind| all(kind, store));
    let role = |role: &RoleId| store.get(&role.key()).ok();
    rbac::grants(user, groups, bindings.map(|(_, binding)| binding), role)
}

impl RoleId {
    fn key(&self) -> Key {
        let kind = if self.namespace.is_some() { &kinds::ROLE } else { &kinds::CLUSTER_ROLE };
        let namespace = self.namespace.clone().unwrap_or_default();
        Key { kind, namespace, name: self.name.clone() }
    }
}

fn all(kind: &'static Kind, store: &Store) -> Vec<(Key, Arc<Value>)> {
    let collection = Collection { kind, namespace: None };
    let everything = Selector::default();
    store.list(&collection, &everything).map(|(key, object)| (key.clone(), Arc::clone(object))).collect()
}

/// Rejects an unsupported role or binding; other objects pass.
pub(crate) fn check(key: &Key, old: Option<&Value>, object: &Value) -> Result<(), ApiError> {
    if key.kind.group != RBAC {
        return Ok(());
    }
    let invalid = |why: String| ApiError::Invalid { kind: key.kind, name: key.name.clone(), why: why.into() };
    if key.kind.plural.ends_with("roles") {
        return check_role(key.kind, object).map_err(invalid);
    }
    check_binding(key.kind, object).map_err(invalid)?;
    match old {
        Some(old) if old["roleRef"] != object["roleRef"] => {
            let part = |field: &str| object["roleRef"][field].as_str().unwrap_or_default().to_owned();
            let shown =
                serde_json::json!({"APIGroup": part("apiGroup"), "Kind": part("kind"), "Name": part("name")});
            Err(invalid(format!("roleRef: Invalid value: {shown}: cannot change roleRef")))
        }
        _ => Ok(()),
    }
}

fn check_role(kind: &Kind, role: &Value) -> Result<(), String> {
    if !role["aggregationRule"].is_null() {
        return Err("aggregationRule: roles that aggregate others are not served here".to_owned());
    }
    let rules: Option<Vec<PolicyRule>> =
        serde_json::from_value(role["rules"].clone()).map_err(|error| format!("rules: {error}"))?;
    for (number, rule) in rules.iter().flatten().enumerate() {
        let empty = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
        let paths = !empty(&rule.non_resource_urls);
        let wrong = match rule {
            rule if rule.verbs.is_empty() => "verbs: Required value: verbs must contain at least one value",
            rule if paths && kind.scope == Scope::Namespaced => {
                let urls = serde_json::json!(rule.non_resource_urls);
                let why = "namespaced rules cannot apply to non-resource URLs";
                return Err(format!("rules[{number}].nonResourceURLs: Invalid value: {urls}: {why}"));
            }
            rule if paths && !(empty(&rule.resources) && empty(&rule.api_groups)) => {
                "nonResourceURLs: Invalid value: rules cannot apply to both regular resources and non-resource URLs"
            }
            rule if !paths && empty(&rule.api_groups) => {
                "apiGroups: Required value: resource rules must supply at least one api group"
            }
            rule if !paths && empty(&rule.resources) => "resources: Required value",
            _ => continue,
        };
        return Err(format!("rules[{number}].{wrong}"));
    }
    Ok(())
}

fn check_binding(kind: &Kind, binding: &Value) -> Result<(), String> {
    let role: RoleRef =
        serde_json::from_value(binding["roleRef"].clone()).map_err(|error| format!("roleRef: {error}"))?;
    let kinds: &[&str] =
        if kind.scope == Scope::Cluster { &["ClusterRole"] } else { &["ClusterRole", "Role"] };
    if role.api_group.as_deref().is_some_and(|group| group != RBAC) || !kinds.contains(&role.kind.as_str()) {
        let supported =
            if kind.scope == Scope::Cluster { "\"ClusterRole\"" } else { "\"Role\", \"ClusterRole\"" };
        return Err(format!(
            "roleRef.kind: Unsupported value: \"{}\": supported values: {supported}",
            role.kind
        ));
    }
    let subjects: Option<Vec<Subject>> =
        serde_json::from_value(binding["subjects"].clone()).map_err(|error| format!("subjects: {error}"))?;
    for (number, subject) in subjects.iter().flatten().enumerate() {
        let account = subject.kind == "ServiceAccount";
        if !account && !["User", "Group"].contains(&subject.kind.as_str()) {
            return Err(format!("subjects[{number}].kind: Unsupported value: {:?}", subject.kind));
        }
        let somewhere = kind.scope == Scope::Cluster;
        if account && somewhere && subject.namespace.as_ref().is_none_or(String::is_empty) {
            return Err(format!("subjects[{number}].namespace: Required value"));
        }
    }
    Ok(())
}

/// Binds an account to roles with exactly these grants, in the place of those that it was bound to so before.
pub(crate) fn bind(
    account: &Account,
    grants: impl IntoIterator<Item = Grant>,
    store: &mut Store,
    now: Timestamp,
) -> Result<(), ApiError> {
    let name = format!("lab:{}:{}", account.namespace, account.name);
    let kinds = [&kinds::CLUSTER_ROLE, &kinds::CLUSTER_ROLE_BINDING, &kinds::ROLE, &kinds::ROLE_BINDING];
    let former = kinds.into_iter().flat_map(|kind| all(kind, store));
    let former: Vec<Key> = former.map(|(key, _)| key).filter(|key| key.name == name).collect();
    for key in former {
        store.delete(&key, &DeleteOptions::now(), now)?;
    }
    let mut rules: BTreeMap<Option<String>, Vec<PolicyRule>> = BTreeMap::new();
    for grant in grants {
        rules.entry(grant.namespace).or_default().push(grant.rule);
    }
    for (namespace, rules) in rules {
        let (of, bound) = match namespace {
            None => (&kinds::CLUSTER_ROLE, &kinds::CLUSTER_ROLE_BINDING),
            Some(_) => (&kinds::ROLE, &kinds::ROLE_BINDING),
        };
        let subject = json!({"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name});
        let role = json!({"apiGroup": RBAC, "kind": of.name, "name": name});
        let own = [(of, json!({"rules": rules})), (bound, json!({"roleRef": role, "subjects": [subject]}))];
        for (kind, mut object) in own {
            object["metadata"] = json!({"name": name});
            store.create(&Collection { kind, namespace: namespace.clone() }, object, now)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;
    use crate::kinds::{Kind, RBAC};
    use crate::store::Key;

    fn why(plural: &str, old: Option<&serde_json::Value>, object: &serde_json::Value) -> String {
        let kind = Kind::find(RBAC, "v1", plural).unwrap();
        let key = Key { kind, namespace: String::new(), name: "x".into() };
        check(&key, old, object).map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn what_cannot_be_enforced_is_refused() {
        let rule = |rule: serde_json::Value| why("clusterroles", None, &json!({"rules": [rule]}));
        assert_eq!(rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})), "fine");
        assert_eq!(rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz"]})), "fine");
        for (wrong, expected) in [
            (json!({"verbs": [], "apiGroups": [""], "resources": ["pods"]}), "rules[0].verbs"),
            (json!({"verbs": ["get"], "resources": ["pods"]}), "rules[0].apiGroups"),
            (json!({"verbs": ["get"], "apiGroups": [""]}), "rules[0].resources"),
            (json!({"verbs": "get"}), "rules: invalid type"),
        ] {
            assert!(rule(wrong).contains(expected), "{expected}");
        }
        assert!(why("clusterroles", None, &json!({"aggregationRule": {}})).contains("aggregat"));
        let binding = |kind: &str, subject: serde_json::Value| json!({"roleRef": {"apiGroup": RBAC, "kind": kind, "name": "a"}, "subjects": [subject]});
        let user = json!({"kind": "User", "name": "u"});
        assert_eq!(why("clusterrolebindings", None, &binding("ClusterRole", user.clone())), "fine");
        assert!(why("clusterrolebindings", None, &binding("Role", user.clone())).contains("roleRef"));
        assert_eq!(why("rolebindings", None, &binding("Role", user.clone())), "fine");
        let nowhere = json!({"kind": "ServiceAccount", "name": "u"});
        let everywhere = why("clusterrolebindings", None, &binding("ClusterRole", nowhere.clone()));
        assert!(everywhere.contains("subjects[0].namespace: Required"), "{everywhere}");
        assert_eq!(why("rolebindings", None, &binding("Role", nowhere)), "fine");
        let mut other = binding("Role", user.clone());
        other["roleRef"]["name"] = json!("b");
        let changed = why("rolebindings", Some(&other), &binding("Role", user));
        assert!(changed.contains("cannot change roleRef"), "{changed}");
    }
}
