// SPDX-License-Identifier: Apache-2.0
//! The dashboard and the alert rules ask for what the agent has: each metric, label and label value in them is one that a scrape of a fresh
//! agent shows, each metric is in one of the two, and each alert has its runbook.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its own data has to stop")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use agent::metrics::{Exposition, Metrics};
use serde_json::Value;

/// Metrics that are in neither, each with the reason.
const NOT_SHOWN: [(&str, &str); 6] = [
    ("millrace_tainted_nodes", "new nodes have it for a while; other metrics tell why one keeps it"),
    ("millrace_build_info", "asked for during a rollout, by hand"),
    ("process_cpu_seconds_total", "dashboards for any process have it"),
    ("process_resident_memory_bytes", "dashboards for any process have it"),
    ("process_open_fds", "dashboards for any process have it"),
    ("process_start_time_seconds", "dashboards for any process have it"),
];
/// Labels that the scraper adds.
const SCRAPERS: [&str; 2] = ["instance", "le"];
/// Labels with an open set of values.
const OPEN: [&str; 1] = ["key"];

/// Labels with their values; none where they are open.
type Labels = &'static [(&'static str, &'static [&'static str])];

/// Metrics of kube-state-metrics (docs/metrics of its release 2.13), as far as used: an absent agent has none.
const OF_KUBE_STATE: [(&str, Labels); 5] = [
    (
        "kube_pod_info",
        &[
            ("node", &[]),
            ("namespace", &[]),
            ("pod", &[]),
            ("created_by_kind", &["DaemonSet"]),
            ("created_by_name", &["istio-cni-node"]),
        ],
    ),
    (
        "kube_pod_status_ready",
        &[("namespace", &[]), ("pod", &[]), ("condition", &["true", "false", "unknown"])],
    ),
    (
        "kube_daemonset_status_desired_number_scheduled",
        &[("namespace", &[]), ("daemonset", &["istio-cni-node"])],
    ),
    ("kube_daemonset_status_number_ready", &[("namespace", &[]), ("daemonset", &["istio-cni-node"])]),
    (
        "kube_deployment_status_replicas_available",
        &[("namespace", &[]), ("deployment", &["istio-cni-taint"])],
    ),
];

fn observe(file: &str) -> String {
    read(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("observe").join(file))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Samples of a fresh agent: name, then label, then values.
type Samples = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

fn samples() -> Samples {
    let mut samples = Samples::new();
    let scraped = [Metrics::default(), Metrics::of_controller()];
    let text = scraped.map(|metrics| metrics.scrape(Exposition::Prometheus).unwrap()).concat();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels_of = samples.entry(name.to_owned()).or_default();
        for label in labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty()) {
            let (key, value) = label.split_once('=').unwrap();
            labels_of.entry(key.to_owned()).or_default().insert(value.trim_matches('"').to_owned());
        }
    }
    samples
}

/// The same, with kube-state-metrics.
fn known() -> Samples {
    let mut all = samples();
    for (name, labels) in OF_KUBE_STATE {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
        let labels = labels.iter().map(|(label, of)| ((*label).to_owned(), values(of)));
        all.insert(name.to_owned(), labels.collect());
    }
    all
}

fn expressions() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&observe("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut all: Vec<String> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    all.extend(rules().iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()));
    assert!(all.len() > 20, "{}", all.len());
    all
}

