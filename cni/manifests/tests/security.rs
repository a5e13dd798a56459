// SPDX-License-Identifier: Apache-2.0
//! `docs/security.md` matches the rendering: each mode's rights, policies, capabilities and mounts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use manifests::layers::{defaults, put};
use serde_json::{Value, json};

/// Rows of the table: kind and subject; a right is one verb.
type Granted = BTreeSet<(String, String)>;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Documented rows of a mode.
fn documented(mode: &str) -> Granted {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(path).unwrap();
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
        let [of, kind, what, why] = cells.as_slice() else { return None };
        assert!(!why.is_empty(), "{line}");
        (*of == mode).then(|| ((*kind).to_owned(), (*what).to_owned()))
    });
    rows.flat_map(|(kind, what)| match kind.as_str() {
        "right" => {
            let (verbs, rest) = what.split_once(' ').unwrap();
            verbs.split(',').map(|verb| (kind.clone(), format!("{verb} {rest}"))).collect::<Vec<_>>()
        }
        _ => vec![(kind, what)],
    })
    .collect()
}

/// Name, or prefix, of the taint controller's objects.
const CONTROLLER: &str = "istio-cni-taint";

/// Rendered rows of an account.
fn rendered(account: &str, given: &[(&str, Value)]) -> Granted {
    let mut values = defaults();
    for (path, value) in given {
        put(&mut values, path, value.clone());
    }
    let objects = manifests::render(&serde_json::from_value(values).unwrap());
    let of_account = objects.iter().filter(|object| {
        let of_controller = text(&object["metadata"]["name"]).starts_with(CONTROLLER);
        of_controller == (account == CONTROLLER)
    });
    let mut granted = Granted::new();
    for object in of_account {
        let lines: Vec<(&str, String)> = match text(&object["kind"]) {
            kind @ ("ClusterRole" | "Role") => rights(object, kind).map(|line| ("right", line)).collect(),
            "ValidatingAdmissionPolicy" => policies(object).map(|line| ("policy", line)).collect(),
            "DaemonSet" | "Deployment" => process(object),
            _ => Vec::new(),
        };
        granted.extend(lines.into_iter().map(|(kind, what)| (kind.to_owned(), what)));
    }
    granted
}

fn rights<'a>(role: &'a Value, kind: &'a str) -> impl Iterator<Item = String> + 'a {
    let place = match (kind, text(&role["metadata"]["namespace"])) {
        ("Role", "default") => " in default",
        ("Role", _) => " in its namespace",
        _ => "",
    };
    list(&role["rules"]).flat_map(move |rule| {
        let names: String = list(&rule["resourceNames"]).map(|name| format!(" {}", text(name))).collect();
        list(&rule["verbs"]).flat_map(move |verb| {
            let names = names.clone();
            list(&rule["resources"])
                .map(move |resource| format!("{} {}{names}{place}", text(verb), text(resource)))
        })
    })
}

fn policies(policy: &Value) -> impl Iterator<Item = String> + '_ {
    list(&policy["spec"]["matchConstraints"]["resourceRules"]).map(|rule| {
        let name = text(&policy["metadata"]["name"]);
        format!("{name}: {} {}", text(&rule["operations"][0]), text(&rule["resources"][0]))
    })
}

fn process(set: &Value) -> Vec<(&'static str, String)> {
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    let capabilities = list(&container["securityContext"]["capabilities"]["add"]);
    let mounts = list(&container["volumeMounts"]).map(|mount| {
        let read_only = if mount["readOnly"] == true { ", read-only" } else { "" };
        let propagation = mount["mountPropagation"].as_str().map(|how| format!(", {how}"));
        format!("{}{read_only}{}", text(&mount["mountPath"]), propagation.unwrap_or_default())
    });
    let capabilities = capabilities.map(|name| ("capability", text(name).to_owned()));
    capabilities.chain(mounts.map(|mount| ("mount", mount))).collect()
}

