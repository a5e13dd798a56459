// SPDX-License-Identifier: Apache-2.0
//! Discovery: which groups, kinds, short names and subresources there are, and what of `OpenAPI` kubectl asks for. Pure.

use serde_json::{Map, Value, json};

use crate::kinds::{Action, Backing, KINDS, Kind, Scope};

/// Verbs of an object.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The body of a discovery path (`/api`, `/apis`, `/api/v1`, `/apis/apps`, `/apis/apps/v1`, `/openapi/v3/...`), if it is one.
pub(crate) fn discovery(path: &str, served: &dyn Fn(&Kind) -> bool) -> Option<Value> {
    match path.trim_end_matches('/') {
        "/api" => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        "/apis" => Some(groups(served)),
        "/api/v1" => resources("", "v1", served),
        "/openapi/v3" => Some(documents(served)),
        "/openapi/v3/api/v1" => document("", "v1", served),
        other => {
            if let Some((group, version)) =
                other.strip_prefix("/openapi/v3/apis/").and_then(|of| of.split_once('/'))
            {
                return document(group, version, served);
            }
            match other.strip_prefix("/apis/")?.split_once('/') {
                Some((group, version)) => resources(group, version, served),
                None => group(other.strip_prefix("/apis/")?, served),
            }
        }
    }
}

