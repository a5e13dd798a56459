// SPDX-License-Identifier: Apache-2.0
//! Invalid values are rejected by both, and both name them.

use manifests::{Context, Values};
use serde_json::{Value, json};

use crate::cases::Rendering;
use crate::helm;

/// Reason and remedy of a rejected ambient mode, the same in both renderings.
const AMBIENT: &str = "contradicts ambient.acceptUnredirected: false: this node agent serves sidecars only, and pods of ambient mode would start without redirection, past ztunnel; remove it, or set ambient.acceptUnredirected: true";

/// The same of rights that nothing limits.
const POLICIES: &str = "admissionPolicy.enabled: true contradicts kubeVersion: \"v1.29.9\": before 1.30 Kubernetes has no ValidatingAdmissionPolicy, and without it an agent's token can change pods or nodes of the whole cluster; give your server's version (--kube-version), or set admissionPolicy.enabled: false";

/// Ambient mode by each value that sets it.
fn ambient() -> [(String, Value); 6] {
    [
        ("ambient.enabled: true", json!({ "ambient": { "enabled": true } })),
        ("ambient.enabled: true", json!({ "cni": { "ambient": { "enabled": true } } })),
        ("profile: \"ambient\"", json!({ "profile": "ambient" })),
        ("profile: \"ambient\"", json!({ "global": { "profile": "ambient" } })),
        ("ambient.enabled: true", json!({ "profile": "demo", "ambient": { "enabled": true } })),
        ("env.AMBIENT_ENABLED: \"true\"", json!({ "env": { "AMBIENT_ENABLED": "true" } })),
    ]
    .map(|(given, values)| (format!("{given} {AMBIENT}"), values))
}

fn wrong() -> [(&'static str, Value); 28] {
    [
        ("chaind", json!({ "chaind": true })),
        ("chained", json!({ "chained": "yes" })),
        ("provider", json!({ "provider": "calico" })),
        ("cniBinDir", json!({ "cniBinDir": "opt/bin" })),
        ("cniConfFileName", json!({ "cniConfFileName": "/etc/x.conf" })),
        ("kubeconfigMode", json!({ "kubeconfigMode": "600" })),
        ("enable", json!({ "repair": { "enable": true } })),
        ("enable", json!({ "cni": { "repair": { "enable": true } } })),
        (
            "defaults: not to be set; set the value itself, at the root",
            json!({ "defaults": { "chained": false } }),
        ),
        ("platform", json!({ "platform": "eks" })),
        ("profile", json!({ "profile": "huge" })),
        ("compatibilityVersion", json!({ "compatibilityVersion": "0.1" })),
        (
            "repair.enabled",
            json!({ "repair": { "enabled": false }, "cni": { "repair": { "enabled": true } } }),
        ),
        ("chained", json!({ "provider": "multus" })),
        ("statusGate", json!({ "statusGate": "agent" })),
        ("iptablesTools: false: the image has no iptables tools", json!({ "backend": "iptables-nft" })),
        ("names no image: set hub and tag", json!({ "global": { "hub": "" } })),
        ("names no image: set tag", json!({ "global": { "tag": "" } })),
        ("has no tag and no digest", json!({ "image": "example.com/mesh/install-cni" })),
        ("maxSurge: 1: must be 0", json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": 1 } } })),
        (
            "maxSurge: \"25%\": must be 0",
            json!({ "updateStrategy": { "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 0 } } }),
        ),
        ("enabled", json!({ "enabled": "yes" })),
        ("enabled", json!({ "taint": { "enabled": true } })),
        ("enabled", json!({ "cni": { "taint": { "enabled": true } } })),
        ("env.NODE_NAME: \"n\": must be left out", json!({ "env": { "NODE_NAME": "n" } })),
        ("env.POD_NAME: \"p\": must be left out", json!({ "env": { "POD_NAME": "p" } })),
        ("env.POD_NAMESPACE: \"\": must be left out", json!({ "cni": { "env": { "POD_NAMESPACE": "" } } })),
        ("env.REPAIR_NODE_NAME: \"n\": must be left out", json!({ "env": { "REPAIR_NODE_NAME": "n" } })),
    ]
}

/// Both reject them, by name.
pub(crate) fn check() -> Result<(), String> {
    let wrong = wrong().map(|(field, values)| (field.to_owned(), values));
    let policies = json!({ "taint": { "mode": "readiness" } });
    let ambient = ambient();
    let mut passed = Vec::new();
    let all = wrong.iter().chain(&ambient).map(|(field, values)| (field.as_str(), values.clone(), None));
    for (field, values, kube_version) in all.chain([(POLICIES, policies, Some("v1.29.9"))]) {
        let rendering = Rendering { kube_version, ..Rendering::new("wrong", values.clone()) };
        let kube_version = kube_version.map(str::to_owned);
        let ours = Values::resolve(&rendering.values, &Context { kube_version, ..Context::default() })
            .err()
            .map(|mistakes| mistakes.to_string());
        let theirs = helm::render(&rendering).err();
        for (who, error) in [("we", ours), ("helm", theirs)] {
            match error {
                None => passed.push(format!("{values}: {who} took it")),
                Some(error) if !error.contains(field) => {
                    passed.push(format!("{values}: {who} said {error:?}"))
                }
                Some(_) => {}
            }
        }
    }
    if passed.is_empty() { Ok(()) } else { Err(passed.join("\n")) }
}
