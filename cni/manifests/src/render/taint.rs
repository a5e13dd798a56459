// SPDX-License-Identifier: Apache-2.0
//! The controller of `taint.mode` `readiness` and `untaint`. It needs no root, no capability and no volume.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::agent::{NAME as AGENT, annotations, apart};
use super::container::{field, image, ports, pull_policy, readiness, startup};
use super::extra::network_policy;
use super::make::{CONFIG_MAP, DEPLOYMENT, Maker, merged, or, put_unless_empty};
use super::rights::{Names, TAINT, account, named, of_cluster, of_namespace, rule};
use crate::values::{PodSelector, Taint, TaintMode, Values};

/// `ConfigMap` with the selectors of required pods.
const CONFIG: &str = "istio-cni-taint-configmap";
/// Unprivileged user, also that of the image.
const NOBODY: u32 = 65532;

/// Key of the taint.
pub(super) fn name(taint: &Taint) -> &str {
    match (taint.name.as_str(), taint.mode) {
        ("", TaintMode::Readiness) => "NodeReadiness",
        ("", TaintMode::Off | TaintMode::Node | TaintMode::Untaint) => "cni.istio.io/not-ready",
        (name, _) => name,
    }
}

/// The agent's settings in `taint.mode` `node`.
pub(super) fn own_node(taint: &Taint) -> Vec<(&'static str, &str)> {
    if taint.mode != TaintMode::Node {
        return Vec::new();
    }
    vec![("MILLRACE_TAINT_OWN_NODE", "true"), ("MILLRACE_TAINT_NAME", name(taint))]
}

/// Objects of the taint controller, in the modes that have one.
pub(super) fn controller(values: &Values) -> Vec<Value> {
    let make = Maker::taint(values);
    let (lease, selectors) = match values.taint.mode {
        TaintMode::Off | TaintMode::Node => return Vec::new(),
        TaintMode::Readiness => ("istio-taint-lock", Some(selectors(values))),
        TaintMode::Untaint => ("istio-node-untaint", None),
    };
    let mut objects = vec![account(&make, TAINT)];
    objects.extend(rights(&make, lease, selectors.as_deref()));
    if let Some(selectors) = &selectors {
        let data = json!({ "config": json!(selectors).to_string() });
        objects.push(make.local(CONFIG_MAP, CONFIG, json!({ "data": data })));
    }
    objects.extend(network_policy(&make, TAINT, TAINT));
    objects.push(deployment(&make, lease));
    objects
}

/// Selectors of required pods; the agent's by default.
fn selectors(values: &Values) -> Vec<PodSelector> {
    let mut selectors = values.taint.config.clone();
    if selectors.is_empty() {
        let selector = format!("k8s-app={AGENT}");
        selectors.push(PodSelector { name: "istio-cni".to_owned(), namespace: String::new(), selector });
    }
    for one in &mut selectors {
        if one.namespace.is_empty() {
            one.namespace.clone_from(&values.release.namespace);
        }
    }
    selectors
}

fn rights(make: &Maker<'_>, lease: &str, selectors: Option<&[PodSelector]>) -> Vec<Value> {
    let mut local = vec![
        rule("coordination.k8s.io", "leases", &["create"]),
        named("coordination.k8s.io", "leases", lease, &["get", "update"]),
    ];
    let namespaces: BTreeSet<&str> = match selectors {
        None => [make.namespace()].into(),
        Some(selectors) => {
            local.push(named("", "configmaps", CONFIG, &["list", "watch"]));
            selectors.iter().map(|one| one.namespace.as_str()).collect()
        }
    };
    let nodes = [rule("", "nodes", &["get", "list", "watch", "patch"])];
    let mut objects = Vec::from(of_cluster(make, Names::same(TAINT), &nodes));
    objects.extend(of_namespace(make, make.namespace(), Names::same(TAINT), &local));
    for namespace in namespaces {
        let pods = [rule("", "pods", &["list", "watch"])];
        let names = Names { role: "istio-cni-taint-pods", binding: "istio-cni-taint-pods", account: TAINT };
        objects.extend(of_namespace(make, namespace, names, &pods));
    }
    let events = [rule("", "events", &["create", "patch"])];
    let names = Names { role: "istio-cni-taint-events", binding: "istio-cni-taint-events", account: TAINT };
    // Events of nodes are kept there.
    objects.extend(of_namespace(make, "default", names, &events));
    objects
}

