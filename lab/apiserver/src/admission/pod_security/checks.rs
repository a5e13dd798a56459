// SPDX-License-Identifier: Apache-2.0
//! The checks of the level `baseline`, in the order of their names, and what all checks share.
//!
//! Not here: hosts of probes and of lifecycle handlers, host processes of Windows, and what user namespaces relax.

use std::collections::BTreeSet;

use serde_json::Value;

/// A failed check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

impl Violation {
    /// `reason (detail)`
    pub(super) fn text(&self) -> String {
        format!("{} ({})", self.reason, self.detail)
    }
}

pub(super) struct Check {
    pub(super) run: fn(&Value) -> Option<Violation>,
    /// A stricter check takes its place at the level `restricted`.
    pub(super) replaced: bool,
}

const fn check(run: fn(&Value) -> Option<Violation>) -> Check {
    Check { run, replaced: false }
}

pub(super) const BASELINE: [Check; 10] = [
    check(app_armor),
    Check { run: capabilities, replaced: true },
    check(host_namespaces),
    Check { run: host_paths, replaced: true },
    check(host_ports),
    check(privileged),
    check(proc_mount),
    check(se_linux),
    Check { run: seccomp, replaced: true },
    check(sysctls),
];

/// Capabilities that `baseline` allows to be added.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

const SE_LINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

const SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// All containers of a pod, in the order in which the real one visits them.
pub(super) fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers", "ephemeralContainers"].map(|list| spec[list].as_array());
    lists.into_iter().flatten().flatten()
}

/// Names of the containers that are so.
pub(super) fn named(spec: &Value, is_so: impl Fn(&Value) -> bool) -> Vec<String> {
    containers(spec).filter(|one| is_so(one)).map(|one| text(&one["name"])).collect()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// `"a", "b"`
pub(super) fn quoted<'a>(all: impl IntoIterator<Item = &'a String>) -> String {
    all.into_iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ")
}

/// `container "a"`, `containers "a", "b"`
pub(super) fn many(word: &str, names: &[String]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{word}{plural} {}", quoted(names))
}

/// Who set something: `pod and container "a"`; `None` if nobody did.
pub(super) fn setters(pod: bool, names: &[String]) -> Option<String> {
    let pod = pod.then(|| "pod".to_owned());
    let all: Vec<_> = pod.into_iter().chain((!names.is_empty()).then(|| many("container", names))).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

fn violation(reason: &'static str, detail: Option<String>) -> Option<Violation> {
    detail.map(|detail| Violation { reason, detail })
}

fn unless_empty(names: &[String], detail: impl FnOnce() -> String) -> Option<String> {
    (!names.is_empty()).then(detail)
}

fn app_armor(spec: &Value) -> Option<Violation> {
    let bad = |one: &Value| {
        one["securityContext"]["appArmorProfile"]["type"]
            .as_str()
            .is_some_and(|kind| !matches!(kind, "RuntimeDefault" | "Localhost"))
    };
    let names = named(spec, bad);
    let kinds: BTreeSet<String> = containers(spec)
        .chain([spec])
        .filter(|one| bad(one))
        .map(|one| text(&one["securityContext"]["appArmorProfile"]["type"]))
        .collect();
    let reason = if kinds.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    violation(
        reason,
        setters(bad(spec), &names)
            .map(|who| format!("{who} must not set AppArmor profile type to {}", quoted(&kinds))),
    )
}

/// Containers that add capabilities beyond the allowed ones, and those capabilities.
pub(super) fn added(spec: &Value, allowed: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let beyond = |one: &Value| -> BTreeSet<String> {
        let added = list(&one["securityContext"]["capabilities"]["add"]).map(text);
        added.filter(|name| !allowed.contains(&name.as_str())).collect()
    };
    (named(spec, |one| !beyond(one).is_empty()), containers(spec).flat_map(beyond).collect())
}

fn capabilities(spec: &Value) -> Option<Violation> {
    let (names, beyond) = added(spec, &DEFAULT_CAPABILITIES);
    let detail = || {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            many("container", &names),
            quoted(&beyond)
        )
    };
    violation("non-default capabilities", unless_empty(&names, detail))
}

