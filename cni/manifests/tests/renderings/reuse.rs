// SPDX-License-Identifier: Apache-2.0
//! `helm upgrade --reuse-values` on a release of upstream's chart, and the chart as a dependency.
//!
//! With that option Helm puts the former chart's defaults, with what its user set, in the place of the new chart's `values.yaml`
//! (`pkg/action/upgrade.go`, `reuseValues`, of Helm 3.19): what of ours is not in there is nowhere. So a copy of the chart with such a file is
//! rendered, and what comes of it is held against what we make of what the user set.

use std::fs;

use manifests::inputs::install::{NamedText, Sources, install};
use manifests::{Context, render};
use serde_json::{Value, json};

use crate::{differ, helm};

/// Image that the upgrade sets.
const IMAGE: &str = "registry.example.com/mesh/install-cni:1.2.3";

/// Former charts: which releases', their defaults with what a user set among them, and what of that has a meaning today.
fn former() -> [(&'static str, Value, Value); 4] {
    let set = json!({
        "cniBinDir": "/home/kubernetes/bin", "excludeNamespaces": ["kube-system", "tools"], "rollingMaxUnavailable": "10%",
        "updateStrategy": { "rollingUpdate": null },
        "logLevel": "debug", "repair": { "enabled": true, "labelPods": false, "deletePods": true, "repairPods": false },
    });
    let mut of_1_20 = json!({
        "hub": "", "tag": "", "variant": "", "image": "install-cni", "pullPolicy": "", "cniConfDir": "/etc/cni/net.d",
        "cniConfFileName": "", "affinity": {}, "podAnnotations": {}, "psp_cluster_role": "", "chained": true, "privileged": false,
        "provider": "default", "ambient": { "enabled": false, "configDir": "", "redirectMode": "iptables" }, "seccompProfile": {},
        "resources": { "requests": { "cpu": "100m", "memory": "100Mi" } }, "resourceQuotas": { "enabled": false, "pods": 5000 },
    });
    manifests::layers::overlay(&mut of_1_20, &set);
    let global = json!({
        "hub": "gcr.io/elsewhere", "tag": "1.20.0", "imagePullSecrets": [], "logging": { "level": "default:info,cni:info" },
        "defaultResources": { "requests": { "cpu": "100m" } }, "logAsJson": false,
    });
    let of_1_20 = json!({ "cni": of_1_20, "global": global, "revision": "", "ownerName": "" });
    let mut of_1_17 = of_1_20.clone();
    of_1_17["cni"]["taint"] = json!({ "enabled": false, "mode": "node" });
    // Istiod's own, of a file for both.
    of_1_17["taint"] = json!({ "enabled": false });
    let theirs = json!({ "cni": { "hub": "", "chained": true, "repair": { "enabled": true } }, "global": { "tag": "1.22.0" } });
    let user = json!({ "chained": true, "repair": { "enabled": true, "fallback": "label" }, "global": { "logAsJson": true } });
    let with = |key: &str, defaults: &Value| {
        let mut all = user.clone();
        all[key] = defaults.clone();
        all
    };
    let flat = json!({ "hub": "", "chained": false, "provider": "multus", "global": { "hub": "registry.istio.io/release", "tag": "1.27.0" } });
    [
        ("1.17", of_1_17.clone(), of_1_17),
        ("1.20", of_1_20.clone(), of_1_20),
        ("1.22", with("defaults", &theirs), user.clone()),
        ("1.27", with("_internal_defaults_do_not_set", &flat), user.clone()),
    ]
}

/// `helm upgrade --reuse-values` from a former chart renders the user's values.
pub(crate) fn former_values() -> Result<(), String> {
    for (release, kept, user) in former() {
        let source = NamedText { name: release.to_owned(), text: user.to_string() };
        let sources = Sources { values: vec![source], ..Sources::default() };
        let context = Context { image: Some(IMAGE.to_owned()), ..Context::default() };
        let values = install(&sources, &context).map_err(|wrong| wrong.to_string())?.values;
        let ours = render(&values.ok_or("nothing is installed")?);
        let dir = tempfile::tempdir().unwrap();
        helm::copy_chart(dir.path());
        fs::write(dir.path().join("values.yaml"), kept.to_string()).unwrap();
        // Where the former chart had its values below `cni`, a value is set in that spelling.
        let set = if kept["cni"].is_object() {
            json!({ "cni": { "image": IMAGE } })
        } else {
            json!({ "image": IMAGE })
        };
        let theirs = helm::of_copy(dir.path(), &set)?;
        let lines = differ::objects(&ours, &theirs);
        if !lines.is_empty() {
            return Err(format!("{release}: the first is ours, the second Helm's\n{}", lines.join("\n")));
        }
    }
    Ok(())
}

/// As a conditional dependency the chart renders the same objects.
pub(crate) fn dependency() -> Result<(), String> {
    let alone = json!({ "image": IMAGE, "taint": { "mode": "readiness" } });
    for (enabled, is_there) in [(true, true), (false, false)] {
        let dir = tempfile::tempdir().unwrap();
        helm::copy_chart(&dir.path().join("charts/istio-cni"));
        let dependency = json!({ "name": "istio-cni", "version": "*", "condition": "istio-cni.enabled" });
        let chart =
            json!({ "apiVersion": "v2", "name": "mesh", "version": "0.0.0", "dependencies": [dependency] });
        fs::write(dir.path().join("Chart.yaml"), chart.to_string()).unwrap();
        let mut values = alone.clone();
        values["enabled"] = enabled.into();
        let parents = json!({ "istio-cni": values, "global": { "logAsJson": true }, "other": { "x": 1 } });
        let objects = helm::of_copy(dir.path(), &parents)?;
        if objects.is_empty() == is_there {
            return Err(format!("enabled: {enabled}: {} objects", objects.len()));
        }
    }
    Ok(())
}

/// Two renderings are equal, byte for byte.
pub(crate) fn stable() -> Result<(), String> {
    let values = json!({
        "image": IMAGE, "taint": { "mode": "readiness" }, "repair": { "fallback": "delete" }, "env": { "B": "1", "A": "2" },
        "global": { "networkPolicy": { "enabled": true } }, "podLabels": { "z": "1", "a": "2" },
    });
    let [first, second] = [helm::text(&values)?, helm::text(&values)?];
    if first == second { Ok(()) } else { Err("two renderings differ".to_owned()) }
}
