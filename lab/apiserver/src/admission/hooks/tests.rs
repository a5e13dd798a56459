// SPDX-License-Identifier: Apache-2.0
use serde_json::{Value, json};

use super::*;
use crate::admission::Operation;

fn hook(changes: &Value) -> Value {
    let mut hook = json!({
        "name": "a.b.c", "clientConfig": {"url": "https://10.0.0.1/x"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    });
    for (field, value) in changes.as_object().unwrap() {
        hook[field] = value.clone();
    }
    hook
}

fn checked(changes: &Value, stage: Stage) -> Result<(), String> {
    check(&json!({"webhooks": [hook(changes)]}), stage)
}

/// A pod with the label `app`, in a namespace with the label `mesh`.
fn matches(changes: &Value) -> Result<bool, ApiError> {
    let pod = json!({"metadata": {"name": "cart", "labels": {"app": "cart"}}});
    let namespace = json!({"metadata": {"labels": {"mesh": "on"}}});
    let kind = Kind::find("", "v1", "pods").unwrap();
    let key = Key { kind, namespace: "shop".to_owned(), name: "cart".to_owned() };
    let proposal = Proposal {
        operation: Operation::Create,
        key: &key,
        subresource: None,
        object: Some(&pod),
        old: None,
        dry_run: false,
    };
    Hook(hook(changes)).matches(&Identity::Admin, &proposal, Some(&namespace))
}

fn condition(expression: &str) -> Value {
    json!({"name": "x", "expression": expression})
}

#[test]
fn a_write_goes_through_those_that_match_it_wholly() {
    let rule = |field: &str, value: Value| {
        let mut rule = hook(&json!({}))["rules"][0].clone();
        rule[field] = value;
        json!({"rules": [rule]})
    };
    let cases = [
        (json!({}), true),
        (json!({"rules": []}), false),
        (rule("resources", json!(["*"])), true),
        (rule("resources", json!(["nodes"])), false),
        (rule("resources", json!(["pods/status"])), false),
        (rule("apiGroups", json!(["apps"])), false),
        (rule("apiVersions", json!(["v2"])), false),
        (rule("scope", json!("Namespaced")), true),
        (rule("scope", json!("Cluster")), false),
        (json!({"namespaceSelector": {}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"mesh": "on"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"mesh": "off"}}}), false),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "mesh", "operator": "DoesNotExist"}]}}),
            false,
        ),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["cart"]}]}}),
            false,
        ),
        (
            json!({"objectSelector": {"matchExpressions": [{"key": "no", "operator": "NotIn", "values": ["x"]}]}}),
            true,
        ),
        (json!({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}), true),
        (json!({"matchConditions": [condition("object.metadata.name == 'cart'")]}), true),
        (json!({"matchConditions": [condition("request.namespace == 'other'")]}), false),
    ];
    for (changes, expected) in cases {
        assert_eq!(matches(&changes), Ok(expected), "{changes}");
    }
}

#[test]
fn a_condition_that_cannot_be_evaluated_fails_as_the_policy_says_unless_another_is_false() {
    let broken = condition("object.spec.none == 'x'");
    assert!(matches!(matches(&json!({"matchConditions": [broken]})), Err(ApiError::Denied { .. })));
    assert_eq!(matches(&json!({"matchConditions": [broken], "failurePolicy": "Ignore"})), Ok(false));
    assert_eq!(matches(&json!({"matchConditions": [broken, condition("false")]})), Ok(false));
}

#[test]
fn what_is_not_served_is_rejected() {
    let service = json!({"namespace": "n", "name": "s"});
    for (changes, why) in [
        (json!({"name": "short"}), "webhooks[0].name: Invalid value: \"short\": should be a domain"),
        (json!({"sideEffects": null}), "sideEffects: Required value"),
        (json!({"sideEffects": "Unknown"}), "Unsupported value: \"Unknown\""),
        (json!({"failurePolicy": "Maybe"}), "supported values: \"Fail\", \"Ignore\""),
        (json!({"admissionReviewVersions": ["v1beta1"]}), "only v1 is served"),
        (json!({"timeoutSeconds": 31}), "between 1 and 30 seconds"),
        (json!({"clientConfig": {}}), "exactly one of url or service"),
        (json!({"clientConfig": {"url": "https://x", "service": service}}), "exactly one of url or service"),
        (json!({"matchConditions": [condition("1 +")]}), "compilation failed"),
        (json!({"rules": [{}]}), "rules[0].apiGroups: Required value"),
        (json!({"other": 1}), "other: not served here"),
    ] {
        let said = checked(&changes, Stage::Mutating).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(checked(&json!({"reinvocationPolicy": "IfNeeded"}), Stage::Mutating), Ok(()));
    assert!(checked(&json!({"reinvocationPolicy": "IfNeeded"}), Stage::Validating).is_err());
    let mut updates = hook(&json!({}));
    updates["rules"][0]["operations"] = json!(["CREATE", "UPDATE"]);
    let said = check(&json!({"webhooks": [updates]}), Stage::Mutating).unwrap_err();
    assert!(said.ends_with("operation \"UPDATE\" is not served here"), "{said}");
}

#[test]
fn a_service_has_the_usual_port_and_path() {
    let of = |service: Value| Hook(hook(&json!({"clientConfig": {"service": service}}))).target();
    let service = |port, path: &str| Target::Service {
        namespace: "n".to_owned(),
        name: "s".to_owned(),
        port,
        path: path.to_owned(),
    };
    assert_eq!(of(json!({"namespace": "n", "name": "s"})), service(443, "/"));
    assert_eq!(of(json!({"namespace": "n", "name": "s", "port": 8443, "path": "/i"})), service(8443, "/i"));
}
