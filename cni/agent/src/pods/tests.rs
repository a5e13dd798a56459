// SPDX-License-Identifier: Apache-2.0
//! A slimmed pod leads to the same decisions as the whole one.

use proptest::prelude::*;
use protocol::agent::{
    PodKey, Reply, Request, RequestKind, Response, VERSION, decode_line, encode_line, found_line,
};
use protocol::pod::PodFacts;
use serde_json::{Value, json};

use super::NodePod;

/// Keys that count, and others.
const ANNOTATIONS: [&str; 16] = [
    "sidecar.istio.io/status",
    "sidecar.istio.io/inject",
    "sidecar.istio.io/interceptionMode",
    "traffic.sidecar.istio.io/includeInboundPorts",
    "traffic.sidecar.istio.io/excludeInboundPorts",
    "traffic.sidecar.istio.io/includeOutboundPorts",
    "traffic.sidecar.istio.io/excludeOutboundPorts",
    "traffic.sidecar.istio.io/includeOutboundIPRanges",
    "traffic.sidecar.istio.io/excludeOutboundIPRanges",
    "traffic.sidecar.istio.io/excludeInterfaces",
    "traffic.sidecar.istio.io/kubevirtInterfaces",
    "istio.io/reroute-virtual-interfaces",
    "kubernetes.io/config.mirror",
    "kubectl.kubernetes.io/last-applied-configuration",
    "prometheus.io/scrape",
    "istio.io.example/mode",
];
/// Values that mean something somewhere, and such that mean nothing anywhere.
const VALUES: [&str; 14] = [
    "",
    "*",
    "{}",
    "true",
    "false",
    "TPROXY",
    "REDIRECT",
    "80",
    "80,443",
    "70000",
    "10.0.0.0/8",
    "fd00::/8",
    "net1",
    "no such thing",
];
const VARIABLES: [&str; 6] = [
    "ISTIO_META_DNS_CAPTURE",
    "ISTIO_DUAL_STACK",
    "INVALID_DROP",
    "DISABLE_ENVOY",
    "PATH",
    "ISTIO_META_INTERCEPTION_MODE",
];
const ARGUMENTS: [&str; 5] = ["proxy", "sidecar", "router", "waypoint", "--log"];

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&VALUES[..])
}

fn strings() -> impl Strategy<Value = Value> {
    let some = || {
        let keys = prop::sample::select(&ANNOTATIONS[..]);
        prop::collection::btree_map(keys, value(), 0..8).prop_map(|map| json!(map))
    };
    // Most have been injected.
    let injected = some().prop_map(|mut map| {
        map["sidecar.istio.io/status"] = json!("{}");
        map
    });
    prop_oneof![4 => injected, 2 => some(), 1 => Just(Value::Null)]
}

fn variable() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(&VARIABLES[..]);
    let plain = (name.clone(), value()).prop_map(|(name, value)| json!({"name": name, "value": value}));
    let reference = name
        .prop_map(|name| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
    prop_oneof![4 => plain, 1 => reference]
}

fn security() -> impl Strategy<Value = Value> {
    let id = prop::option::of(prop_oneof![Just(1337_i64), Just(0), Just(1_000_659_999)]);
    let context = (id.clone(), id).prop_map(|(user, group)| json!({"runAsUser": user, "runAsGroup": group}));
    prop::option::of(context).prop_map(|context| json!(context))
}

fn container() -> impl Strategy<Value = Value> {
    let name = prop_oneof![4 => Just("istio-proxy"), 3 => Just("app"), 2 => Just("istio-validation"), 1 => Just("istio-init")];
    let arguments = prop::collection::vec(prop::sample::select(&ARGUMENTS[..]), 0..4);
    let environment = prop::collection::vec(variable(), 0..4);
    let restart = prop::option::of(Just("Always"));
    (name, arguments, environment, restart, security()).prop_map(|(name, args, env, restart, security)| {
        json!({
            "name": name, "image": "i", "args": args, "env": env, "restartPolicy": restart, "securityContext": security,
            "ports": [{"containerPort": 80}],
        })
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = || prop::collection::vec(container(), 0..4);
    let host = prop_oneof![9 => Just(Value::Null), 1 => Just(json!(true))];
    let class = prop::option::of(Just("kata-qemu"));
    (strings(), strings(), containers(), containers(), (host, security(), class)).prop_map(
        |(annotations, labels, containers, init, (host, security, class))| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "cart", "namespace": "shop", "uid": "u-1", "resourceVersion": "7", "annotations": annotations,
                    "labels": labels, "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}}],
                },
                "spec": {
                    "nodeName": "n", "hostNetwork": host, "securityContext": security, "runtimeClassName": class,
                    "containers": containers, "initContainers": init,
                },
                "status": {"phase": "Pending"},
            })
        },
    )
}

/// The facts that the plugin reads off the socket, if the agent had the pod from `json`.
fn over_the_socket(json: &Value) -> PodFacts {
    let kept: NodePod = serde_json::from_value(json.clone()).unwrap();
    let request = Request { version: VERSION, kind: RequestKind::Pod(PodKey::default()) };
    let line = found_line(&request, &kept.facts_json);
    let found = Response::Found { pod: Box::new(kept.facts()) };
    assert_eq!(line, encode_line(&Reply::to(&request, found)).unwrap());
    match decode_line::<Reply>(&line).unwrap().response {
        Response::Found { pod } => *pod,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn what_comes_over_the_socket_enrols_as_the_whole_pod_does(json in pod()) {
        let whole: PodFacts = serde_json::from_value(json.clone()).unwrap();
        let sent = over_the_socket(&json);
        prop_assert!(sent.has_uid("u-1") && sent.metadata.name == "cart" && sent.metadata.namespace == "shop");
        let mirror = json["metadata"]["annotations"]["kubernetes.io/config.mirror"].as_str().unwrap_or("u-1");
        prop_assert_eq!(sent.has_uid(mirror), whole.has_uid(mirror));
        let (by_sent, by_whole) = (redirect::enrol(&sent), redirect::enrol(&whole));
        prop_assert_eq!(format!("{by_sent:?}"), format!("{by_whole:?}"));
    }
}

#[test]
fn fields_are_written_as_selectors_name_them() {
    let pod: NodePod = serde_json::from_value(json!({
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"nodeName": "n-1", "serviceAccountName": "till", "schedulerName": "default-scheduler", "hostNetwork": true},
        "status": {"phase": "Pending"},
    }))
    .unwrap();
    let set: Vec<_> = pod.fields().into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let set: Vec<_> = set.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(
        set,
        [
            ("metadata.name", "cart"),
            ("metadata.namespace", "shop"),
            ("spec.hostNetwork", "true"),
            ("spec.nodeName", "n-1"),
            ("spec.schedulerName", "default-scheduler"),
            ("spec.serviceAccountName", "till"),
            ("status.phase", "Pending"),
        ]
    );
}
