// SPDX-License-Identifier: Apache-2.0
//! The checks that only the level `restricted` has, in the order of their names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checks::{Violation, added, list, many, named, quoted, seccomp, setters, text};

pub(super) const RESTRICTED: [fn(&Value) -> Option<Violation>; 6] =
    [escalation, capabilities, volumes, non_root, user, seccomp_is_set];

/// Volumes that anybody may have.
const VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn escalation(spec: &Value) -> Option<Violation> {
    let names = named(spec, |one| one["securityContext"]["allowPrivilegeEscalation"] != false);
    let detail =
        format!("{} must set securityContext.allowPrivilegeEscalation=false", many("container", &names));
    (!names.is_empty()).then_some(Violation { reason: "allowPrivilegeEscalation != false", detail })
}

fn capabilities(spec: &Value) -> Option<Violation> {
    let drops_all =
        |one: &Value| list(&one["securityContext"]["capabilities"]["drop"]).any(|name| name == "ALL");
    let keeping = named(spec, |one| !drops_all(one));
    let (adding, beyond) = added(spec, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            "{} must set securityContext.capabilities.drop=[\"ALL\"]",
            many("container", &keeping)
        ));
    }
    if !adding.is_empty() {
        let (who, what) = (many("container", &adding), quoted(&beyond));
        details.push(format!("{who} must not include {what} in securityContext.capabilities.add"));
    }
    (!details.is_empty())
        .then(|| Violation { reason: "unrestricted capabilities", detail: details.join("; ") })
}

fn volumes(spec: &Value) -> Option<Violation> {
    let kind = |volume: &Value| -> Option<String> {
        let fields = volume.as_object()?.iter().filter(|(name, value)| *name != "name" && !value.is_null());
        let kinds: Vec<_> = fields.map(|(name, _)| name.as_str()).collect();
        let allowed = kinds.iter().any(|kind| VOLUMES.contains(kind));
        (!allowed).then(|| kinds.first().map_or("unknown", |kind| *kind).to_owned())
    };
    let bad: Vec<_> = list(&spec["volumes"]).filter(|volume| kind(volume).is_some()).collect();
    let names: Vec<_> = bad.iter().map(|volume| text(&volume["name"])).collect();
    let kinds: BTreeSet<String> = bad.iter().filter_map(|volume| kind(volume)).collect();
    let use_ = if names.len() == 1 { "uses" } else { "use" };
    let word = if kinds.len() == 1 { "type" } else { "types" };
    let detail = format!("{} {use_} restricted volume {word} {}", many("volume", &names), quoted(&kinds));
    (!names.is_empty()).then_some(Violation { reason: "restricted volume types", detail })
}

fn non_root(spec: &Value) -> Option<Violation> {
    let own = |one: &Value| one["securityContext"]["runAsNonRoot"].as_bool();
    let refusing = named(spec, |one| own(one) == Some(false));
    let relying = named(spec, |one| own(one).is_none());
    let reason = "runAsNonRoot != true";
    if let Some(who) = setters(own(spec) == Some(false), &refusing) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Violation { reason, detail });
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", many("container", &relying));
    (own(spec).is_none() && !relying.is_empty()).then_some(Violation { reason, detail })
}

fn user(spec: &Value) -> Option<Violation> {
    let is_root = |one: &Value| one["securityContext"]["runAsUser"] == 0;
    let who = setters(is_root(spec), &named(spec, is_root))?;
    Some(Violation { reason: "runAsUser=0", detail: format!("{who} must not set runAsUser=0") })
}

fn seccomp_is_set(spec: &Value) -> Option<Violation> {
    let sets = |one: &Value| one["securityContext"]["seccompProfile"]["type"].is_string();
    if let Some(set_badly) = seccomp(spec) {
        return Some(set_badly);
    }
    let names = named(spec, |one| !sets(one));
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        many("container", &names)
    );
    (!sets(spec) && !names.is_empty()).then_some(Violation { reason: "seccompProfile", detail })
}
