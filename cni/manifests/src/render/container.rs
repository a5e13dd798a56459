// SPDX-License-Identifier: Apache-2.0
//! The node agent's container and its volumes: what the mode needs, and no more.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::make::{or, put_unless_empty};
use super::taint;
use crate::table;
use crate::values::{POD_FIELDS, Provider, Values};

/// Root and `DAC_OVERRIDE` write the runtime's directories, whoever owns them.
const WRITING: [&str; 1] = ["DAC_OVERRIDE"];
/// Capabilities for entering pods' namespaces.
const ENTERING: [&str; 5] = ["NET_ADMIN", "NET_RAW", "SYS_PTRACE", "SYS_ADMIN", "DAC_OVERRIDE"];
/// Capabilities for the probe, which sends a packet as an unprivileged user.
const PROVING: [&str; 2] = ["SETUID", "SETGID"];

/// `hostPath` mount.
struct Mount {
    name: &'static str,
    inside: &'static str,
    how: How,
}

#[derive(PartialEq, Eq)]
enum How {
    Written,
    Read,
}

/// Mounts of every mode.
const ALWAYS: [Mount; 4] = [
    Mount { name: "cni-bin-dir", inside: "/host/opt/cni/bin", how: How::Written },
    Mount { name: "cni-net-dir", inside: "/host/etc/cni/net.d", how: How::Written },
    Mount { name: "cni-socket-dir", inside: "/var/run/istio-cni", how: How::Written },
    Mount { name: "cni-cache-dir", inside: "/host/var/lib/cni", how: How::Read },
];
/// With this one, namespaces of pods are found. Those that are bind mounts are reached by way of the node's first process: mounts that are
/// made later follow a mount of their directory only where the node shares it, and elsewhere the container would not start.
const TO_ENTER: [Mount; 1] = [Mount { name: "cni-host-procfs", inside: "/host/proc", how: How::Read }];

/// Another directory of plugins.
const MORE_BIN_DIR: [Mount; 1] =
    [Mount { name: "cni-more-bin-dir", inside: "/host/opt/cni/more", how: How::Written }];
/// The directory with Multus' own file.
const MULTUS_DIR: [Mount; 1] =
    [Mount { name: "multus-conf-dir", inside: "/host/multus/net.d", how: How::Read }];

/// With this one, the runtime is asked: the directory of its socket, as a runtime that restarts makes another socket.
const TO_ASK: [Mount; 1] = [Mount { name: "cri-socket-dir", inside: "/host/cri", how: How::Read }];

fn mounts(values: &Values) -> impl Iterator<Item = &'static Mount> {
    let when = |is_so: bool, mounts: &'static [Mount]| if is_so { mounts } else { &[] };
    ALWAYS
        .iter()
        .chain(when(!values.cni_more_bin_dir.is_empty(), &MORE_BIN_DIR))
        .chain(when(has_multus_dir(values), &MULTUS_DIR))
        .chain(when(values.repair.enabled, &TO_ENTER))
        .chain(when(!values.cri_socket.is_empty(), &TO_ASK))
}

/// True if the agent looks for Multus' own file.
fn has_multus_dir(values: &Values) -> bool {
    values.provider == Provider::Multus && !values.multus_conf_dir.is_empty()
}

/// Directory and name of the runtime's socket on the node.
fn cri_socket(values: &Values) -> (&str, &str) {
    match values.cri_socket.rsplit_once('/') {
        Some((directory, name)) => (if directory.is_empty() { "/" } else { directory }, name),
        None => ("/", ""),
    }
}

/// Volumes of the pod.
pub(super) fn volumes(values: &Values) -> Vec<Value> {
    let path = |name| match name {
        "cni-bin-dir" => values.cni_bin_dir.as_str(),
        "cni-net-dir" => &values.cni_conf_dir,
        "cni-more-bin-dir" => &values.cni_more_bin_dir,
        "multus-conf-dir" => &values.multus_conf_dir,
        "cni-socket-dir" => "/var/run/istio-cni",
        "cni-cache-dir" => &values.cni_cache_dir,
        "cri-socket-dir" => cri_socket(values).0,
        _ => "/proc",
    };
    let volume = |mount: &Mount| {
        let kind = if matches!(mount.name, "cni-host-procfs" | "cri-socket-dir") {
            "Directory"
        } else {
            "DirectoryOrCreate"
        };
        json!({ "name": mount.name, "hostPath": { "path": path(mount.name), "type": kind } })
    };
    mounts(values).map(volume).collect()
}

