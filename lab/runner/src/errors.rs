// SPDX-License-Identifier: Apache-2.0
//! Lines of level `error` in the logs of the node agents and the taint controllers. Nobody is called at night for one that a feature takes for
//! granted: it names what it expects, and every other one fails it.
//!
//! The plugin's error about a call is its answer, which steps judge; an agent repeats it in its own log.
//!
//! And crashes: the kubelet starts a container again, and what a scenario looks at may be as it should be all the same. Of a pod that is gone its log
//! alone tells, by its last words.

use std::collections::BTreeMap;

use cucumber::gherkin;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::ResourceExt as _;
use serde_json::Value;

use crate::product::excuses::is_panic;
use crate::steps::agent::objects;
use crate::steps::taint::controller;

/// Scope of lines that an agent has from the plugin.
const OF_PLUGIN: &str = "cni-plugin";

/// Exit codes of a crash: a panic in Rust that unwinds, and `128 + N` of SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS. SIGKILL is
/// what steps send, unless the kernel's reason is beside it; 2 is a panic in Go, which its log tells, and also a program or an option that is not there.
const CRASHES: [i32; 8] = [101, 132, 133, 134, 135, 136, 139, 159];

/// The first container that crashed of an agent's pod or a taint controller's, init containers included: each its present run and the one before.
#[must_use]
pub fn crashed(pods: &[Pod]) -> Option<String> {
    let statuses = pods.iter().filter_map(|pod| Some((pod.name_any(), pod.status.as_ref()?)));
    let containers = statuses.flat_map(|(pod, status)| {
        let main = status.container_statuses.iter().flatten();
        let is_its = main.clone().any(|one| is_watched(&one.name));
        let all = main.chain(status.init_container_statuses.iter().flatten());
        all.filter(move |_| is_its).map(move |one| (pod.clone(), one))
    });
    let mut ends = containers.flat_map(|(pod, one)| {
        let states = [&one.state, &one.last_state].into_iter().flatten();
        states.filter_map(move |state| Some((pod.clone(), &one.name, state.terminated.as_ref()?)))
    });
    let (pod, container, end) = ends.find(|(_, _, end)| is_crash(end))?;
    let reason = end.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some(format!("container {container} of {pod} crashed with exit code {}{reason}", end.exit_code))
}

fn is_crash(end: &ContainerStateTerminated) -> bool {
    CRASHES.contains(&end.exit_code) || end.reason.as_deref() == Some("OOMKilled")
}

fn is_watched(container: &str) -> bool {
    [objects::CONTAINER, controller::CONTAINER].contains(&container)
}

/// Errors in the logs of a scenario.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged<'a> {
    /// The first that nobody expects.
    pub unexpected: Option<&'a str>,
    /// Those that only the product's description excuses, by its text.
    pub excused: BTreeMap<&'a str, Vec<&'a str>>,
}

/// Judges the lines of a cluster (`namespace/pod container: line`): of level `error`, and of panics, which nothing excuses. The feature expects a
/// text anywhere in a line, the product's description excuses by a text in the message.
#[must_use]
pub fn judge<'a>(lines: &'a [String], expected: &[String], excuses: &'a [String]) -> Judged<'a> {
    let logged = lines.iter().filter_map(|line| {
        let (from, text) = line.split_once(": ")?;
        let container = from.rsplit(' ').next()?;
        is_watched(container).then_some(text)
    });
    let mut judged = Judged::default();
    for line in logged.filter(|line| is_error(line)) {
        let is_expected = || expected.iter().any(|fragment| line.contains(fragment.as_str()));
        let is_panic = is_panic(line);
        if !is_panic && is_expected() {
            continue;
        }
        let message = message(line);
        match excuses.iter().find(|excuse| !is_panic && message.contains(excuse.as_str())) {
            Some(excuse) => judged.excused.entry(excuse.as_str()).or_default().push(line),
            None => judged.unexpected = judged.unexpected.or(Some(line)),
        }
    }
    judged
}

/// Ends of the phrases of steps that expect an error with the text behind them.
const EXPECTS: [&str; 5] = [
    "its log may have the error ",
    "the node agent says ",
    "the node agent has ever said ",
    " is not ready: ",
    "the taint controller says ",
];

/// Texts of errors that a scenario's steps expect, whether they have run or not.
#[must_use]
pub fn announced(scenario: &gherkin::Scenario) -> Vec<String> {
    let quoted = |step: &gherkin::Step| {
        let (_, text) = EXPECTS.iter().find_map(|phrase| step.value.split_once(phrase))?;
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        Some([text.to_owned(), text.replace('\'', "\"")])
    };
    scenario.steps.iter().filter_map(quoted).flatten().collect()
}

/// Values of a line beside time, level and scope.
fn message(line: &str) -> String {
    if let Ok(Value::Object(fields)) = serde_json::from_str(line) {
        let said = fields.iter().filter(|(key, _)| !["level", "time", "scope"].contains(&key.as_str()));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        return said.map(|(_, value)| text(value)).collect::<Vec<_>>().join("\n");
    }
    line.splitn(3, '\t').nth(2).unwrap_or_default().to_owned()
}

/// Levels of a log that are errors, in any case.
const LEVELS: [&str; 9] = ["error", "err", "fatal", "critical", "crit", "panic", "dpanic", "alert", "emerg"];

