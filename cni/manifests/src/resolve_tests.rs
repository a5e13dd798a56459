// SPDX-License-Identifier: Apache-2.0

use serde_json::{Value, json};

use super::*;
use crate::setting::{Kind, Setting};
use crate::table;

fn on(platform: &str, user: &Value) -> Result<Values, Mistakes> {
    let platform = Some(platform.to_owned()).filter(|platform| !platform.is_empty());
    Values::resolve(&named(user), &Context { platform, ..Context::default() })
}

/// Adds an image, where values name none.
fn named(user: &Value) -> Value {
    let mut user = if user.is_null() { json!({}) } else { user.clone() };
    for path in ["hub", "tag"] {
        if get(&user, path).is_none() && get(&user, &format!("cni.{path}")).is_none() {
            put(&mut user, path, "example.com/mesh".into());
        }
    }
    user
}

fn refusal(user: &Value) -> String {
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
    for (platform, more) in [
        ("k3s", "/var/lib/rancher/k3s/data/current/bin"),
        ("k3d", "/var/lib/rancher/k3s/data/cni"),
        ("gke", ""),
    ] {
        assert_eq!(on(platform, &json!({})).unwrap().cni_more_bin_dir, more, "{platform}");
    }
    let values = on("openshift", &json!({})).unwrap();
    assert_eq!(values.multus_conf_dir, "/etc/kubernetes/cni/net.d");
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
    assert_eq!(values.all["ambient"]["reconcileIptablesOnStartup"], false);
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
fn ambient_mode_is_rejected_unless_it_is_accepted_and_a_purge_removes_it() {
    let resolved = |user: &Value, context: &Context| Values::resolve(&named(user), context);
    let plain = Context::default();
    let operator = Context { place: OPERATOR, ..Context::default() };
    let flag = Context { profile: Some("ambient".to_owned()), ..Context::default() };
    let by_profile = json!({"profile": "ambient"});
    for (user, context, given) in [
        (json!({"ambient": {"enabled": true}}), &plain, "ambient.enabled: true"),
        (json!({"ambient": {"enabled": true}}), &operator, "spec.values.cni.ambient.enabled: true"),
        (by_profile.clone(), &plain, r#"profile: "ambient""#),
        (by_profile, &operator, r#"spec.profile: "ambient""#),
        (json!({}), &flag, r#"--profile: "ambient""#),
        (json!({"env": {"AMBIENT_ENABLED": "1"}}), &plain, r#"env.AMBIENT_ENABLED: "1""#),
    ] {
        let error = resolved(&user, context).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{given} contradicts ")), "{error}");
        assert!(error.ends_with("remove it, or set ambient.acceptUnredirected: true"), "{error}");
        let mut accepted = user.clone();
        put(&mut accepted, "ambient.acceptUnredirected", true.into());
        assert!(resolved(&accepted, context).is_ok(), "{accepted}");
        assert!(resolved(&user, &Context { purge: true, ..context.clone() }).is_ok(), "{user}");
        let mut disabled = user.clone();
        put(&mut disabled, "enabled", false.into());
        assert!(resolved(&disabled, context).is_ok(), "{disabled}");
    }
    for user in [
        json!({"profile": "ambient", "ambient": {"enabled": false}}),
        json!({"env": {"AMBIENT_ENABLED": "false"}}),
    ] {
        assert!(resolved(&user, &plain).is_ok(), "{user}");
    }
}

#[test]
fn an_unknown_name_lists_those_that_there_are() {
    let error = refusal(&json!({"platform": "eks", "profile": "huge", "compatibilityVersion": "1.2"}));
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
        assert_eq!(Values::resolve(&named(&json!({"cniBinDir": ""})), &context).unwrap().cni_bin_dir, want);
    }
}

#[test]
fn app_armor_is_told_as_the_server_understands_it_unless_the_operator_says_how() {
    for (version, user, by_annotation) in [
        (None, json!({}), false),
        (Some("v1.30.0"), json!({}), false),
        (Some("v1.30.1-gke.100"), json!({}), false),
        (Some("v1.29.9"), json!({}), true),
        (Some("v1.29.9"), json!({"useAppArmorAnnotation": false}), false),
        (Some("v1.34.1"), json!({"useAppArmorAnnotation": true}), true),
    ] {
        let context = Context { kube_version: version.map(str::to_owned), ..Context::default() };
        let values = Values::resolve(&named(&user), &context).unwrap();
        assert_eq!(values.use_app_armor_annotation, Some(by_annotation), "{version:?} {user}");
    }
}

#[test]
fn no_image_is_guessed() {
    let resolved =
        |user: &Value| Values::resolve(user, &Context::default()).map_err(|wrong| wrong.to_string());
    for named in [
        json!({"hub": "example.com/mesh", "tag": "1"}),
        json!({"global": {"hub": "example.com/mesh"}, "tag": "1"}),
        json!({"image": "example.com:5000/mesh/install-cni:1"}),
        json!({"image": "example.com/mesh/install-cni@sha256:00"}),
        json!({"global": {"resourceScope": "cluster"}}),
        json!({"enabled": false}),
    ] {
        resolved(&named).unwrap();
    }
    for (user, wrong) in [
        (json!({}), "hub: \"\": names no image: set hub and tag "),
        (json!({"tag": "1"}), "hub: \"\": names no image: set hub and tag "),
        (json!({"hub": "example.com"}), "tag: \"\": names no image: set tag "),
        (
            json!({"image": "example.com:5000/install-cni"}),
            "image: \"example.com:5000/install-cni\": names no image: ",
        ),
    ] {
        let refusal = resolved(&user).unwrap_err();
        assert!(refusal.starts_with(wrong) && refusal.lines().count() == 1, "{user}: {refusal}");
    }
    let image = Some("example.com/mesh/install-cni:1".to_owned());
    let context = Context { image, ..Context::default() };
    let values = Values::resolve(&json!({"hub": "elsewhere", "tag": "2"}), &context).unwrap();
    assert_eq!(values.image, "example.com/mesh/install-cni:1");
}

#[test]
fn one_node_has_one_agent() {
    for (surge, is_fine) in
        [(json!(0), true), (json!("0%"), true), (json!(null), true), (json!(1), false), (json!("10%"), false)]
    {
        let user = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0}}});
        let resolved = on("", &user);
        assert_eq!(resolved.is_ok(), is_fine, "{surge}");
        let refusal = resolved.err().map(|wrong| wrong.to_string()).unwrap_or_default();
        let want =
            format!("updateStrategy.rollingUpdate.maxSurge: {surge}: must be 0: two agents on one node");
        assert!(is_fine || refusal.starts_with(&want), "{refusal}");
    }
}

