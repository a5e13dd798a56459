// SPDX-License-Identifier: Apache-2.0
//! Cleans the nodes of a cluster that an uninstall left behind: a DaemonSet that purges each node once, and idles. It has no rights at the
//! API, and is on the host network: no CNI plugin is called for it, so that it starts where no other pod does.

use serde_json::{Value, json};

use super::container::{container, volumes};
use super::make::{ACCOUNT, DAEMON_SET, Maker, fixed, merged, put_unless_empty};
use super::rights::{self, Names};
use super::{agent, extra};
use crate::values::Values;

/// Name of all its objects.
const NAME: &str = "istio-cni-purge";

#[must_use]
pub fn purge(values: &Values) -> Vec<Value> {
    let make = Maker::agent(values);
    let account = make.local(ACCOUNT, NAME, json!({ "automountServiceAccountToken": false }));
    let mut objects = vec![daemon_set(&make), account];
    objects.extend(extra::quota(&make));
    if values.platform == "openshift" {
        // Host directories are for those who may use this constraint.
        let rule =
            rights::named("security.openshift.io", "securitycontextconstraints", "privileged", &["use"]);
        objects.extend(rights::of_cluster(&make, Names::same(NAME), &[rule]));
    }
    objects
}

fn daemon_set(make: &Maker<'_>) -> Value {
    let own = fixed([("k8s-app", NAME)]);
    let labels = merged([&make.labels, &agent::apart(), &own]);
    let spec = json!({
        "selector": { "matchLabels": own },
        // Nodes do not wait for each other.
        "updateStrategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "100%" } },
        "template": { "metadata": { "labels": labels }, "spec": pod(make.values) },
    });
    let mut set = make.local(DAEMON_SET, NAME, json!({ "spec": spec }));
    set["metadata"]["labels"] = json!(merged([&make.labels, &own]));
    set
}

fn pod(values: &Values) -> Value {
    let mut pod = json!({
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "tolerations": values.tolerations,
        "priorityClassName": "system-node-critical",
        "serviceAccountName": NAME,
        "automountServiceAccountToken": false,
        "hostNetwork": true,
        "terminationGracePeriodSeconds": 1,
        // It ends well before the pod is ready: a rollout that is complete is a cluster that is clean.
        "initContainers": [cleaner(values)],
        "containers": [idler(values)],
        "volumes": volumes(values),
    });
    let secrets: Vec<_> =
        values.global.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
    put_unless_empty(&mut pod, "imagePullSecrets", secrets.into());
    if !values.seccomp_profile.is_empty() {
        pod["securityContext"] = json!({ "seccompProfile": values.seccomp_profile });
    }
    pod
}

/// The agent's container, with its mounts and settings, for a command that ends. A binary that a pod's DEL still needs stays.
fn cleaner(values: &Values) -> Value {
    let mut cleaner = container(values);
    cleaner["name"] = "purge".into();
    cleaner["args"] = json!(["--purge", "--keep-used-binary"]);
    if let Some(fields) = cleaner.as_object_mut() {
        for of_agent in ["ports", "startupProbe", "readinessProbe", "livenessProbe", "envFrom"] {
            fields.remove(of_agent);
        }
    }
    let settings = super::config::settings(values).into_iter().chain(values.env.clone());
    cleaner["env"] = settings.map(|(name, value)| json!({ "name": name, "value": value })).collect();
    cleaner["securityContext"]["capabilities"] = json!({ "drop": ["ALL"], "add": ["DAC_OVERRIDE"] });
    cleaner
}

fn idler(values: &Values) -> Value {
    let mut idler = cleaner(values);
    idler["name"] = "done".into();
    idler["args"] = json!(["idle"]);
    idler["env"] = json!([]);
    idler["volumeMounts"] = json!([]);
    idler["securityContext"] = json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "runAsUser": 65534,
        "runAsGroup": 65534,
        "runAsNonRoot": true,
        "capabilities": { "drop": ["ALL"] },
    });
    idler
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Values};

    fn rendered(user: &Value) -> Vec<Value> {
        let mut given = json!({ "image": "example.com/mesh/install-cni:1" });
        if let (Some(given), Some(user)) = (given.as_object_mut(), user.as_object()) {
            given.extend(user.clone());
        }
        purge(&Values::resolve(&given, &Context::default()).unwrap())
    }

    #[test]
    fn it_starts_on_every_node_and_may_do_nothing() {
        let objects = rendered(&json!({}));
        let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["DaemonSet", "ServiceAccount"]);
        let spec = &objects[0]["spec"]["template"]["spec"];
        assert_eq!(
            (&spec["hostNetwork"], &spec["automountServiceAccountToken"]),
            (&json!(true), &json!(false))
        );
        let agents =
            &crate::render(&Values::resolve(&json!({"image": "a/b:1"}), &Context::default()).unwrap())[0];
        assert_eq!(spec["tolerations"], agents["spec"]["template"]["spec"]["tolerations"]);
    }

    #[test]
    fn it_has_the_agents_mounts_and_settings_and_one_capability() {
        let objects = rendered(&json!({ "cniBinDir": "/k/bin", "cniConfFileName": "x.conflist" }));
        let spec = &objects[0]["spec"]["template"]["spec"];
        let cleaner = &spec["initContainers"][0];
        assert!(spec["volumes"].to_string().contains("/k/bin"));
        assert!(cleaner["volumeMounts"].to_string().contains("/host/etc/cni/net.d"));
        let env = cleaner["env"].as_array().unwrap();
        assert!(env.contains(&json!({ "name": "CNI_CONF_NAME", "value": "x.conflist" })), "{env:?}");
        assert_eq!(cleaner["securityContext"]["capabilities"]["add"], json!(["DAC_OVERRIDE"]));
        assert_eq!(spec["containers"][0]["volumeMounts"], json!([]));
    }

    #[test]
    fn openshift_has_to_allow_what_is_mounted() {
        let kinds = rendered(&json!({ "platform": "openshift" }));
        let kinds: Vec<_> = kinds.iter().map(|object| object["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["DaemonSet", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"]);
    }
}
