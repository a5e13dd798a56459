// SPDX-License-Identifier: Apache-2.0
//! Renderings: every platform in every mode, and each value that changes an object.

use manifests::layers::{Family, get, put};
use manifests::{Context, Release, Values, render};
use serde_json::{Value, json};

pub(crate) struct Rendering {
    pub(crate) name: String,
    pub(crate) values: Value,
    pub(crate) release: Release,
    /// Version of the API server, if it is asked.
    pub(crate) kube_version: Option<&'static str>,
}

impl Rendering {
    /// With an image, where the values name none.
    pub(crate) fn new(name: &str, mut values: Value) -> Self {
        for (path, value) in [("global.hub", "registry.example.com/mesh"), ("global.tag", "1.2.3")] {
            if get(&values, path).is_none() {
                put(&mut values, path, value.into());
            }
        }
        Self { name: name.to_owned(), values, release: Release::default(), kube_version: None }
    }

    /// Our rendering.
    pub(crate) fn ours(&self) -> Result<Vec<Value>, String> {
        let kube_version = self.kube_version.map(str::to_owned);
        let context = Context { release: self.release.clone(), kube_version, ..Context::default() };
        match Values::resolve(&self.values, &context) {
            Ok(values) => Ok(render(&values)),
            Err(mistakes) => Err(format!("{}: {mistakes}", self.name)),
        }
    }
}

/// Every platform in every mode.
pub(crate) fn product() -> Vec<Rendering> {
    let platforms: Vec<_> = std::iter::once("").chain(Family::Platform.names()).collect();
    let mut all = Vec::new();
    for platform in platforms {
        for (mode, values) in modes() {
            let mut values = values.clone();
            values["platform"] = platform.into();
            let name = format!("{}-{mode}", if platform.is_empty() { "none" } else { platform });
            all.push(Rendering::new(&name, values));
        }
    }
    all
}