#[test]
fn what_the_pod_says_of_itself_is_said_once() {
    for (name, path) in POD_FIELDS {
        let want = format!("env.{name}: \"x\": must be left out: it is {path} of the agent's pod");
        assert_eq!(refusal(&json!({"env": {name: "x"}})), want);
        assert_eq!(refusal(&json!({"cni": {"env": {name: "x"}}})), want);
        on("", &json!({"env": {name: null, format!("{name}_"): "x"}})).unwrap();
    }
}

#[test]
fn tools_that_the_image_lacks_are_not_asked_for() {
    for backend in ["iptables-nft", "iptables-legacy"] {
        let refusal = refusal(&json!({"backend": backend}));
        let want = format!(
            "backend: \"{backend}\" contradicts iptablesTools: false: the image has no iptables tools; "
        );
        assert!(refusal.starts_with(&want), "{refusal}");
        on("", &json!({"backend": backend, "iptablesTools": true})).unwrap();
    }
}

#[test]
fn null_is_not_given() {
    let values = on("minikube", &json!({"cniNetnsDir": null, "repair": {"enabled": null}})).unwrap();
    assert_eq!((values.cni_netns_dir.as_str(), values.repair.enabled), ("/var/run/docker/netns", true));
}

#[test]
fn null_empties_lists_and_takes_out_entries_of_open_maps() {
    let requests = json!({"cpu": "100m", "memory": "100Mi"});
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}});
    for (user, path, want) in [
        (json!({"excludeNamespaces": null}), "excludeNamespaces", json!([])),
        (json!({"tolerations": null}), "tolerations", json!([])),
        (json!({"tolerations": null, "cni": {"tolerations": []}}), "tolerations", json!([])),
        (json!({"resources": null}), "resources", json!({"requests": requests})),
        (json!({"resources": {"requests": null}}), "resources", json!({})),
        (
            json!({"resources": {"requests": null, "limits": {"memory": "1Gi"}}}),
            "resources",
            json!({"limits": {"memory": "1Gi"}}),
        ),
        (
            json!({"cni": {"resources": {"requests": {"cpu": null}}}}),
            "resources",
            json!({"requests": {"memory": "100Mi"}}),
        ),
        (
            json!({"profile": "demo", "resources": {"requests": {"cpu": null}}}),
            "resources",
            json!({"requests": {"memory": "40Mi"}}),
        ),
        (json!({"updateStrategy": null}), "updateStrategy", rolling),
        (
            json!({"updateStrategy": {"rollingUpdate": null, "type": "OnDelete"}}),
            "updateStrategy",
            json!({"type": "OnDelete"}),
        ),
        (json!({"repair": null, "global": null}), "repair.enabled", json!(true)),
        (json!({"useAppArmorAnnotation": null}), "useAppArmorAnnotation", json!(null)),
        (json!({"affinity": null}), "affinity", json!({})),
    ] {
        assert_eq!(get(&on("", &user).unwrap().all, path), Some(&want), "{user}");
    }
}