fn rules() -> Vec<Value> {
    let file: Value = serde_saphyr::from_str(&observe("alerts.yaml")).unwrap();
    file["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// The selectors of an expression: each metric's name, with what is in its braces. Everything that has our prefix is one.
fn selectors(expression: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find(is_word) {
        let word: String = rest[start..].chars().take_while(|char| is_word(*char)).collect();
        rest = &rest[start + word.len()..];
        if ["istio_cni_", "millrace_", "kube_"].iter().any(|prefix| word.starts_with(prefix)) {
            let braces = rest.strip_prefix('{').and_then(|inside| inside.split_once('}'));
            found.push((word, braces.map(|(inside, _)| inside.to_owned()).unwrap_or_default()));
        }
    }
    found
}

/// Errors of an expression.
fn complaints(expression: &str, samples: &Samples) -> Vec<String> {
    let mut complaints = Vec::new();
    let selectors = selectors(expression);
    if selectors.is_empty() {
        complaints.push("it asks for no metric".to_owned());
    }
    let mut known = SCRAPERS.map(str::to_owned).to_vec();
    for (name, matchers) in &selectors {
        let Some(labels) = samples.get(name) else {
            complaints.push(format!("there is no {name}"));
            continue;
        };
        known.extend(labels.keys().cloned());
        for matcher in matchers.split(',').filter(|matcher| !matcher.is_empty()) {
            let end = matcher.find(|char| !is_word(char)).unwrap();
            let (label, value) =
                (&matcher[..end], matcher[end..].trim_start_matches(['=', '!', '~']).trim_matches('"'));
            if SCRAPERS.contains(&label) {
                continue;
            }
            let Some(values) = labels.get(label) else {
                complaints.push(format!("{name} has no label {label}"));
                continue;
            };
            let strange = value.split('|').filter(|value| !OPEN.contains(&label) && !values.contains(*value));
            complaints.extend(strange.map(|value| format!("{label} of {name} is never {value}")));
        }
    }
    let groups = ["by (", "on ("].map(|word| expression.split(word).skip(1));
    for group in groups.into_iter().flatten() {
        let labels = group.split(')').next().unwrap().split(',').map(str::trim);
        let strange = labels.filter(|label| !known.iter().any(|other| other == label));
        complaints.extend(strange.map(|label| format!("nothing has the label {label}")));
    }
    complaints
}

#[test]
fn dashboard_and_alerts_ask_for_what_there_is() {
    let samples = known();
    for expression in expressions() {
        assert_eq!(complaints(&expression, &samples), Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn the_check_sees_a_wrong_name_label_and_value() {
    let samples = known();
    for (expression, complaint) in [
        ("millrace_fights_total", "there is no millrace_fights_total"),
        ("istio_cni_installs", "there is no istio_cni_installs"),
        ("istio_cni_installs_total{outcome=\"SUCCESS\"}", "istio_cni_installs_total has no label outcome"),
        (
            "istio_cni_installs_total{result=\"success\"}",
            "result of istio_cni_installs_total is never success",
        ),
        ("sum by (node) (millrace_unredirected_pods)", "nothing has the label node"),
        ("up", "it asks for no metric"),
        ("kube_pod_info{created_by=\"x\"}", "kube_pod_info has no label created_by"),
        ("kube_pod_status_ready unless on (host) kube_pod_info", "nothing has the label host"),
    ] {
        assert_eq!(complaints(expression, &samples), [complaint], "{expression}");
    }
}

#[test]
fn every_metric_is_shown_or_has_a_reason() {
    let base = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name).to_owned()
    };
    let shown: BTreeSet<String> =
        expressions().iter().flat_map(|text| selectors(text)).map(|(name, _)| base(&name)).collect();
    for name in samples().keys().map(|name| base(name)) {
        let excused = NOT_SHOWN.iter().any(|(other, _)| *other == name);
        assert!(shown.contains(&name) != excused, "{name}: shown, or listed with a reason, and not both");
    }
}

#[test]
fn every_metric_is_in_the_list_for_operators() {
    let text = read(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md"));
    for name in samples().keys().filter(|name| !name.ends_with("_bucket") && !name.ends_with("_sum")) {
        let name = name.trim_end_matches("_count");
        assert!(text.contains(&format!("\n| `{name}` |")), "{name}");
    }
}

#[test]
fn a_node_without_an_agent_is_told_by_somebody_else_under_the_names_that_are_rendered() {
    let user =
        serde_json::json!({ "image": "example.com/mesh/install-cni:1", "taint": { "mode": "readiness" } });
    let values = manifests::Values::resolve(&user, &manifests::Context::default()).unwrap();
    let objects = manifests::render(&values);
    let name = |kind: &str| {
        let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
        format!("\\\"{}\\\"", object["metadata"]["name"].as_str().unwrap())
    };
    let rule =
        |alert: &str| rules().into_iter().find(|rule| rule["alert"] == alert).unwrap()["expr"].to_string();
    for alert in ["MillraceNodeWithoutAgent", "MillraceAgentsMissing"] {
        let expression = rule(alert);
        let own = selectors(&expression).into_iter().filter(|(metric, _)| !metric.starts_with("kube_"));
        assert_eq!(own.count(), 0, "{alert} asks the agent that is not there");
        assert!(expression.contains(&name("DaemonSet")), "{expression}");
    }
    let leaderless = rule("MillraceTaintLeaderless");
    assert!(leaderless.contains(&format!("available{{deployment={}}}", name("Deployment"))), "{leaderless}");
}

#[test]
fn every_alert_has_a_runbook_that_exists() {
    let text = read(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md"));
    let headings =
        text.lines().filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim()));
    let anchors: BTreeSet<String> =
        headings.map(|heading| heading.to_lowercase().replace(' ', "-")).collect();
    let rules = rules();
    assert!(rules.len() > 5);
    for rule in rules {
        let runbook = rule["annotations"]["runbook"].as_str().unwrap();
        let anchor = runbook.strip_prefix("docs/operations.md#").unwrap();
        assert!(anchors.contains(anchor), "{}: {runbook} is not among {anchors:?}", rule["alert"]);
        assert!(
            rule["labels"]["severity"].is_string() && rule["annotations"]["summary"].is_string(),
            "{rule}"
        );
    }
}