fn deployment(make: &Maker<'_>, lease: &str) -> Value {
    let values = make.values;
    let labels = merged([&make.labels, &apart()]);
    let spec = json!({
        "replicas": values.taint.replicas,
        "selector": { "matchLabels": { "k8s-app": TAINT } },
        "template": {
            "metadata": { "labels": labels, "annotations": annotations() },
            "spec": {
                "nodeSelector": { "kubernetes.io/os": "linux" },
                "affinity": { "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 100, "podAffinityTerm": apart_from_each_other() }],
                } },
                "tolerations": tolerations(&values.taint),
                "priorityClassName": "system-node-critical",
                "serviceAccountName": TAINT,
                "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
                "containers": [container(make, lease)],
            },
        },
    });
    make.local(DEPLOYMENT, TAINT, json!({ "spec": spec }))
}

/// A node that is lost must not take all of them. A cluster of one node has room for all of them all the same.
fn apart_from_each_other() -> Value {
    json!({ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "k8s-app": TAINT } } })
}

/// The agent's. In each mode a node's taint goes once its agent is ready, so the agent starts beside it whatever the list says.
pub(super) fn of_agent(values: &Values) -> Vec<Value> {
    let (name, mut all) = (name(&values.taint), values.tolerations.clone());
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let starts = |one: &Value| {
        let (key, effect) = (text(one, "key"), text(one, "effect"));
        (key.is_empty() || key == name)
            && text(one, "operator") == "Exists"
            && matches!(&*effect, "" | "NoSchedule")
    };
    if values.taint.mode != TaintMode::Off && !all.iter().any(starts) {
        all.push(json!({ "key": name, "operator": "Exists" }));
    }
    all
}

/// It has to start where its own taint is: nobody else removes it.
fn tolerations(taint: &Taint) -> Vec<Value> {
    let own = json!({ "key": name(taint), "operator": "Exists" });
    std::iter::once(own).chain(taint.tolerations.clone()).collect()
}

fn container(make: &Maker<'_>, lease: &str) -> Value {
    let (values, namespace) = (make.values, make.namespace());
    let mut arguments = vec![
        format!("--mode={}", json!(values.taint.mode).as_str().unwrap_or_default()),
        format!("--taint-name={}", name(&values.taint)),
        format!("--lease-name={lease}"),
        format!("--lease-namespace={namespace}"),
    ];
    if values.taint.mode == TaintMode::Readiness {
        arguments.push(format!("--configmap-name={CONFIG}"));
        arguments.push(format!("--configmap-namespace={namespace}"));
        arguments.push("--run-as-daemon=true".to_owned());
    } else {
        arguments.push(format!("--cni-namespace={namespace}"));
    }
    let mut container = json!({
        "name": "taint-controller",
        "image": image(values),
        "command": ["install-cni", "taint"],
        "args": arguments,
        "ports": ports(),
        "startupProbe": startup(),
        "readinessProbe": readiness(),
        "env": [
            { "name": "LOG_AS_JSON", "value": values.global.log_as_json.to_string() },
            { "name": "LOG_OUTPUT_LEVEL", "value": or(&values.logging.level, &values.global.logging.level) },
            field("POD_NAME", "metadata.name"),
            field("POD_NAMESPACE", "metadata.namespace"),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": { "drop": ["ALL"] },
        },
    });
    // OpenShift's restricted-v2 gives each namespace users of its own and refuses any other; in namespaces that it leaves alone
    // (kube-system, default) the image's user counts. Elsewhere the image may be anybody's.
    if values.platform != "openshift" {
        container["securityContext"]["runAsUser"] = NOBODY.into();
        container["securityContext"]["runAsGroup"] = NOBODY.into();
    }
    put_unless_empty(&mut container, "imagePullPolicy", pull_policy(values).into());
    put_unless_empty(&mut container, "resources", values.resources.clone().into());
    container
}