/// Groups and their versions.
fn group_versions(served: &dyn Fn(&Kind) -> bool) -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> =
        KINDS.iter().filter(|kind| served(kind)).map(|kind| (kind.group, kind.version)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn group_of(name: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn groups(served: &dyn Fn(&Kind) -> bool) -> Value {
    let named = group_versions(served).into_iter().filter(|(name, _)| !name.is_empty());
    let groups: Vec<Value> = named.map(|(name, version)| group_of(name, version)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group(name: &str, served: &dyn Fn(&Kind) -> bool) -> Option<Value> {
    let (_, version) = group_versions(served).into_iter().find(|(group, _)| *group == name)?;
    let mut one = group_of(name, version);
    (one["kind"], one["apiVersion"]) = (json!("APIGroup"), json!("v1"));
    Some(one)
}

fn resources(group: &str, version: &str, served: &dyn Fn(&Kind) -> bool) -> Option<Value> {
    let mut list = Vec::new();
    let here = |kind: &&Kind| kind.group == group && kind.version == version && served(kind);
    for kind in KINDS.iter().filter(here) {
        let entry = |name: &str, of: &str, verbs: &[&str]| {
            json!({
                "name": name, "singularName": "", "kind": of,
                "namespaced": kind.scope == Scope::Namespaced, "verbs": verbs,
            })
        };
        let mut object = entry(kind.plural, kind.name, &VERBS);
        object["singularName"] = json!(kind.name.to_lowercase());
        if !short_names(kind).is_empty() {
            object["shortNames"] = json!(short_names(kind));
        }
        if is_in_all(kind) {
            object["categories"] = json!(["all"]);
        }
        list.push(object);
        if kind.has_status() {
            list.push(entry(&format!("{}/status", kind.plural), kind.name, &["get", "patch", "update"]));
        }
        list.extend(kind.actions().iter().map(|action: &Action| {
            let mut one = entry(&format!("{}/{}", kind.plural, action.name), action.kind, action.verbs);
            if let Some((group, version)) = action.group_version {
                (one["group"], one["version"]) = (json!(group), json!(version));
            }
            one
        }));
    }
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!list.is_empty()).then(
        || json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": list}),
    )
}

fn short_names(kind: &Kind) -> &'static [&'static str] {
    match kind.plural {
        "pods" => &["po"],
        "namespaces" => &["ns"],
        "nodes" => &["no"],
        "configmaps" => &["cm"],
        "serviceaccounts" => &["sa"],
        "services" => &["svc"],
        "events" => &["ev"],
        "resourcequotas" => &["quota"],
        "daemonsets" => &["ds"],
        "deployments" => &["deploy"],
        "replicasets" => &["rs"],
        "statefulsets" => &["sts"],
        "cronjobs" => &["cj"],
        "poddisruptionbudgets" => &["pdb"],
        "networkpolicies" => &["netpol"],
        "customresourcedefinitions" => &["crd", "crds"],
        "network-attachment-definitions" => &["net-attach-def"],
        "securitycontextconstraints" => &["scc"],
        _ => &[],
    }
}

/// Kinds of `kubectl get all`.
fn is_in_all(kind: &Kind) -> bool {
    ["pods", "services", "daemonsets", "deployments", "replicasets", "statefulsets", "jobs", "cronjobs"]
        .contains(&kind.plural)
}

fn base(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn documents(served: &dyn Fn(&Kind) -> bool) -> Value {
    let of = |(group, version): (&str, &str)| {
        let base = base(group, version);
        let url = format!("/openapi/v3/{base}");
        (base, json!({ "serverRelativeURL": url }))
    };
    json!({ "paths": Value::Object(group_versions(served).into_iter().map(of).collect()) })
}

/// Of a group's version, its patches alone: kubectl looks there for `fieldValidation` before it applies anything. There are no schemas, as
/// nothing is validated by one.
fn document(group: &str, version: &str, served: &dyn Fn(&Kind) -> bool) -> Option<Value> {
    let here = |kind: &&Kind| kind.group == group && kind.version == version && served(kind);
    let mut paths = Map::new();
    for kind in KINDS.iter().filter(here) {
        let namespace = if kind.scope == Scope::Namespaced { "/namespaces/{namespace}" } else { "" };
        let path = format!("/{}{namespace}/{}/{{name}}", base(group, version), kind.plural);
        paths.insert(path, json!({ "patch": patch(kind) }));
    }
    let info = json!({ "title": "Millrace lab", "version": "v1.34.4" });
    (!paths.is_empty()).then(|| json!({ "openapi": "3.0.0", "info": info, "paths": paths }))
}

fn patch(kind: &Kind) -> Value {
    let parameter = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } });
    let parameters: Vec<Value> =
        ["dryRun", "fieldManager", "fieldValidation", "force"].into_iter().map(parameter).collect();
    // kubectl would look for schemas, which tell how lists are merged, if strategic merge patches were listed; without, it knows itself.
    let mut types = vec!["application/json-patch+json", "application/merge-patch+json"];
    if kind.backing == Backing::BuiltIn {
        types.push("application/apply-patch+yaml");
    }
    let types: Map<String, Value> = types.into_iter().map(|media| (media.to_owned(), json!({}))).collect();
    json!({
        "parameters": parameters,
        "requestBody": { "content": types },
        "responses": { "200": { "description": "OK" } },
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": { "group": kind.group, "version": kind.version, "kind": kind.name },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Option<Value> {
        discovery(path, &|kind| kind.backing == Backing::BuiltIn)
    }

    #[test]
    fn resources_have_the_names_that_kubectl_takes() {
        let core = of("/api/v1").unwrap();
        let named = |name: &str| {
            let list = core["resources"].as_array().unwrap();
            list.iter().find(|one| one["name"] == name).cloned().unwrap_or_else(|| panic!("no {name}"))
        };
        assert_eq!(named("pods")["shortNames"], json!(["po"]));
        assert_eq!(named("pods")["categories"], json!(["all"]));
        assert_eq!(named("configmaps")["shortNames"], json!(["cm"]));
        let eviction = named("pods/eviction");
        assert_eq!((&eviction["group"], &eviction["kind"]), (&json!("policy"), &json!("Eviction")));
        assert_eq!(of("/apis/apps").unwrap()["preferredVersion"]["groupVersion"], "apps/v1");
        assert!(of("/apis/apps/v2").is_none());
    }

    #[test]
    fn a_patch_takes_field_validation() {
        let index = of("/openapi/v3").unwrap();
        assert_eq!(index["paths"]["apis/apps/v1"]["serverRelativeURL"], "/openapi/v3/apis/apps/v1");
        let core = of("/openapi/v3/api/v1").unwrap();
        let patch = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Pod");
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|one| one["name"] == "fieldValidation"));
        assert!(of("/openapi/v3/apis/none/v1").is_none());
    }
}
