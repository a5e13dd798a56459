// SPDX-License-Identifier: Apache-2.0
//! Roles cannot say "of its own node". These policies do, by the node's name that the API server puts into a pod's token.

use serde_json::{Value, json};

use super::make::{BINDING, Maker, POLICY};
use super::rights::{AGENT, Right, TAINT};
use super::taint;
use crate::values::{ResourceScope, TaintMode, Values};

/// Extra of the caller's user info with its pod's node.
const NODE: &str = "authentication.kubernetes.io/node-name";

/// Account that a policy applies to.
#[derive(Clone, Copy)]
struct Caller {
    /// Name within the policy.
    name: &'static str,
    account: &'static str,
}

const THE_AGENT: Caller = Caller { name: "agent", account: AGENT };
const THE_CONTROLLER: Caller = Caller { name: "controller", account: TAINT };

/// Subject and rules of a policy.
struct Policy {
    name: &'static str,
    caller: Caller,
    operation: &'static str,
    resource: &'static str,
    variables: Vec<Value>,
    validations: Vec<Value>,
}

/// True if the mode has rights that policies limit, and policies are asked for.
pub(crate) fn has_policies(values: &Values) -> bool {
    let has_rights = Right::of(&values.repair).is_some() || values.taint.mode != TaintMode::Off;
    let is_cluster = values.global.resource_scope != ResourceScope::Namespace;
    values.enabled && values.admission_policy.enabled && is_cluster && has_rights
}

/// Policies and their bindings. One kind that a server does not know fails an upgrade as a whole.
pub(super) fn policies(make: &Maker<'_>) -> Vec<Value> {
    let values = make.values;
    if !values.admission_policy.enabled {
        return Vec::new();
    }
    let pods = Right::of(&values.repair).map(|right| own_pods(right, &values.repair.broken_pod_label_key));
    let nodes = match values.taint.mode {
        TaintMode::Off => None,
        TaintMode::Node => Some(own_taint("istio-cni-own-node", THE_AGENT, taint::name(&values.taint))),
        TaintMode::Readiness | TaintMode::Untaint => {
            Some(own_taint("istio-cni-taint", THE_CONTROLLER, taint::name(&values.taint)))
        }
    };
    pods.into_iter().chain(nodes).flat_map(|policy| policy.objects(make)).collect()
}

/// A kubelet may not change labels of its pods (NodeRestriction), so the token of a lost node's agent may not either, but for one. Owners are nothing that a
/// status's update could change (`podStatusStrategy`).
fn own_pods(right: Right, key: &str) -> Policy {
    let own =
        "variables.node != '' && has(oldObject.spec.nodeName) && oldObject.spec.nodeName == variables.node";
    let mut validations = vec![validation(own, "the node agent may change pods of its own node only")];
    let mut variables = vec![callers_node()];
    if right == Right::Label {
        let message = "the node agent may label a pod, not change its status";
        validations.push(validation("object.status == oldObject.status", message));
        let of_pods = |kept: &&Kept| ["labels", "annotations", "finalizers"].contains(&kept.name);
        variables.extend(KEPT.iter().filter(of_pods).flat_map(before_and_after));
        let kept = |one: &str, other: &str| {
            format!(
                "variables.labels{one}.all(k, k == '{key}' || (k in variables.labels{other} && variables.labels{one}[k] == variables.labels{other}[k]))"
            )
        };
        let others = format!("{} && {}", kept("Before", "After"), kept("After", "Before"));
        validations.push(validation(&others, &format!("only the label {key} of pods may be changed")));
        let message = "annotations and finalizers of pods may not be changed";
        validations.push(validation(&same(&["annotations", "finalizers"]), message));
    }
    let (operation, resource) = match right {
        Right::Delete => ("DELETE", "pods"),
        Right::Label => ("UPDATE", "pods/status"),
    };
    Policy { name: "istio-cni-own-pods", caller: THE_AGENT, operation, resource, variables, validations }
}