/// Container of the agent.
pub(super) fn container(values: &Values) -> Value {
    let mut container = json!({
        "name": "install-cni",
        "image": image(values),
        "command": ["install-cni"],
        // No liveness probe: with a port that another process of the node holds, an agent that works would be killed.
        "startupProbe": startup(),
        "readinessProbe": readiness(),
        "securityContext": security_context(values),
        "envFrom": [{ "configMapRef": { "name": "istio-cni-config" } }],
        "env": variables(values),
        "volumeMounts": mounts(values).map(mounted).collect::<Vec<_>>(),
    });
    if is_on_host(values) {
        // There the port may be anybody's, who answers 200; and a declared port is one of the node's, which is free once.
        ask_by_program(&mut container["startupProbe"], "healthz");
        ask_by_program(&mut container["readinessProbe"], "readyz");
    } else {
        container["ports"] = ports();
    }
    put_unless_empty(&mut container, "imagePullPolicy", pull_policy(values).into());
    put_unless_empty(&mut container, "resources", values.resources.clone().into());
    container
}

/// True if the agent is on the node's network.
pub(super) fn is_on_host(values: &Values) -> bool {
    values.host_network || (values.ambient.enabled && values.ambient.share_host_network_namespace)
}

/// Has a probe ask the agent by the agent's own program, in its container.
fn ask_by_program(probe: &mut Value, what: &str) {
    if let Some(probe) = probe.as_object_mut() {
        probe.remove("httpGet");
        probe.insert("exec".to_owned(), json!({ "command": ["install-cni", "probe", what] }));
        probe.insert("timeoutSeconds".to_owned(), 3.into());
    }
}

/// Declared ports; the kubelet needs no declaration.
pub(super) fn ports() -> Value {
    json!([{ "name": "metrics", "containerPort": 15014, "protocol": "TCP" }])
}

/// Readiness probe.
pub(super) fn readiness() -> Value {
    json!({ "httpGet": { "path": "/readyz", "port": 8000 } })
}

/// Startup probe. Readiness is not probed before it succeeds, so that a container that starts normally never gets an `Unhealthy` event. It
/// cannot kill a running container, as a liveness probe could.
pub(super) fn startup() -> Value {
    let never = i32::MAX;
    let mut probe = json!({
        "httpGet": { "path": "/healthz", "port": 8000 },
        "periodSeconds": 1,
        "failureThreshold": never,
    });
    // A kubelet's first look is at once, when nobody listens yet.
    probe["initialDelaySeconds"] = 1.into();
    probe
}

/// Image reference.
pub(crate) fn image(values: &Values) -> String {
    if values.image.contains('/') {
        return values.image.clone();
    }
    let global = &values.global;
    let (hub, tag) = (or(&values.hub, &global.hub), or(&values.tag, &global.tag));
    let variant = or(&values.variant, &global.variant);
    let variant = if variant.is_empty() { variant } else { format!("-{variant}") };
    format!("{hub}/{}:{tag}{variant}", or(&values.image, table::IMAGE.value_default))
}

/// `imagePullPolicy`; empty for Kubernetes' default.
pub(super) fn pull_policy(values: &Values) -> &str {
    if values.pull_policy.is_empty() { &values.global.image_pull_policy } else { &values.pull_policy }
}

fn mounted(mount: &Mount) -> Value {
    let mut mounted = json!({ "name": mount.name, "mountPath": mount.inside });
    match mount.how {
        How::Written => {}
        How::Read => mounted["readOnly"] = true.into(),
    }
    mounted
}

fn security_context(values: &Values) -> Value {
    let enters = values.repair.enabled;
    let mut capabilities = WRITING.to_vec();
    if enters {
        capabilities = ENTERING.to_vec();
        if values.repair.repair_pods {
            capabilities.extend(PROVING);
        }
    }
    let mut context = json!({
        "privileged": false,
        "readOnlyRootFilesystem": true,
        "runAsUser": 0,
        "runAsGroup": 0,
        "runAsNonRoot": false,
        "capabilities": { "drop": ["ALL"], "add": capabilities },
    });
    if !enters {
        // Not with SYS_ADMIN: the API server takes that for a contradiction.
        context["allowPrivilegeEscalation"] = false.into();
    }
    if values.use_app_armor_annotation != Some(true) {
        context["appArmorProfile"] = json!({ "type": "Unconfined" });
    }
    if !values.se_linux_options.is_empty() {
        let mut options = values.se_linux_options.clone();
        options.entry("type").or_insert_with(|| "spc_t".into());
        context["seLinuxOptions"] = options.into();
    }
    context
}

