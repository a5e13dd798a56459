// SPDX-License-Identifier: Apache-2.0
//! The node agent's DaemonSet.

use serde_json::{Value, json};

use super::container::{container, is_on_host, volumes};
use super::make::{DAEMON_SET, Labels, Maker, fixed, merged, put_unless_empty};
use super::rights::AGENT;
use super::taint;
use crate::values::Values;

/// The plugin lets pods of this name start without asking anybody.
pub(super) const NAME: &str = "istio-cni-node";

pub(super) fn daemon_set(make: &Maker<'_>) -> Value {
    let values = make.values;
    let own = fixed([("k8s-app", NAME)]);
    let mut set = make.local(
        DAEMON_SET,
        NAME,
        json!({
            "spec": {
                "selector": { "matchLabels": own },
                "updateStrategy": values.update_strategy,
                "template": {
                    "metadata": {
                        "labels": merged([&make.labels, &apart(), &values.pod_labels, &own]),
                        "annotations": own_annotations(values),
                    },
                    "spec": pod(values),
                },
            },
        }),
    );
    set["metadata"]["labels"] = json!(merged([&make.labels, &values.daemon_set_labels, &own]));
    set
}

/// Labels of every pod: none is part of the mesh.
pub(super) fn apart() -> Labels {
    fixed([("sidecar.istio.io/inject", "false"), ("istio.io/dataplane-mode", "none")])
}

/// Annotations of every pod.
pub(super) fn annotations() -> Labels {
    fixed([
        ("sidecar.istio.io/inject", "false"),
        ("prometheus.io/path", "/metrics"),
        ("prometheus.io/port", "15014"),
        ("prometheus.io/scrape", "true"),
    ])
}

fn own_annotations(values: &Values) -> Labels {
    let mut annotations = annotations();
    if values.use_app_armor_annotation == Some(true) {
        let key = "container.apparmor.security.beta.kubernetes.io/install-cni";
        annotations.insert(key.to_owned(), "unconfined".to_owned());
    }
    merged([&annotations, &values.pod_annotations])
}

fn pod(values: &Values) -> Value {
    let mut pod = json!({
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "priorityClassName": "system-node-critical",
        "serviceAccountName": AGENT,
        "terminationGracePeriodSeconds": values.termination_grace_period_seconds,
        "containers": [container(values)],
        "volumes": volumes(values),
    });
    if is_on_host(values) {
        pod["hostNetwork"] = true.into();
        pod["dnsPolicy"] = "ClusterFirstWithHostNet".into();
    }
    put_unless_empty(&mut pod, "affinity", values.affinity.clone().into());
    put_unless_empty(&mut pod, "tolerations", taint::of_agent(values).into());
    if !values.seccomp_profile.is_empty() {
        pod["securityContext"] = json!({ "seccompProfile": values.seccomp_profile });
    }
    pod
}
