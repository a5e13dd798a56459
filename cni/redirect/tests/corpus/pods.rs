// SPDX-License-Identifier: Apache-2.0
//! `scenarios/pods/`: pods with the addresses of their namespace.

use std::net::IpAddr;

use protocol::pod::PodFacts;
use redirect::generate::ruleset;
use redirect::host::Environment;
use redirect::ruleset::Family;
use redirect::skip::{Exclusions, NamedPod, precheck};
use redirect::{Enrolment, enrol};
use serde::Deserialize;

use crate::restore::{Tables, difference, recorded, tables, wanted};

#[derive(Deserialize)]
struct Case {
    net: String,
    pod: PodFacts,
    outcome: Outcome,
}

#[derive(Deserialize, Debug, PartialEq)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Outcome {
    Skip,
    Error {
        message: String,
    },
    /// One listing a family.
    Rules {
        rules: Vec<Tables>,
    },
}

fn addresses(net: &str) -> Vec<IpAddr> {
    let text: &[&str] = match net {
        "v4" => &["127.0.0.1", "::1", "10.9.0.2", "fe80::1"],
        "v6" => &["127.0.0.1", "::1", "fd00:9::2", "fe80::1"],
        "v4v6" => &["127.0.0.1", "::1", "10.9.0.2", "fd00:9::2", "fe80::1"],
        other => panic!("no such network: {other}"),
    };
    text.iter().map(|text| text.parse().unwrap()).collect()
}

fn decide(case: &Case) -> Outcome {
    let metadata = &case.pod.metadata;
    let excluded = ["kube-system".to_owned(), "excluded-ns".to_owned()];
    let pod = NamedPod { name: &metadata.name, namespace: &metadata.namespace };
    if precheck(pod, Exclusions { agent_namespace: "istio-system", namespaces: &excluded }).is_some() {
        return Outcome::Skip;
    }
    match enrol(&case.pod) {
        Ok(Enrolment::Skip(_)) => Outcome::Skip,
        Err(error) => Outcome::Error { message: error.to_string() },
        Ok(Enrolment::Enrol(redirect)) => {
            let config = redirect.config_for(addresses(&case.net), &Environment::default()).unwrap();
            let ruleset = ruleset(&config).unwrap();
            let listings = [Family::V4, Family::V6].map(|family| tables(&ruleset, family));
            Outcome::Rules { rules: listings.into_iter().filter(|tables| !tables.is_empty()).collect() }
        }
    }
}

fn compare(got: &Outcome, want: &Outcome) -> Option<String> {
    let (Outcome::Rules { rules: got }, Outcome::Rules { rules: want }) = (got, want) else {
        return (got != want).then(|| format!("got {got:?}, want {want:?}"));
    };
    if got.len() != want.len() {
        return Some(format!("got {} families, want {}", got.len(), want.len()));
    }
    got.iter().zip(want).find_map(|(got, want)| difference(got, &wanted(want)))
}

/// Pods whose proxy runs as the pod does, which upstream's plugin does not look at (deviation 133). Without the pod's context they end alike.
const BY_POD: [&str; 1] = ["p2"];

/// As upstream reads it.
fn decide_like_upstream(case: &Case) -> Outcome {
    let mut pod = case.pod.clone();
    let is_by_pod = BY_POD.contains(&pod.metadata.name.as_str());
    if is_by_pod {
        pod.spec.security_context = None;
    }
    let decided = decide(&Case { net: case.net.clone(), pod, outcome: Outcome::Skip });
    assert_eq!(decided != decide(case), is_by_pod, "{}", case.pod.metadata.name);
    decided
}

#[test]
fn every_pod_ends_as_upstream_ends_it() {
    let cases: Vec<Case> = recorded("pods/random.json");
    assert_eq!(cases.len(), 119);
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let difference = compare(&decide_like_upstream(case), &case.outcome)?;
            Some(format!("{} {} {difference}", case.pod.metadata.name, case.net))
        })
        .collect();
    assert!(differences.is_empty(), "{}/119 differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn the_recorded_pods_cover_all_outcomes() {
    let cases: Vec<Case> = recorded("pods/random.json");
    let of = |wanted: fn(&Outcome) -> bool| cases.iter().filter(|case| wanted(&case.outcome)).count();
    assert_eq!(of(|outcome| matches!(outcome, Outcome::Skip)), 34);
    assert_eq!(of(|outcome| matches!(outcome, Outcome::Error { .. })), 27);
    assert_eq!(of(|outcome| matches!(outcome, Outcome::Rules { .. })), 58);
}
