// SPDX-License-Identifier: Apache-2.0

use serde_json::{Value, json};

use super::*;
use crate::field::{Field, Kind};
use crate::fields;

fn on(platform: &str, user: &Value) -> Result<Values, Mistakes> {
    let platform = Some(platform.to_owned()).filter(|platform| !platform.is_empty());
    Values::resolve(user, &Context { platform, ..Context::default() })
}

fn told(user: &Value) -> String {
    on("", user).unwrap_err().to_string()
}

#[test]
fn nothing_given_is_the_defaults() {
    let values = on("", &Value::Null).unwrap();
    assert_eq!(values, on("", &json!({})).unwrap());
    assert_eq!((values.cni_bin_dir.as_str(), values.chained), ("/opt/cni/bin", true));
}

#[test]
fn each_platform_sets_what_it_needs() {
    let table = [
        ("openshift", "/var/lib/cni/bin", "/etc/cni/multus/net.d"),
        ("gke", "/home/kubernetes/bin", "/etc/cni/net.d"),
        ("k3s", "/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/agent/etc/cni/net.d"),
        ("k3d", "/bin", "/var/lib/rancher/k3s/agent/etc/cni/net.d"),
        ("microk8s", "/var/snap/microk8s/current/opt/cni/bin", "/var/snap/microk8s/current/args/cni-network"),
        ("minikube", "/opt/cni/bin", "/etc/cni/net.d"),
        ("huawei-cce", "/opt/cni/bin", "/etc/cni/net.d"),
    ];
    assert!(Family::Platform.names().all(|name| table.iter().any(|(known, ..)| *known == name)));
    for (platform, bin, conf) in table {
        let values = on(platform, &json!({})).unwrap();
        assert_eq!((values.cni_bin_dir.as_str(), values.cni_conf_dir.as_str()), (bin, conf), "{platform}");
        assert_eq!(values.platform, platform);
    }
    let values = on("openshift", &json!({})).unwrap();
    assert_eq!((values.provider, values.chained), (Provider::Multus, false));
    assert_eq!(values.cni_conf_file_name, "istio-cni.conf");
    assert_eq!(on("minikube", &json!({})).unwrap().cni_netns_dir, "/var/run/docker/netns");
    assert!(on("gke", &json!({})).unwrap().resource_quotas.enabled);
}

#[test]
fn the_operator_wins_over_the_platform_in_either_spelling() {
    for user in [
        json!({"chained": true, "provider": "default"}),
        json!({"cni": {"chained": true, "provider": "default"}}),
    ] {
        let values = on("openshift", &user).unwrap();
        assert_eq!((values.chained, values.provider), (true, Provider::Default), "{user}");
    }
}

#[test]
fn layers_are_in_order() {
    let values = on("", &json!({"profile": "demo", "resources": {"requests": {"cpu": "1"}}})).unwrap();
    assert_eq!(Value::Object(values.resources), json!({"requests": {"cpu": "1", "memory": "40Mi"}}));
    let values = on("", &json!({"compatibilityVersion": "1.28"})).unwrap();
    assert!(!values.ambient.reconcile_iptables_on_startup);
}

#[test]
fn a_platform_is_named_at_the_root_or_in_global_and_the_root_goes_first() {
    let values = on("", &json!({"global": {"platform": "k3s"}})).unwrap();
    assert_eq!(values.platform, "k3s");
    let values = on("", &json!({"platform": "k3d", "global": {"platform": "k3s"}})).unwrap();
    assert_eq!(values.cni_bin_dir, "/bin");
    let error = on("gke", &json!({"platform": "k3d"})).unwrap_err().to_string();
    assert_eq!(error, r#"platform: "k3d" and --platform: "gke" are one value: give it once"#);
}

#[test]
fn an_unknown_name_lists_those_that_there_are() {
    let error = told(&json!({"platform": "eks", "profile": "huge", "compatibilityVersion": "1.2"}));
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert_eq!(
        lines[1],
        r#"platform: "eks": unknown; known are gke, huawei-cce, k3d, k3s, microk8s, minikube, openshift"#
    );
}

#[test]
fn no_directory_means_the_servers_version_decides() {
    for (version, want) in
        [(None, BIN_DIR), (Some("v1.33.1"), BIN_DIR), (Some("v1.33.1-gke.100"), GKE_BIN_DIR)]
    {
        let context = Context { kube_version: version.map(str::to_owned), ..Context::default() };
        assert_eq!(Values::resolve(&json!({"cniBinDir": ""}), &context).unwrap().cni_bin_dir, want);
    }
}

#[test]
fn null_is_not_given() {
    let values = on("minikube", &json!({"cniNetnsDir": null, "repair": {"enabled": null}})).unwrap();
    assert_eq!((values.cni_netns_dir.as_str(), values.repair.enabled), ("/var/run/docker/netns", true));
}

#[test]
fn what_cannot_stand_together_is_told_with_both_values() {
    let error = told(&json!({"provider": "multus", "statusGate": "agent"}));
    let lines: Vec<_> = error.lines().collect();
    assert!(lines[0].starts_with(r#"chained: true contradicts provider: "multus": "#), "{error}");
    assert!(lines[1].starts_with(r#"statusGate: "agent" contradicts hostNetwork: false: "#), "{error}");
    on("", &json!({"statusGate": "agent", "hostNetwork": true})).unwrap();
    on("", &json!({"provider": "multus", "chained": false})).unwrap();
}

/// Another value than the default that the field can hold.
fn other(field: &Field) -> Value {
    match field.kind {
        Kind::Text | Kind::FileName => json!("other"),
        Kind::Directory | Kind::AutoDirectory => json!("/other"),
        Kind::Mode => json!("0644"),
        Kind::Bool => json!(field.default_value() != json!(true)),
        Kind::Count => json!(7),
        Kind::OneOf(words) => {
            words.iter().map(|word| json!(word)).find(|word| *word != field.default_value()).unwrap()
        }
        Kind::Texts => json!(["other"]),
        Kind::TextMap | Kind::Open => json!({"other": "value"}),
        Kind::OpenList => json!([{"other": "value"}]),
        Kind::Selectors => json!([{"name": "a", "namespace": "b", "selector": "c=d"}]),
        Kind::Elsewhere => unreachable!(),
    }
}

#[test]
fn on_every_platform_each_value_of_the_operator_is_the_one_that_counts() {
    // Named files must exist; what cannot stand alone is said together with what it needs.
    let is_name =
        |path: &str| ["platform", "profile", "compatibilityVersion"].iter().any(|name| path.ends_with(name));
    let company = json!({"chained": false, "hostNetwork": true});
    for field in fields::ALL.iter().filter(|field| field.kind != Kind::Elsewhere && !is_name(field.path)) {
        for platform in Family::Platform.names().chain([""]) {
            let mut user = if ["chained", "hostNetwork"].contains(&field.path) {
                json!({"provider": "default"})
            } else {
                company.clone()
            };
            put(&mut user, field.path, other(field));
            for user in [user.clone(), json!({"cni": user})] {
                let values = serde_json::to_value(on(platform, &user).unwrap()).unwrap();
                let found = get(&values, field.path).unwrap();
                let mut merged = found.clone();
                overlay(&mut merged, &other(field));
                assert_eq!(&merged, found, "{} on {platform}: {user}", field.path);
            }
        }
    }
}