fn host_namespaces(spec: &Value) -> Option<Violation> {
    let set = ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| spec[*field] == true);
    let set: Vec<_> = set.map(|field| format!("{field}=true")).collect();
    violation("host namespaces", unless_empty(&set, || set.join(", ")))
}

fn host_paths(spec: &Value) -> Option<Violation> {
    let with = list(&spec["volumes"]).filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<_> = with.map(|volume| text(&volume["name"])).collect();
    violation("hostPath volumes", unless_empty(&names, || many("volume", &names)))
}

fn host_ports(spec: &Value) -> Option<Violation> {
    let used = |one: &Value| -> BTreeSet<String> {
        let ports = list(&one["ports"]).filter_map(|port| port["hostPort"].as_u64());
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let names = named(spec, |one| !used(one).is_empty());
    let ports: Vec<String> = containers(spec).flat_map(used).collect::<BTreeSet<_>>().into_iter().collect();
    let use_ = if names.len() == 1 { "uses" } else { "use" };
    let word = if ports.len() == 1 { "hostPort" } else { "hostPorts" };
    let detail = || format!("{} {use_} {word} {}", many("container", &names), ports.join(", "));
    violation("hostPort", unless_empty(&names, detail))
}

fn privileged(spec: &Value) -> Option<Violation> {
    let names = named(spec, |one| one["securityContext"]["privileged"] == true);
    let detail = || format!("{} must not set securityContext.privileged=true", many("container", &names));
    violation("privileged", unless_empty(&names, detail))
}

fn proc_mount(spec: &Value) -> Option<Violation> {
    let kind = |one: &Value| {
        one["securityContext"]["procMount"].as_str().filter(|kind| *kind != "Default").map(str::to_owned)
    };
    let names = named(spec, |one| kind(one).is_some());
    let kinds: BTreeSet<String> = containers(spec).filter_map(kind).collect();
    let detail = || {
        format!("{} must not set securityContext.procMount to {}", many("container", &names), quoted(&kinds))
    };
    violation("procMount", unless_empty(&names, detail))
}

fn se_linux(spec: &Value) -> Option<Violation> {
    let options = |one: &Value| one["securityContext"]["seLinuxOptions"].clone();
    let bad_type = |one: &Value| {
        Some(text(&options(one)["type"])).filter(|kind| !SE_LINUX_TYPES.contains(&kind.as_str()))
    };
    let sets = |one: &Value, field: &str| options(one)[field].as_str().is_some_and(|text| !text.is_empty());
    let bad = |one: &Value| bad_type(one).is_some() || sets(one, "user") || sets(one, "role");
    let who = setters(bad(spec), &named(spec, bad))?;
    let all = || containers(spec).chain([spec]);
    let kinds: BTreeSet<String> = all().filter_map(bad_type).collect();
    let mut data = Vec::new();
    if !kinds.is_empty() {
        data.push(format!("type{} {}", if kinds.len() == 1 { "" } else { "s" }, quoted(&kinds)));
    }
    for field in ["user", "role"] {
        if all().any(|one| sets(one, field)) {
            data.push(format!("{field} may not be set"));
        }
    }
    violation(
        "seLinuxOptions",
        Some(format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; "))),
    )
}

/// A profile that is not allowed, of a pod or a container.
pub(super) fn bad_seccomp(one: &Value) -> Option<String> {
    let kind = one["securityContext"]["seccompProfile"]["type"].as_str()?;
    (!matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
}

pub(super) fn seccomp(spec: &Value) -> Option<Violation> {
    let names = named(spec, |one| bad_seccomp(one).is_some());
    let who = setters(bad_seccomp(spec).is_some(), &names)?;
    let kinds: BTreeSet<String> = containers(spec).chain([spec]).filter_map(bad_seccomp).collect();
    violation(
        "seccompProfile",
        Some(format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&kinds))),
    )
}

fn sysctls(spec: &Value) -> Option<Violation> {
    let names = list(&spec["securityContext"]["sysctls"]).map(|one| text(&one["name"]));
    let names: Vec<_> = names.filter(|name| !SYSCTLS.contains(&name.as_str())).collect();
    violation("forbidden sysctls", unless_empty(&names, || names.join(", ")))
}