/// Name of the mode, account, values that select it, and the page's modes that it includes.
type Case<'a> = (&'a str, &'a str, &'a [(&'a str, Value)], &'a [&'a str]);

#[test]
fn each_mode_is_granted_what_the_page_says() {
    let off = ("repair.enabled", json!(false));
    let on = |path: &'static str| [("repair.repairPods", json!(false)), (path, json!(true))];
    let fallback = |to: &str| [("repair.fallback", json!(to))];
    let taint = |mode: &str| [("taint.mode", json!(mode))];
    let agent = "istio-cni";
    let evicting = [("repair.fallback", json!("delete")), ("repair.unredirected", json!(true))];
    let cases: [Case<'_>; 16] = [
        ("nothing but the plugin", agent, std::slice::from_ref(&off), &["always"]),
        ("the default", agent, &[], &["always", "repair", "repairPods"]),
        ("pods are deleted", agent, &on("repair.deletePods"), &["always", "repair", "delete"]),
        ("pods are labelled", agent, &on("repair.labelPods"), &["always", "repair", "label"]),
        ("deleted as a fallback", agent, &fallback("delete"), &["always", "repair", "repairPods", "delete"]),
        ("labelled as a fallback", agent, &fallback("label"), &["always", "repair", "repairPods", "label"]),
        ("evicted as well", agent, &evicting, &["always", "repair", "repairPods", "delete", "evict"]),
        ("its own taint", agent, &[off.clone(), ("taint.mode", json!("node"))], &["always", "taint-node"]),
        ("a controller's taint", agent, &taint("untaint"), &["always", "repair", "repairPods"]),
        (
            "the runtime is asked",
            agent,
            &[off.clone(), ("criSocket", json!("/run/x.sock"))],
            &["always", "criSocket"],
        ),
        ("OpenShift", agent, &[off.clone(), ("platform", json!("openshift"))], &["always", "openshift"]),
        ("Multus", agent, &[off.clone(), ("provider", json!("multus"))], &["always", "multus"]),
        ("k3s", agent, &[off.clone(), ("cniMoreBinDir", json!("/k/bin"))], &["always", "more-bin"]),
        ("ambient mode", agent, &[off.clone(), ("ambient.enabled", json!(true))], &["always", "ambient"]),
        ("a controller that untaints", CONTROLLER, &taint("untaint"), &["controller", "untaint"]),
        ("a controller that taints", CONTROLLER, &taint("readiness"), &["controller", "readiness"]),
    ];
    for (case, account, given, modes) in cases {
        let documented: Granted = modes.iter().flat_map(|mode| documented(mode)).collect();
        let rendered = rendered(account, given);
        let (unsaid, ungranted): (Vec<_>, Vec<_>) =
            (rendered.difference(&documented).collect(), documented.difference(&rendered).collect());
        assert!(unsaid.is_empty(), "{case}: granted and not in docs/security.md: {unsaid:?}");
        assert!(ungranted.is_empty(), "{case}: in docs/security.md and not granted: {ungranted:?}");
    }
}

/// Violations of OpenShift's `restricted-v2` by a container (SecurityContextConstraints of OpenShift 4.11 and newer: `runAsUser`
/// MustRunAsRange, whose range is the namespace's own and never begins below 1000000000, no host directories, no capability but
/// `NET_BIND_SERVICE`, `RuntimeDefault` alone).
fn restricted_v2(pod: &Value) -> Vec<String> {
    let mut refused = Vec::new();
    let container = &pod["containers"][0];
    let context = &container["securityContext"];
    for user in [&pod["securityContext"]["runAsUser"], &context["runAsUser"]] {
        if user.as_u64().is_some_and(|user| user < 1_000_000_000) {
            refused.push(format!("runAsUser {user} must be in the ranges of the namespace"));
        }
    }
    if list(&context["capabilities"]["add"]).any(|name| name != "NET_BIND_SERVICE") {
        refused.push("capabilities".to_owned());
    }
    if list(&pod["volumes"]).any(|volume| !volume["hostPath"].is_null()) {
        refused.push("hostPath volumes are not allowed".to_owned());
    }
    for (field, wanted) in
        [("allowPrivilegeEscalation", false), ("privileged", false), ("runAsNonRoot", true)]
    {
        if context[field] != wanted {
            refused.push(field.to_owned());
        }
    }
    if pod["securityContext"]["seccompProfile"]["type"] != "RuntimeDefault" || pod["hostNetwork"] == true {
        refused.push("seccomp or network".to_owned());
    }
    refused
}

#[test]
fn on_openshift_a_controller_is_what_restricted_v2_admits_and_elsewhere_no_root() {
    for (platform, mode) in [("openshift", "readiness"), ("openshift", "untaint"), ("", "untaint")] {
        let user = json!({ "image": "example.com/a:1", "platform": platform, "taint": { "mode": mode } });
        let values = manifests::Values::resolve(&user, &manifests::Context::default()).unwrap();
        let objects = manifests::render(&values);
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let context = &pod["containers"][0]["securityContext"];
        if platform == "openshift" {
            assert_eq!(restricted_v2(pod), Vec::<String>::new(), "{mode}");
        } else {
            assert!(context["runAsUser"] == 65532 && context["runAsNonRoot"] == true, "{context}");
            assert_eq!(restricted_v2(pod).len(), 1, "the user alone");
        }
    }
}

/// OpenShift chooses no user in kube-system and default: there the image's own counts, which the kubelet must know by number.
#[test]
fn the_image_is_no_root_and_the_agent_is_by_its_own_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, user) in [
        ("ci/image/build", r#""config":{"Env":["PATH=/usr/local/bin"],"User":"65532:65532","#),
        ("ci/image/Containerfile", "\nUSER 65532:65532\n"),
    ] {
        assert!(std::fs::read_to_string(root.join(file)).unwrap().contains(user), "{file}");
    }
    let user = json!({ "image": "example.com/a:1", "platform": "openshift" });
    let values = manifests::Values::resolve(&user, &manifests::Context::default()).unwrap();
    let pods = [manifests::render(&values), manifests::render::purge(&values)].concat();
    let pods: Vec<_> =
        pods.iter().map(|object| &object["spec"]["template"]["spec"]).filter(|pod| !pod.is_null()).collect();
    let users: Vec<_> = pods
        .iter()
        .flat_map(|pod| list(&pod["initContainers"]).chain(list(&pod["containers"])))
        .map(|container| (text(&container["name"]), container["securityContext"]["runAsUser"].as_u64()))
        .collect();
    assert_eq!(users, [("install-cni", Some(0)), ("purge", Some(0)), ("done", Some(65534))]);
}

#[test]
fn agent_and_controller_are_critical_to_their_nodes() {
    let user = json!({ "image": "example.com/a:1", "taint": { "mode": "untaint" } });
    let values = manifests::Values::resolve(&user, &manifests::Context::default()).unwrap();
    let pods = manifests::render(&values);
    let pods: Vec<_> =
        pods.iter().map(|object| &object["spec"]["template"]["spec"]).filter(|pod| !pod.is_null()).collect();
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["priorityClassName"] == "system-node-critical"), "{pods:?}");
}

#[test]
fn every_line_of_the_page_is_of_a_mode() {
    let known = [
        "always",
        "repair",
        "repairPods",
        "delete",
        "label",
        "taint-node",
        "more-bin",
        "multus",
        "openshift",
        "ambient",
        "criSocket",
        "evict",
        "controller",
        "untaint",
        "readiness",
    ];
    assert!(known.iter().all(|mode| !documented(mode).is_empty()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let page = std::fs::read_to_string(path).unwrap();
    let modes = page.lines().filter_map(|line| {
        let (mode, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
        let kinds = ["right | ", "policy | ", "capability | ", "mount | "];
        kinds.iter().any(|kind| rest.starts_with(kind)).then_some(mode)
    });
    for mode in modes {
        assert!(known.contains(&mode), "{mode}");
    }
}