/// The right to taint nodes is limited to the taint; the agent's to its own node.
fn own_taint(name: &'static str, caller: Caller, key: &str) -> Policy {
    let taints =
        |object| format!("has({object}.spec.taints) ? {object}.spec.taints.filter(t, t.key != '{key}') : []");
    let cordoned = |object| format!("has({object}.spec.unschedulable) && {object}.spec.unschedulable");
    let mut variables = vec![
        variable("before", &taints("oldObject")),
        variable("after", &taints("object")),
        variable("wasCordoned", &cordoned("oldObject")),
        variable("isCordoned", &cordoned("object")),
    ];
    variables.extend(KEPT.iter().flat_map(before_and_after));
    let mut validations = vec![
        validation("variables.before == variables.after", &format!("only the taint {key} may be changed")),
        validation(&same(&["labels", "annotations"]), "labels and annotations of nodes may not be changed"),
        validation(&same(&["owners", "finalizers"]), "owners and finalizers of nodes may not be changed"),
        validation(
            &same(&["provider", "ranges"]),
            "neither the provider's ID nor the ranges of pods' addresses of a node may be set",
        ),
        validation(
            "variables.wasCordoned == variables.isCordoned",
            "nodes may not be cordoned or uncordoned",
        ),
    ];
    if caller.account == AGENT {
        variables.insert(0, callers_node());
        let own = "variables.node != '' && oldObject.metadata.name == variables.node";
        validations.insert(0, validation(own, "the node agent may change its own node only"));
    }
    Policy { name, caller, operation: "UPDATE", resource: "nodes", variables, validations }
}

/// Immutable part of a node, or of a pod.
struct Kept {
    /// Prefix of its two variables.
    name: &'static str,
    path: &'static str,
    /// Substitute where it is absent.
    empty: &'static str,
}

/// Fields that the right to patch a node includes, and that last: owners let the garbage collector delete a node, finalizers keep one for
/// ever, and any field that a new node lacks could be set once.
const KEPT: [Kept; 6] = [
    Kept { name: "labels", path: "metadata.labels", empty: "{}" },
    Kept { name: "annotations", path: "metadata.annotations", empty: "{}" },
    Kept { name: "owners", path: "metadata.ownerReferences", empty: "[]" },
    Kept { name: "finalizers", path: "metadata.finalizers", empty: "[]" },
    Kept { name: "provider", path: "spec.providerID", empty: "''" },
    Kept { name: "ranges", path: "spec.podCIDRs", empty: "[]" },
];

/// The two variables of a part.
fn before_and_after(Kept { name, path, empty }: &Kept) -> [Value; 2] {
    let of = |object: &str| format!("has({object}.{path}) ? {object}.{path} : {empty}");
    [("Before", "oldObject"), ("After", "object")]
        .map(|(when, object)| variable(&format!("{name}{when}"), &of(object)))
}

/// Expression that parts are unchanged.
fn same(names: &[&str]) -> String {
    let one = |name: &&str| format!("variables.{name}Before == variables.{name}After");
    names.iter().map(one).collect::<Vec<_>>().join(" && ")
}

fn callers_node() -> Value {
    let extra = "request.userInfo.extra";
    variable("node", &format!("has({extra}) && '{NODE}' in {extra} ? {extra}['{NODE}'][0] : ''"))
}

fn variable(name: &str, expression: &str) -> Value {
    json!({ "name": name, "expression": expression })
}

fn validation(expression: &str, message: &str) -> Value {
    json!({ "expression": expression, "message": message })
}

impl Policy {
    fn objects(self, make: &Maker<'_>) -> [Value; 2] {
        let user = format!("system:serviceaccount:{}:{}", make.namespace(), self.caller.account);
        let rule = json!({
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": [self.operation],
            "resources": [self.resource],
            // The API server would add it to the entry of a list, which is a difference for whoever compares whole lists.
            "scope": "*",
        });
        let spec = json!({
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [rule] },
            "matchConditions": [{
                "name": self.caller.name,
                "expression": format!("request.userInfo.username == '{user}'"),
            }],
            "variables": self.variables,
            "validations": self.validations,
        });
        let binding = json!({ "policyName": self.name, "validationActions": ["Deny"] });
        [
            make.cluster(POLICY, self.name, json!({ "spec": spec })),
            make.cluster(BINDING, self.name, json!({ "spec": binding })),
        ]
    }
}
