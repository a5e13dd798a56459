// SPDX-License-Identifier: Apache-2.0

use serde_json::{Value, json};

use super::*;

/// A pod that `restricted` allows, changed at these pointers.
fn pod(changes: &[(&str, Value)]) -> Value {
    let mut spec = json!({
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "a",
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
        "volumes": [{ "name": "v", "emptyDir": {} }],
    });
    for (pointer, value) in changes {
        let mut place = &mut spec;
        for key in pointer.split('.') {
            place = match key.parse::<usize>() {
                Ok(number) => &mut place[number],
                Err(_) => &mut place[key],
            };
        }
        *place = value.clone();
    }
    spec
}

fn said(level: Level, spec: &Value) -> String {
    violations(level, spec).iter().map(Violation::text).collect::<Vec<_>>().join(", ")
}

/// Path of a field, its value, the violations of `baseline`, and those of `restricted` where they differ.
type Case = (&'static str, &'static str, &'static str, Option<&'static str>);

const CASES: &[Case] = &[
    ("hostNetwork", "true", "host namespaces (hostNetwork=true)", None),
    (
        "containers.0.securityContext.privileged",
        "true",
        r#"privileged (container "a" must not set securityContext.privileged=true)"#,
        None,
    ),
    (
        "containers.0.securityContext.capabilities",
        r#"{ "add": ["NET_ADMIN", "CHOWN"], "drop": ["ALL"] }"#,
        r#"non-default capabilities (container "a" must not include "NET_ADMIN" in securityContext.capabilities.add)"#,
        Some(
            r#"unrestricted capabilities (container "a" must not include "CHOWN", "NET_ADMIN" in securityContext.capabilities.add)"#,
        ),
    ),
    (
        "containers.0.securityContext.capabilities",
        r#"{ "add": ["NET_BIND_SERVICE"] }"#,
        "",
        Some(
            r#"unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"])"#,
        ),
    ),
    (
        "volumes",
        r#"[{ "name": "h", "hostPath": { "path": "/" } }]"#,
        r#"hostPath volumes (volume "h")"#,
        Some(r#"restricted volume types (volume "h" uses restricted volume type "hostPath")"#),
    ),
    (
        "volumes",
        r#"[{ "name": "n", "nfs": {} }, { "name": "i", "iscsi": {} }]"#,
        "",
        Some(r#"restricted volume types (volumes "n", "i" use restricted volume types "iscsi", "nfs")"#),
    ),
    (
        "containers.0.ports",
        r#"[{ "hostPort": 80 }, { "hostPort": 8080 }]"#,
        r#"hostPort (container "a" uses hostPorts 80, 8080)"#,
        None,
    ),
    (
        "containers.0.securityContext.procMount",
        r#""Unmasked""#,
        r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#,
        None,
    ),
    (
        "containers.0.securityContext.appArmorProfile",
        r#"{ "type": "Unconfined" }"#,
        r#"forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")"#,
        None,
    ),
    (
        "securityContext.seLinuxOptions",
        r#"{ "type": "spc_t", "user": "u" }"#,
        r#"seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set)"#,
        None,
    ),
    (
        "containers.0.securityContext.seccompProfile",
        r#"{ "type": "Unconfined" }"#,
        r#"seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        None,
    ),
    (
        "securityContext.seccompProfile",
        "null",
        "",
        Some(
            r#"seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#,
        ),
    ),
    (
        "securityContext.sysctls",
        r#"[{ "name": "net.core.somaxconn" }, { "name": "net.ipv4.tcp_syncookies" }]"#,
        "forbidden sysctls (net.core.somaxconn)",
        None,
    ),
    (
        "containers.0.securityContext.allowPrivilegeEscalation",
        "null",
        "",
        Some(
            r#"allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)"#,
        ),
    ),
    (
        "securityContext.runAsNonRoot",
        "null",
        "",
        Some(r#"runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)"#),
    ),
    (
        "securityContext.runAsNonRoot",
        "false",
        "",
        Some("runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"),
    ),
    (
        "containers.0.securityContext.runAsUser",
        "0",
        "",
        Some(r#"runAsUser=0 (container "a" must not set runAsUser=0)"#),
    ),
];

#[test]
fn each_check_says_what_the_real_one_says() {
    for (place, value, baseline, restricted) in CASES {
        let spec = pod(&[(place, serde_json::from_str(value).unwrap())]);
        let restricted = restricted.unwrap_or(baseline);
        assert_eq!(said(Level::Baseline, &spec), *baseline, "baseline: {place} {value}");
        assert_eq!(said(Level::Restricted, &spec), restricted, "restricted: {place} {value}");
        assert_eq!(said(Level::Privileged, &spec), "", "privileged: {place} {value}");
    }
}

#[test]
fn a_pod_that_says_nothing_is_refused_in_the_usual_words() {
    let spec = json!({ "containers": [{ "name": "nginx" }] });
    let wanted = r#"allowPrivilegeEscalation != false (container "nginx" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container "nginx" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != true (pod or container "nginx" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "nginx" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")"#;
    assert_eq!(said(Level::Restricted, &spec), wanted);
    assert_eq!(said(Level::Baseline, &spec), "");
}

#[test]
fn init_containers_count_and_come_first() {
    let spec = pod(&[(
        "initContainers",
        json!([{ "name": "i", "securityContext": { "privileged": true, "capabilities": { "drop": ["ALL"] } } }]),
    )]);
    let wanted = r#"privileged (container "i" must not set securityContext.privileged=true), allowPrivilegeEscalation != false (container "i" must set securityContext.allowPrivilegeEscalation=false)"#;
    assert_eq!(said(Level::Restricted, &spec), wanted);
}

#[test]
fn a_pod_that_keeps_to_the_rules_is_allowed() {
    assert_eq!(said(Level::Restricted, &pod(&[])), "");
    let relying = pod(&[
        ("containers.0.securityContext.runAsNonRoot", json!(true)),
        ("securityContext.runAsNonRoot", Value::Null),
    ]);
    assert_eq!(said(Level::Restricted, &relying), "");
}
