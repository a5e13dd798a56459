// SPDX-License-Identifier: Apache-2.0
//! Patterns of features that look at nothing. Over the steps of a scenario with its background's; a test applies them to the catalogue.

use std::sync::LazyLock;

use cucumber::codegen::Regex;
use cucumber::gherkin::{Step, StepType};

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap()
}

/// Steps that an entry of a log, an event or a request fulfils: the same one fulfils them twice.
static RECORDS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"^(the (node agent|taint controller) says ".*|an event "|the node agent tells of it: )"#)
});

/// Steps that demand an absence.
static ABSENCES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(^(the configuration ".*|"/.*" of the node) is not there|tells of it no |has written pods' "|does not get the label|^it stays|^the node agent never said|^no event says)"#,
    )
});

/// Absences that look at all that was recorded so far, and cannot name a time.
static SO_FAR: LazyLock<Regex> = LazyLock::new(|| pattern("^(the node agent never said|no event says)"));

/// A time for which something holds.
static WINDOW: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bfor \d+ (s|ms)$"));

/// Steps that start a pod.
static STARTS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"^("[^"]+" starts|it runs|it starts .*|it came up .*)$"#));

/// Steps that start the pods that they send from, unless another one did.
static SENDS: LazyLock<Regex> = LazyLock::new(|| pattern("^(TCP|UDP) from "));

const PLAIN_LOOK: &str = "the node's runtime is \"cri-dockerd\"";
const DEPLOYED: [&str; 2] = ["the node agent is ready", "the node agent is deployed"];
const LOADED: &str = "the runtime has loaded ";

fn is(pattern: &Regex, step: &Step) -> bool {
    pattern.is_match(&step.value)
}

/// Mistakes of a scenario, a line each.
fn mistakes(steps: &[&Step]) -> Vec<String> {
    [said_twice(steps), without_time(steps), without_event(steps), not_loaded(steps)].concat()
}

/// The same record twice without an action between them: the second step asks nothing.
fn said_twice(steps: &[&Step]) -> Vec<String> {
    let mut seen: Vec<&str> = Vec::new();
    let mut mistakes = Vec::new();
    for step in steps {
        if step.ty == StepType::When {
            seen.clear();
        } else if is(&RECORDS, step) {
            if seen.contains(&step.value.as_str()) {
                mistakes.push(format!("asks nothing, for the step above is the same: {}", step.value));
            }
            seen.push(&step.value);
        }
    }
    mistakes
}

/// An absence that holds for a moment.
fn without_time(steps: &[&Step]) -> Vec<String> {
    let absences = steps.iter().filter(|step| step.ty == StepType::Then && is(&ABSENCES, step));
    let untimed = absences.filter(|step| !is(&SO_FAR, step) && !is(&WINDOW, step));
    untimed.map(|step| format!("does not name the time for which it holds: {}", step.value)).collect()
}

/// An absence before anything has happened.
fn without_event(steps: &[&Step]) -> Vec<String> {
    let mut happened = false;
    let mut mistakes = Vec::new();
    for step in steps {
        let is_absence = step.ty == StepType::Then && is(&ABSENCES, step);
        if is_absence && !happened {
            mistakes.push(format!("follows no event: {}", step.value));
        }
        happened |= step.ty != StepType::Given && !is_absence || DEPLOYED.contains(&step.value.as_str());
    }
    mistakes
}

/// A pod that starts while a runtime that looks every 5 s may not have loaded the list yet: the plugin is not called.
fn not_loaded(steps: &[&Step]) -> Vec<String> {
    if !steps.iter().any(|step| step.value == PLAIN_LOOK) {
        return Vec::new();
    }
    let deployed = steps.iter().position(|step| DEPLOYED.contains(&step.value.as_str()));
    let deployed = deployed.unwrap_or(steps.len());
    let has_started = steps.iter().take(deployed).any(|step| is(&STARTS, step));
    let mut after = steps.iter().skip(deployed).take_while(|step| !step.value.starts_with(LOADED));
    let first = after.find(|step| is(&STARTS, step) || !has_started && is(&SENDS, step));
    let mistake = |step: &&&Step| {
        format!("starts a pod before `{LOADED}…`, and cri-dockerd looks every 5 s: {}", step.value)
    };
    first.as_ref().map(mistake).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::cli::Selection;
    use crate::locate::Workspace;

    #[test]
    fn no_scenario_of_the_catalogue_looks_at_nothing() {
        let catalogue = Catalogue::read(&Workspace::find().unwrap().root, &Selection::default()).unwrap();
        let mut found = Vec::new();
        for feature in &catalogue.features {
            for scenario in &feature.scenarios {
                let background = feature.background.iter().flat_map(|background| &background.steps);
                let steps: Vec<_> = background.chain(&scenario.steps).collect();
                let id = catalogue.find(feature, scenario).map(|entry| entry.id.clone()).unwrap();
                found.extend(mistakes(&steps).into_iter().map(|mistake| format!("{id}: {mistake}")));
            }
        }
        assert!(found.is_empty(), "{} mistakes:\n{}", found.len(), found.join("\n"));
    }

    fn judged(lines: &[&str]) -> Vec<String> {
        let text = format!("Feature: f\n\n  Scenario: s\n    {}\n", lines.join("\n    "));
        let feature =
            cucumber::gherkin::Feature::parse(text, cucumber::gherkin::GherkinEnv::default()).unwrap();
        mistakes(&feature.scenarios[0].steps.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_same_line_of_a_log_is_waited_for_once_an_action() {
        let says = r#"Then the node agent says "installed""#;
        assert_eq!(judged(&[says, says]).len(), 1);
        assert!(judged(&[says, "When the node agent is killed", says]).is_empty());
    }

    #[test]
    fn an_absence_names_its_time_and_follows_an_event() {
        let (ready, gone) =
            ("Then the node agent becomes ready within 10 s", r#"And the configuration "a" is not there"#);
        let for_2_s = format!("{gone} for 2 s");
        assert_eq!(judged(&[ready, gone]).len(), 1);
        assert!(judged(&[ready, &for_2_s]).is_empty());
        let begin = for_2_s.replace("And", "Then");
        assert_eq!(judged(&[&begin, ready]).len(), 1);
        assert!(judged(&["When the DaemonSet is deleted", &begin]).is_empty());
        assert!(judged(&[ready, r#"And the node agent never said "x""#]).is_empty());
        assert_eq!(judged(&[r#"Then the node agent never said "x""#]).len(), 1);
    }

    #[test]
    fn a_pod_waits_for_a_runtime_that_looks_now_and_then() {
        let (runtime, ready) =
            (r#"Given the node's runtime is "cri-dockerd""#, "And the node agent is ready");
        let (loaded, starts) = (r#"And the runtime has loaded "a" within 9 ms"#, r#"When "cart" starts"#);
        assert_eq!(judged(&[runtime, ready, starts]).len(), 1);
        assert!(judged(&[runtime, ready, loaded, starts]).is_empty());
        assert!(judged(&[runtime, starts]).is_empty(), "the lab has installed the plugin");
        assert!(judged(&[ready, starts]).is_empty());
    }
}