fn variables(values: &Values) -> Vec<Value> {
    let cri_socket = format!("/host/cri/{}", cri_socket(values).1);
    let mut settings: BTreeMap<&str, &str> = of_pod(values).into_iter().collect();
    if !values.cri_socket.is_empty() {
        settings.insert("MILLRACE_CRI_SOCKET", &cri_socket);
    }
    settings.extend(values.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let settings = settings.into_iter().map(|(name, value)| variable(name, value));
    POD_FIELDS.into_iter().map(|(name, path)| field(name, path)).chain(settings).collect()
}

/// Settings that hold for a pod's life: those that go with its mounts, the form of its log, and the taint of its own node. A change of them rolls the
/// `DaemonSet`. The agent takes them from its pod's template and not from the `ConfigMap`, which a pod of another template may watch.
fn of_pod(values: &Values) -> Vec<(&'static str, &str)> {
    let chained = if values.chained { "true" } else { "false" };
    let mut settings =
        vec![("CHAINED_CNI_PLUGIN", chained), ("CNI_CONF_NAME", values.cni_conf_file_name.as_str())];
    // A pod's own variables count before those of its ConfigMap. So a change of the ConfigMap alone cannot open the credentials, skip TLS or uninstall.
    settings.push(("KUBECONFIG_MODE", &values.kubeconfig_mode));
    settings.extend([("SKIP_TLS_VERIFY", "false"), ("AMBIENT_DISABLE_SAFE_UPGRADE", "false")]);
    settings.push(("MILLRACE_NODE_BIN_DIR", &values.cni_bin_dir));
    settings.push(("MILLRACE_NODE_NET_DIR", &values.cni_conf_dir));
    if !values.cni_more_bin_dir.is_empty() {
        settings.push(("MILLRACE_NODE_MORE_BIN_DIR", &values.cni_more_bin_dir));
    }
    if has_multus_dir(values) {
        settings.push(("MILLRACE_NODE_MULTUS_DIR", &values.multus_conf_dir));
    }
    if values.repair.enabled {
        settings.push(("MILLRACE_NETNS_DIR", &values.cni_netns_dir));
    }
    if values.global.log_as_json {
        settings.push(("LOG_AS_JSON", "true"));
    }
    settings.extend(taint::own_node(&values.taint));
    settings
}

/// A variable. An empty value is left out, as the API server leaves it out.
fn variable(name: &str, value: &str) -> Value {
    let mut variable = json!({ "name": name });
    put_unless_empty(&mut variable, "value", value.into());
    variable
}

/// Variable from the downward API.
pub(super) fn field(name: &str, path: &str) -> Value {
    json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Values};

    #[test]
    fn an_image_without_a_name_is_ours() {
        let user = json!({ "hub": "example.com/mesh", "tag": "1", "image": "" });
        let values = Values::resolve(&user, &Context::default()).unwrap();
        assert_eq!(image(&values), "example.com/mesh/install-cni:1");
    }

    #[test]
    fn turning_the_own_nodes_taint_on_or_renaming_it_rolls_the_pods() {
        let rendered = |taint| {
            let user = json!({ "image": "example.com/mesh/install-cni:1", "taint": taint });
            container(&Values::resolve(&user, &Context::default()).unwrap())
        };
        let off = rendered(json!({}));
        let on = rendered(json!({ "mode": "node" }));
        let renamed = rendered(json!({ "mode": "node", "name": "example.com/wait" }));
        assert!(on != off && renamed != on);
        for (container, name) in [(on, "cni.istio.io/not-ready"), (renamed, "example.com/wait")] {
            let env = container["env"].as_array().unwrap();
            assert!(env.contains(&json!({ "name": "MILLRACE_TAINT_OWN_NODE", "value": "true" })), "{env:?}");
            assert!(env.contains(&json!({ "name": "MILLRACE_TAINT_NAME", "value": name })), "{env:?}");
        }
        assert_eq!(rendered(json!({ "mode": "untaint", "name": "example.com/wait" })), off, "a controller's");
    }
}
