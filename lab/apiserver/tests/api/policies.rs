// SPDX-License-Identifier: Apache-2.0
//! Validating admission policies.

use std::time::Duration;

use crate::common::{World, pod, refusal};
use apiserver::{Account, Grant, Verb};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

fn account() -> Account {
    Account { namespace: "shop".into(), name: "default".into() }
}

/// An agent on node `one` that may do much, pods on `one` and `two`.
fn world() -> (World, String) {
    let world = World::new();
    for name in ["one", "two"] {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        world.server.upsert(node).unwrap();
        let mut its = pod(&format!("on-{name}"));
        its["spec"]["nodeName"] = json!(name);
        world.server.upsert(its).unwrap();
    }
    let writes = [Verb::Patch, Verb::Delete, Verb::DeleteCollection, Verb::List];
    let grants = ["pods", "pods/status", "nodes"].map(|resource| Grant::rule(&writes, resource));
    world.server.allow(&account(), grants).unwrap();
    let token = world.server.token(&account(), Some("on-one"), Duration::from_secs(600)).unwrap();
    (world, token)
}

fn rule(operations: &[&str], resources: &[&str]) -> Value {
    json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": resources})
}

/// The usual policy: an account's own node only.
fn policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "own-node"},
        "spec": {
            "matchConstraints": {"resourceRules": [
                rule(&["UPDATE", "DELETE"], &["pods", "pods/status"]),
                rule(&["UPDATE"], &["nodes"]),
            ]},
            "matchConditions": [{
                "name": "agent",
                "expression": "request.userInfo.username == 'system:serviceaccount:shop:default'",
            }],
            "variables": [
                {"name": "own", "expression": format!("request.userInfo.extra['{NODE_NAME}'][0]")},
                {"name": "meant", "expression":
                    "request.resource.resource == 'nodes' ? oldObject.metadata.name : oldObject.spec.nodeName"},
            ],
            "validations": [{
                "expression": "variables.meant == variables.own",
                "messageExpression": "'of node ' + variables.meant",
                "reason": "Forbidden",
            }],
        },
    })
}

fn bound() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "binding"},
        "spec": {"policyName": "own-node", "validationActions": ["Deny"]},
    })
}

fn label() -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}))
}

#[tokio::test]
async fn a_policy_binds_an_identity_to_its_node_and_says_so() {
    let (world, token) = world();
    let pods: Api<Pod> = Api::namespaced(world.server.client_with_token(&token), "shop");
    let none = PatchParams::default();
    pods.patch("on-two", &none, &label()).await.unwrap();
    world.server.upsert(policy()).unwrap();
    pods.patch("on-two", &none, &label()).await.unwrap();
    world.server.upsert(bound()).unwrap();

    pods.patch("on-one", &none, &label()).await.unwrap();
    pods.patch_status("on-one", &none, &label()).await.unwrap();
    let Err(kube::Error::Api(refused)) = pods.patch("on-two", &none, &label()).await else { panic!() };
    let expected = "pods \"on-two\" is forbidden: ValidatingAdmissionPolicy 'own-node' with binding 'binding' \
                    denied request: of node two";
    assert_eq!((refused.code, refused.message.as_str()), (403, expected));
    let forbidden = (403, "Forbidden".to_owned());
    assert_eq!(refusal(pods.patch_status("on-two", &none, &label()).await), forbidden);
    assert_eq!(refusal(pods.delete("on-two", &DeleteParams::default()).await), forbidden);
    let all = pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    assert_eq!(refusal(all), forbidden);
    assert!(world.server.pod("shop", "on-two").unwrap()["metadata"]["deletionTimestamp"].is_null());
    pods.delete("on-one", &DeleteParams::default()).await.unwrap();

    let nodes: Api<Node> = Api::all(world.server.client_with_token(&token));
    nodes.patch("one", &none, &label()).await.unwrap();
    assert_eq!(refusal(nodes.patch("two", &none, &label()).await), forbidden);
    let others: Api<Node> = Api::all(world.server.client());
    others.patch("two", &none, &label()).await.unwrap();
}

#[tokio::test]
async fn a_token_that_names_no_node_fails_closed_unless_the_policy_ignores_failures() {
    let (world, _) = world();
    world.server.upsert(policy()).unwrap();
    world.server.upsert(bound()).unwrap();
    let token = world.server.token(&account(), None, Duration::from_secs(600)).unwrap();
    let pods: Api<Pod> = Api::namespaced(world.server.client_with_token(&token), "shop");
    let none = PatchParams::default();
    assert_eq!(refusal(pods.patch("on-one", &none, &label()).await), (422, "Invalid".into()));
    let mut lenient = policy();
    lenient["spec"]["failurePolicy"] = json!("Ignore");
    world.server.upsert(lenient).unwrap();
    pods.patch("on-one", &none, &label()).await.unwrap();
}

#[tokio::test]
async fn what_is_not_enforced_is_refused() {
    let (world, _) = world();
    let said = |path: &str, value: Value, mut object: Value| {
        *object.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        world.server.upsert(object).unwrap_err().to_string()
    };
    let mut with_parameters = policy();
    with_parameters["spec"]["paramKind"] = json!({});
    assert!(said("/spec/paramKind", json!({}), with_parameters).contains("spec.paramKind: not served"));
    for (path, value, why) in [
        ("/spec/validations", json!([]), "spec.validations: Required"),
        ("/spec/validations/0/expression", json!("1 +"), "compilation failed"),
        ("/spec/validations/0/expression", json!("params.x == 1"), "'params' is not served"),
        ("/spec/matchConstraints", json!({"objectSelector": {"a": 1}}), "selectors are not served"),
        ("/spec/matchConstraints/resourceRules/0/operations", json!([]), "operations: Required"),
    ] {
        let said = said(path, value, policy());
        assert!(said.contains(why), "{said}");
    }
    let said = said("/spec/validationActions", json!(["Warn"]), bound());
    assert!(said.contains("only [\"Deny\"]"), "{said}");
}