/// Modes of the agent, each with values that may depend on it.
fn modes() -> [(&'static str, Value); 17] {
    [
        ("plain", json!({})),
        ("repair-off", json!({ "repair": { "enabled": false } })),
        ("repair-none", json!({ "repair": { "repairPods": false } })),
        ("delete", json!({ "repair": { "repairPods": false, "deletePods": true, "labelPods": true } })),
        (
            "label",
            json!({ "repair": { "repairPods": false, "labelPods": true }, "taint": { "mode": "node" } }),
        ),
        ("fallback-delete", json!({ "repair": { "fallback": "delete", "unredirected": true } })),
        ("fallback-label", json!({ "repair": { "fallback": "label" } })),
        ("taint-node", json!({ "taint": { "mode": "node", "name": "example.com/wait" } })),
        ("taint-readiness", json!({ "taint": { "mode": "readiness" } })),
        (
            "taint-untaint",
            json!({
                "taint": { "mode": "untaint", "replicas": 2 }, "logging": { "level": "all:debug" },
                "global": { "logAsJson": true, "networkPolicy": { "enabled": true } },
            }),
        ),
        ("multus", json!({ "provider": "multus", "chained": false, "cniConfFileName": "istio-cni.conf" })),
        (
            "owned",
            json!({
                "provider": "default", "chained": true, "istioOwnedCNIConfig": true,
                "istioOwnedCNIConfigFileName": "00-istio.conflist",
            }),
        ),
        ("cluster", json!({ "global": { "resourceScope": "cluster" }, "taint": { "mode": "readiness" } })),
        (
            "namespace",
            json!({
                "global": { "resourceScope": "namespace", "networkPolicy": { "enabled": true } },
                "taint": { "mode": "untaint" }, "repair": { "fallback": "delete" },
            }),
        ),
        (
            "cri-socket",
            json!({ "criSocket": "/run/containerd/containerd.sock", "taint": { "mode": "node" } }),
        ),
        ("gate", json!({ "hostNetwork": true, "statusGate": "agent", "global": { "nativeNftables": true } })),
        (
            "old-spelling",
            json!({ "cni": { "chained": true, "provider": "default", "excludeNamespaces": [] } }),
        ),
    ]
}

/// Rendered by one process each: names of the installation, and each value that the product does not change.
pub(crate) fn single() -> Vec<Rendering> {
    let named = values().into_iter().chain(nulls());
    let mut all: Vec<_> = named.map(|(name, values)| Rendering::new(name, values)).collect();
    let everything = json!({ "taint": { "mode": "readiness" }, "repair": { "fallback": "label" } });
    let mut elsewhere = Rendering::new("elsewhere", everything);
    elsewhere.release = Release { name: "mesh".to_owned(), namespace: "kube-system".to_owned() };
    all.push(elsewhere);
    // Words that YAML may read as numbers; 1.1, which Helm goes by, has truth values as well.
    let words = json!({
        "taint": { "mode": "readiness", "name": "123", "config": [{ "namespace": "0x10", "selector": "a=b" }] },
        "resourceQuotas": { "enabled": true }, "repair": { "fallback": "label" }, "env": { "0x10": "1", "NO": "2", "123": "3" },
        "global": { "imagePullSecrets": ["123", "on", "0x10"], "networkPolicy": { "enabled": true } },
    });
    for namespace in ["123", "0x10"] {
        let mut number = Rendering::new(namespace, words.clone());
        number.release = Release { name: "123".to_owned(), namespace: namespace.to_owned() };
        all.push(number);
    }
    for (name, values, version) in [
        ("gke-by-version", json!({ "cniBinDir": "" }), "v1.30.1-gke.100"),
        ("gke-by-version-and-a-directory", json!({ "cniBinDir": "/opt/cni/bin" }), "v1.30.1-gke.100"),
        ("k3s-by-version", json!({ "cniBinDir": "" }), "v1.30.1+k3s1"),
        ("app-armor-before-1.30", json!({}), "v1.29.9-gke.1"),
        (
            "policies-before-1.30",
            json!({ "repair": { "fallback": "delete" }, "taint": { "mode": "readiness" }, "admissionPolicy": { "enabled": false } }),
            "v1.29.9+k3s1",
        ),
        ("policies-since-1.30", json!({ "repair": { "fallback": "label" } }), "v1.30.0-gke.1"),
        ("app-armor-by-annotation", json!({ "useAppArmorAnnotation": true }), "v1.34.1"),
    ] {
        all.push(Rendering { kube_version: Some(version), ..Rendering::new(name, values) });
    }
    all
}

/// Values as charts of other releases took them.
fn former() -> [(&'static str, Value); 2] {
    [
        (
            "texts-that-are-none",
            json!({
                "env": { "TRUTH": true, "NUMBER": 15, "LARGE": 12_345_678, "PART": 0.5, "TEXT": "1" },
                "podAnnotations": { "a": 1 }, "podLabels": { "b": false }, "cni": { "daemonSetLabels": { "c": 2 } },
            }),
        ),
        ("plugin-level", json!({ "logging": { "level": "warn", "pluginLevel": "debug" } })),
    ]
}

fn values() -> Vec<(&'static str, Value)> {
    let mut all = vec![("nothing", json!({})), ("settings", settings()), ("pod", pod()), ("image", image())];
    all.extend(former());
    all.extend([
        ("no-directory", json!({ "cniBinDir": "" })),
        ("global-platform", json!({ "global": { "platform": "k3s" }, "cni": { "cniBinDir": "/k/bin" } })),
        ("two-platforms", json!({ "platform": "k3d", "global": { "platform": "k3s" } })),
        ("image-without-a-name", json!({ "image": "", "taint": { "mode": "untaint" } })),
        ("whole-image", json!({ "image": "example.com/a/install-cni@sha256:00", "hub": "not.read" })),
        ("no-policy", json!({ "admissionPolicy": { "enabled": false }, "taint": { "mode": "node" } })),
        (
            "selectors",
            json!({ "taint": { "mode": "readiness", "config": [
                { "selector": "app=a,tier in (x)" },
                { "name": "b", "namespace": "z", "selector": "app=b" },
                { "name": "c", "namespace": "b", "selector": "app=c" },
                { "name": "d", "namespace": "z", "selector": "app=d" },
            ] } }),
        ),
        (
            "ambient",
            json!({ "profile": "ambient", "ambient": { "acceptUnredirected": true, "shareHostNetworkNamespace": true } }),
        ),
        ("ambient-taken-back", json!({ "profile": "ambient", "ambient": { "enabled": false } })),
        ("ambient-by-variable", json!({ "env": { "AMBIENT_ENABLED": "false" } })),
        ("ambient-disabled", json!({ "enabled": false, "profile": "ambient" })),
        ("demo", json!({ "global": { "profile": "demo" }, "resources": { "limits": { "cpu": "1" } } })),
        ("compat", json!({ "compatibilityVersion": "1.28", "cni": { "profile": "demo" } })),
        (
            "disabled",
            json!({ "enabled": false, "taint": { "mode": "readiness" }, "cni": { "enabled": false } }),
        ),
        ("enabled", json!({ "enabled": true })),
        (
            "no-image-needed-by-the-cluster",
            json!({ "global": { "hub": "", "tag": "", "resourceScope": "cluster" } }),
        ),
        (
            "controllers-tolerations",
            json!({ "taint": { "mode": "readiness", "name": "example.com/wait", "tolerations": [] } }),
        ),
        ("own-tolerations", json!({ "taint": { "mode": "node" }, "tolerations": [{ "key": "dedicated", "operator": "Exists" }] })),
        ("own-tolerations-none", json!({ "taint": { "mode": "readiness" }, "tolerations": [] })),
        (
            "own-tolerations-of-another-effect",
            json!({ "taint": { "mode": "untaint" }, "tolerations": [{ "operator": "Exists", "effect": "NoExecute" }] }),
        ),
        (
            "own-tolerations-with-the-taint",
            json!({ "taint": { "mode": "node" }, "tolerations": [{ "key": "cni.istio.io/not-ready", "operator": "Exists", "effect": "NoSchedule" }] }),
        ),
        ("others", json!({ "pilot": { "cni": { "enabled": true } }, "global": { "meshID": "m" } })),
        (
            "others-of-the-mesh",
            json!({
                "ztunnel": { "resources": {} }, "istiodRemote": { "enabled": true }, "experimental": { "stableValidationPolicy": false },
                "revisionTags": ["a"], "defaultRevision": "b", "trustedZtunnelNamespace": "c",
            }),
        ),
    ]);
    all
}

/// Null at each kind of place.
fn nulls() -> [(&'static str, Value); 10] {
    [
        ("null", json!({ "chained": null, "repair": { "enabled": null }, "cni": { "platform": null } })),
        (
            "null-lists",
            json!({ "excludeNamespaces": null, "taint": { "mode": "readiness", "tolerations": null, "config": null } }),
        ),
        ("null-list-in-both-spellings", json!({ "tolerations": null, "cni": { "tolerations": [] } })),
        (
            "null-groups",
            json!({ "repair": null, "ambient": null, "logging": null, "global": { "logging": null }, "cni": null }),
        ),
        (
            "null-open-maps",
            json!({ "resources": null, "updateStrategy": null, "affinity": null, "platform": "openshift", "seLinuxOptions": null }),
        ),
        (
            "null-entries",
            json!({ "resources": { "requests": { "cpu": null } }, "updateStrategy": { "rollingUpdate": null }, "podLabels": { "a": null } }),
        ),
        ("null-requests", json!({ "cni": { "resources": { "requests": null } } })),
        (
            "null-requests-and-limits",
            json!({ "resources": { "requests": null, "limits": { "memory": "1Gi" } }, "taint": { "mode": "untaint" } }),
        ),
        ("null-over-a-profile", json!({ "profile": "demo", "resources": { "requests": { "cpu": null } } })),
        (
            "null-surge",
            json!({ "updateStrategy": { "type": "OnDelete", "rollingUpdate": { "maxSurge": null } } }),
        ),
    ]
}

fn settings() -> Value {
    json!({
        "logging": { "level": "default:debug,cni-plugin:debug" },
        "cniConfFileName": "10-calico.conflist", "cniNetnsDir": "/run/netns", "cniCacheDir": "/var/cache/cni",
        "excludeNamespaces": ["a", "b"], "kubeconfigMode": "0640", "cniConfGroupRead": true,
        "raiseCniVersion": true, "backend": "iptables-nft", "iptablesTools": true,
        "repair": { "initContainerName": "v", "brokenPodLabelKey": "k/l", "brokenPodLabelValue": "yes" },
        "env": { "LOG_AS_JSON": "true", "B": "quoted \"x\": # {{ y }}", "A": "" },
        "resourceQuotas": { "enabled": true, "pods": 12_000_000 },
        "global": {
            "logAsJson": true, "networkPolicy": { "enabled": true }, "imagePullSecrets": ["one", "two"],
        },
        "ambient": { "dnsCapture": false, "enablementSelectors": [{ "podSelector": { "matchLabels": { "a": "<b>&" } } }] },
    })
}

fn pod() -> Value {
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }] }],
    } } });
    json!({
        "affinity": affinity, "tolerations": [], "seccompProfile": { "type": "RuntimeDefault" },
        "seLinuxOptions": { "level": "s0" }, "useAppArmorAnnotation": false,
        "resources": { "requests": { "cpu": "50m" }, "limits": { "memory": "200Mi" } },
        "updateStrategy": { "rollingUpdate": { "maxUnavailable": "10%" } },
        "terminationGracePeriodSeconds": 5,
        "podAnnotations": { "prometheus.io/scrape": "false", "x": "y" },
        "podLabels": { "app": "mine", "k8s-app": "not-mine", "z": "1" },
        "daemonSetLabels": { "team": "net", "istio.io/rev": "own" },
        "revision": "1-27", "ownerName": "operator",
    })
}

fn image() -> Value {
    json!({
        "hub": "example.com/mesh", "tag": "1.2.3", "variant": "debug", "pullPolicy": "Always",
        "global": { "hub": "x", "tag": "y", "variant": "z", "imagePullPolicy": "Never" },
    })
}
