// SPDX-License-Identifier: Apache-2.0
//! Roles and bindings among the objects, and kinds that a definition brings.

use std::time::Duration;

use crate::common::{World, definition, pod, refusal};
use apiserver::{Account, Grant, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::{Value, from_value, json};

const RBAC: &str = "rbac.authorization.k8s.io";

fn agent() -> Account {
    Account { namespace: "shop".into(), name: "default".into() }
}

fn role(kind: &str, name: &str, rules: &Value) -> Value {
    let namespace = if kind == "Role" { json!("shop") } else { Value::Null };
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": name, "namespace": namespace},
           "rules": rules})
}

fn binding(kind: &str, role: (&str, &str), subject: &Value) -> Value {
    let namespace = if kind == "RoleBinding" { json!("shop") } else { Value::Null };
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": role.1, "namespace": namespace},
           "roleRef": {"apiGroup": RBAC, "kind": role.0, "name": role.1}, "subjects": [subject]})
}

fn account() -> Value {
    json!({"kind": "ServiceAccount", "namespace": "shop", "name": "default"})
}

fn rule(verbs: &[&str], resource: &str) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": verbs})
}

#[tokio::test]
async fn an_account_may_what_the_roles_that_it_is_bound_to_say_at_once_and_no_longer_than_they_do() {
    let world = World::new();
    world.server.create_namespace("other", &std::collections::BTreeMap::new()).unwrap();
    for object in [
        role("ClusterRole", "reader", &json!([rule(&["get", "list"], "pods")])),
        role("Role", "maps", &json!([rule(&["get"], "configmaps")])),
        binding("ClusterRoleBinding", ("ClusterRole", "reader"), &account()),
        binding("RoleBinding", ("Role", "maps"), &account()),
    ] {
        world.server.upsert(object).unwrap();
    }
    let token = world.server.token(&agent(), None, Duration::from_secs(600)).unwrap();
    let client = || world.server.client_with_token(&token);
    let pods: Api<Pod> = Api::all(client());
    pods.list(&ListParams::default()).await.unwrap();
    let maps = async |namespace: &str| {
        let maps: Api<ConfigMap> = Api::namespaced(client(), namespace);
        refusal(maps.get("conf").await).0
    };
    assert_eq!((maps("shop").await, maps("other").await), (404, 403), "a Role holds in its namespace");

    world.server.upsert(role("ClusterRole", "reader", &json!([rule(&["get"], "pods")]))).unwrap();
    assert_eq!(refusal(pods.list(&ListParams::default()).await).0, 403);
    let ours: Api<Pod> = Api::namespaced(client(), "shop");
    assert_eq!(refusal(ours.get("a").await).0, 404);
    let bindings: Api<ClusterRoleBinding> = Api::all(world.server.client());
    bindings.delete("reader", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(ours.get("a").await).0, 403);
}

#[tokio::test]
async fn users_and_groups_are_bound_and_others_are_not() {
    let world = World::new();
    world.server.upsert(pod("a")).unwrap();
    world.server.upsert(role("ClusterRole", "reader", &json!([rule(&["get"], "pods")]))).unwrap();
    let token = world.server.token(&agent(), None, Duration::from_secs(600)).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client_with_token(&token), "shop");
    let subject = |kind: &str, name: &str| json!({"kind": kind, "name": name, "apiGroup": RBAC});
    for (subject, expected) in [
        (subject("User", "system:serviceaccount:shop:default"), true),
        (subject("User", "system:serviceaccount:shop:other"), false),
        (subject("Group", "system:serviceaccounts:shop"), true),
        (subject("Group", "system:serviceaccounts:other"), false),
        (subject("Group", "system:authenticated"), true),
        (json!({"kind": "ServiceAccount", "namespace": "other", "name": "default"}), false),
    ] {
        let bound = binding("ClusterRoleBinding", ("ClusterRole", "reader"), &subject);
        world.server.upsert(bound).unwrap();
        assert_eq!(pods.get("a").await.is_ok(), expected, "{subject}");
    }
}

#[tokio::test]
async fn a_role_that_cannot_be_enforced_is_refused() {
    let world = World::new();
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(world.server.client());
    let wrong = role("ClusterRole", "x", &json!([{"apiGroups": [""], "resources": ["pods"], "verbs": []}]));
    let refused = roles.create(&PostParams::default(), &from_value(wrong).unwrap()).await;
    assert_eq!(refusal(refused), (422, "Invalid".into()));
}

#[tokio::test]
async fn allow_is_roles_and_bindings_like_any_other_and_replaces_its_own() {
    let world = World::new();
    world.server.upsert(pod("a")).unwrap();
    let grants = [Grant::new(Verb::Get, "pods"), Grant::new(Verb::Get, "configmaps").within("shop")];
    world.server.allow(&agent(), grants).unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(world.server.client());
    let all = bindings.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
    assert_eq!(all.items[0].role_ref.name, "lab:shop:default");
    world.server.allow(&agent(), []).unwrap();
    assert!(bindings.list(&ListParams::default()).await.unwrap().items.is_empty());
    let nowhere = [Grant::new(Verb::Get, "pods").within("nowhere")];
    assert!(world.server.allow(&agent(), nowhere).is_err());
}

#[tokio::test]
async fn a_kind_of_a_definition_is_served_while_the_definition_is_there() {
    let world = World::new();
    let kind = GroupVersionKind::gvk("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition");
    let resource = ApiResource::from_gvk_with_plural(&kind, "network-attachment-definitions");
    let networks: Api<DynamicObject> = Api::namespaced_with(world.server.client(), "shop", &resource);
    let network = DynamicObject::new("istio-cni", &resource);
    assert_eq!(refusal(networks.create(&PostParams::default(), &network).await), (404, "NotFound".into()));
    let definition =
        definition("k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition");
    world.server.upsert(definition.clone()).unwrap();
    networks.create(&PostParams::default(), &network).await.unwrap();
    let groups = world.server.client().list_api_groups().await.unwrap();
    assert!(groups.groups.iter().any(|group| group.name == "k8s.cni.cncf.io"));

    let definitions: Api<DynamicObject> = Api::all_with(
        world.server.client(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        )),
    );
    let name = "network-attachment-definitions.k8s.cni.cncf.io";
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(networks.list(&ListParams::default()).await), (404, "NotFound".into()));
    world.server.upsert(definition).unwrap();
    assert!(networks.list(&ListParams::default()).await.unwrap().items.is_empty(), "they went with it");
    let unknown = crate::common::definition("example.org", "v1", "widgets", "Widget");
    let error = world.server.upsert(unknown).unwrap_err();
    assert!(error.to_string().contains("of no kind in this server's table"), "{error}");
}
