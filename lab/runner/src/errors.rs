// SPDX-License-Identifier: Apache-2.0
//! Lines of level `error` in the logs of the node agents and the taint controllers. Nobody is called at night for one that a feature takes for
//! granted: it names what it expects, and every other one fails it.
//!
//! The plugin's error about a call is its answer, which steps judge; an agent repeats it in its own log.
//!
//! And crashes: the kubelet starts a container again, and what a scenario looks at may be as it should be all the same. Of a pod that is gone its log
//! alone tells, by its last words.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::steps::agent::objects;
use crate::steps::taint::controller;

/// Scope of lines that an agent has from the plugin.
const OF_PLUGIN: &str = "cni-plugin";

/// Exit codes of a crash: a panic in Rust that unwinds, and `128 + N` of SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS. SIGKILL is
/// what steps send; 2 is a panic in Go, and also a program or an option that is not there.
const CRASHES: [i32; 8] = [101, 132, 133, 134, 135, 136, 139, 159];

/// The first container of an agent or a taint controller that crashed, of those that pods tell about: each its present run and the one
/// before.
#[must_use]
pub fn crashed(pods: &[Pod]) -> Option<String> {
    let told = pods.iter().flat_map(|pod| {
        let status = pod.status.as_ref();
        let containers = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        containers.iter().map(|container| (pod.name_any(), container))
    });
    let mut ends = told.filter(|(_, one)| is_watched(&one.name)).flat_map(|(pod, one)| {
        let states = [&one.state, &one.last_state].into_iter().flatten();
        states.filter_map(move |state| Some((pod.clone(), &one.name, state.terminated.as_ref()?.exit_code)))
    });
    let (pod, container, code) = ends.find(|(_, _, code)| CRASHES.contains(code))?;
    Some(format!("container {container} of {pod} crashed with exit code {code}"))
}

fn is_watched(container: &str) -> bool {
    [objects::CONTAINER, controller::CONTAINER].contains(&container)
}

/// The first line of level `error`, or of a panic, among a cluster's (`namespace/pod container: line`) that has none of these texts in it.
#[must_use]
pub fn unexpected<'a>(lines: &'a [String], expected: &[String]) -> Option<&'a str> {
    let logged = lines.iter().filter_map(|line| {
        let (from, text) = line.split_once(": ")?;
        let container = from.rsplit(' ').next()?;
        is_watched(container).then_some(text)
    });
    let mut errors = logged.filter(|text| is_error(text));
    errors.find(|text| !expected.iter().any(|fragment| text.contains(fragment.as_str())))
}

/// True for what a runtime says of a program that ends by its own fault: Rust's, or Go's.
fn is_panic(line: &str) -> bool {
    let of_rust = line.starts_with("thread '")
        && (line.contains(" panicked at ") || line.ends_with(" has overflowed its stack"));
    of_rust
        || ["fatal runtime error: ", "panic: ", "fatal error: "].iter().any(|begin| line.starts_with(begin))
}

/// True for an error of a log in either form: as upstream writes it, separated by tabs, or JSON; and for a panic.
fn is_error(line: &str) -> bool {
    if is_panic(line) {
        return true;
    }
    if let Ok(Value::Object(line)) = serde_json::from_str(line) {
        let has = |key: &str, value: &str| line.get(key).is_some_and(|found| found == value);
        return has("level", "error") && !has("scope", OF_PLUGIN);
    }
    let mut fields = line.split('\t').skip(1);
    fields.next() == Some("error") && fields.next() != Some(OF_PLUGIN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(line: &str, expected: &[&str]) -> bool {
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        unexpected(&[line.to_owned()], &expected).is_some()
    }

    #[test]
    fn errors_of_the_agent_are_found_in_both_forms_unless_they_are_expected() {
        let text = "kube-system/istio-cni-node-1 install-cni: 2026-01-01T00:00:00Z\terror\tinstall\tdisk is full: no room";
        let json = r#"kube-system/a taint-controller: {"level":"error","time":"t","scope":"taint","msg":"disk is full"}"#;
        for line in [text, json] {
            assert!(found(line, &[]));
            assert!(found(line, &["somebody else"]));
            assert!(!found(line, &["disk is full"]));
        }
    }

    #[test]
    fn a_panic_is_an_error_of_a_log() {
        for said in [
            "thread 'main' (7) panicked at src/run.rs:1:2:",
            "panic: no map",
            "thread 'main' (7) has overflowed its stack",
            "fatal error: stack overflow",
        ] {
            assert!(found(&format!("kube-system/a install-cni: {said}"), &[]), "{said}");
        }
        assert!(!found("kube-system/a install-cni: a thread panicked at last", &[]));
    }

    #[test]
    fn a_panic_is_a_crash_and_what_steps_kill_is_none() {
        let pod = |container: &str, state: &str, code: i32| {
            let mut status =
                json!({ "name": container, "image": "", "imageID": "", "ready": true, "restartCount": 1 });
            status[state] = json!({ "terminated": { "exitCode": code } });
            let pod = json!({ "metadata": { "name": "a" }, "status": { "containerStatuses": [status] } });
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let wrong = crashed(&[pod("install-cni", "lastState", 134)]);
        assert_eq!(wrong.as_deref(), Some("container install-cni of a crashed with exit code 134"));
        assert!(crashed(&[pod("install-cni", "state", 101)]).is_some());
        for none in
            [pod("install-cni", "lastState", 137), pod("install-cni", "state", 0), pod("app", "state", 101)]
        {
            assert_eq!(crashed(&[none]), None);
        }
    }

    #[test]
    fn other_levels_other_containers_and_what_the_plugin_said_are_none() {
        for line in [
            "kube-system/a install-cni: 2026-01-01T00:00:00Z\twarn\tinstall\terror",
            "shop/cart app: 2026-01-01T00:00:00Z\terror\tapp\tno",
            "kube-system/a install-cni: 2026-01-01T00:00:00Z\terror\tcni-plugin\tcall failed",
            r#"kube-system/a install-cni: {"level":"info","msg":"error"}"#,
        ] {
            assert!(!found(line, &[]), "{line}");
        }
    }
}