fn is_error_level(level: &str) -> bool {
    LEVELS.iter().any(|known| level.eq_ignore_ascii_case(known))
}

/// True for klog's header of an error or a fatal error: `E1129 12:00:00.000000`.
fn is_klog_error(line: &str) -> bool {
    let digits = |part: &str| part.len() == 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    let header = line.strip_prefix(['E', 'F']).and_then(|rest| rest.split_once(' '));
    header.is_some_and(|(date, rest)| digits(date) && rest.as_bytes().get(2) == Some(&b':'))
}

/// True for an error of a log: as upstream writes it, separated by tabs, as JSON or as klog; and for a panic.
fn is_error(line: &str) -> bool {
    if is_panic(line) || is_klog_error(line) {
        return true;
    }
    if let Ok(Value::Object(line)) = serde_json::from_str(line) {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
        return is_error_level(text("level")) && text("scope") != OF_PLUGIN;
    }
    let mut fields = line.split('\t').skip(1);
    fields.next().is_some_and(is_error_level) && fields.next() != Some(OF_PLUGIN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(line: &str, expected: &[&str]) -> bool {
        judge(&[line.to_owned()], &strings(expected), &[]).unexpected.is_some()
    }

    fn strings(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
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
            let line = format!("kube-system/a install-cni: {said}");
            assert!(found(&line, &[]), "{said}");
            assert!(found(&line, &[said]), "no feature expects a panic: {said}");
            let excused = judge(&[line], &[], &strings(&[said])).unexpected.is_none();
            assert!(!excused, "no description excuses a panic: {said}");
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
    fn each_spelling_of_an_error_is_one() {
        for said in [
            "2026-01-01T00:00:00Z\tfatal\tinstall\tno",
            r#"{"level":"ERROR","msg":"no"}"#,
            r#"{"level":"dpanic","msg":"no"}"#,
            "E1129 12:00:00.000000       1 run.go:72] no",
        ] {
            assert!(found(&format!("kube-system/a install-cni: {said}"), &[]), "{said}");
        }
        for said in ["I1129 12:00:00.000000       1 run.go:72] no", "Every 12:00 an error"] {
            assert!(!found(&format!("kube-system/a install-cni: {said}"), &[]), "{said}");
        }
    }

    #[test]
    fn an_init_container_and_an_oom_kill_are_crashes() {
        let pod = |init: Value, main: Value| {
            let status = |name: &str, end: &Value| {
                json!({
                    "name": name, "image": "", "imageID": "", "ready": true, "restartCount": 1,
                    "lastState": { "terminated": end },
                })
            };
            let statuses = (status("copy", &init), status("install-cni", &main));
            let pod = json!({ "metadata": { "name": "a" }, "status": {
                "initContainerStatuses": [statuses.0], "containerStatuses": [statuses.1],
            }});
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        let (good, killed) = (json!({ "exitCode": 0 }), json!({ "exitCode": 137 }));
        assert_eq!(crashed(&[pod(good.clone(), killed)]), None);
        let oom = json!({ "exitCode": 137, "reason": "OOMKilled" });
        let told = crashed(&[pod(good.clone(), oom)]).unwrap();
        assert_eq!(told, "container install-cni of a crashed with exit code 137 (OOMKilled)");
        assert!(crashed(&[pod(json!({ "exitCode": 134 }), good.clone())]).is_some());
        // Go's panic is told by its log: 2 is a usage error, too.
        assert_eq!(crashed(&[pod(good, json!({ "exitCode": 2 }))]), None);
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

    #[test]
    fn a_description_excuses_by_the_message_and_each_line_is_named() {
        let lines = strings(&[
            "kube-system/a install-cni: 2026-01-01T00:00:00Z\terror\tinstall\tretrying (retry count 1)",
            "kube-system/a install-cni: 2026-01-01T00:00:00Z\terror\tinstall\tretrying (retry count 2)",
            r#"kube-system/a install-cni: {"level":"error","time":"t","scope":"taint-controller","msg":"lost its lease"}"#,
        ]);
        let (retry, lease) = ("retrying (retry count".to_owned(), "lost its lease".to_owned());
        let excuses = [retry.clone(), lease];
        let judged = judge(&lines, &[], &excuses);
        assert_eq!(judged.unexpected, None);
        let counts: Vec<_> = judged.excused.iter().map(|(text, lines)| (*text, lines.len())).collect();
        assert_eq!(counts, [("lost its lease", 1), ("retrying (retry count", 2)]);
        assert_eq!(
            judge(&lines, &excuses, &[]),
            Judged::default(),
            "what the feature expects needs no excuse"
        );
        let around = strings(&["2026-01-01T00:00:00Z", "taint-controller", r#""level":"error""#]);
        assert!(judge(&lines, &[retry], &around).unexpected.is_some_and(|line| line.contains("lease")));
    }

    #[test]
    fn a_scenario_announces_the_errors_of_all_of_its_steps() {
        let text = "Feature: x\n\n  Scenario: x\n    Given its log may have the error \"disk is full\"\n    \
                    When x\n    Then the node agent is not ready: \"no 'entry'\"\n    And it answers \"y\"\n";
        let feature = gherkin::Feature::parse(text, gherkin::GherkinEnv::default()).unwrap();
        assert_eq!(
            announced(&feature.scenarios[0]),
            ["disk is full", "disk is full", "no 'entry'", "no \"entry\""]
        );
    }
}