#[test]
fn what_cannot_stand_together_is_told_with_both_values() {
    let error = refusal(&json!({"provider": "multus", "statusGate": "agent"}));
    let lines: Vec<_> = error.lines().collect();
    assert!(lines[0].starts_with(r#"chained: true contradicts provider: "multus": "#), "{error}");
    assert!(lines[1].starts_with(r#"statusGate: "agent" contradicts hostNetwork: false: "#), "{error}");
    on("", &json!({"statusGate": "agent", "hostNetwork": true})).unwrap();
    on("", &json!({"provider": "multus", "chained": false})).unwrap();
}

/// Another value than the default that the field can hold.
fn other(field: &Setting) -> Value {
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
        Kind::PodSelectors => json!([{"name": "a", "namespace": "b", "selector": "c=d"}]),
        _ => unreachable!("no value of the chart that is read"),
    }
}

#[test]
fn on_every_platform_each_value_of_the_operator_is_the_one_that_counts() {
    // Named files must exist; what cannot stand alone is said together with what it needs.
    let is_name =
        |path: &str| ["platform", "profile", "compatibilityVersion"].iter().any(|name| path.ends_with(name));
    let company = json!({"chained": false, "hostNetwork": true});
    for field in table::values().filter(|field| field.kind != Kind::Elsewhere && !is_name(field.path)) {
        for platform in Family::Platform.names().chain([""]) {
            let mut user = if ["chained", "hostNetwork"].contains(&field.path) {
                json!({"provider": "default"})
            } else {
                company.clone()
            };
            put(&mut user, "ambient.acceptUnredirected", true.into());
            put(&mut user, field.path, other(field));
            for user in [user.clone(), json!({"cni": user})] {
                let values = on(platform, &user).unwrap().all;
                let found = get(&values, field.path).unwrap();
                let mut merged = found.clone();
                overlay(&mut merged, &other(field));
                assert_eq!(&merged, found, "{} on {platform}: {user}", field.path);
            }
        }
    }
}
