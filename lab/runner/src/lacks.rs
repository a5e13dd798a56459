// SPDX-License-Identifier: Apache-2.0
//! Optional tools that this machine lacks, and how to install them. Such a lack is listed and leaves the exit code alone, unless the run is
//! strict; any other unmet need makes the run partial, and so does an optional tool that is there and fails.

use std::fmt::Write as _;

use cluster::Probe;
use serde::{Deserialize, Serialize};

use crate::catalogue;
use crate::verdict::{Record, Verdict};

/// Optional tools, by the tag of the scenarios that need them or by name, and how to install them: a line for each way.
const OPTIONAL: [(&str, &[&str]); 2] = [
    (
        "iptables-tools",
        &[
            "Debian, Ubuntu: apt-get install iptables",
            "Fedora: dnf install iptables-nft iptables-legacy",
            "Alpine: apk add iptables iptables-legacy",
        ],
    ),
    (MUSL, &["rustup target add ARCH-unknown-linux-musl"]),
];

/// Placeholder for the machine's architecture in [`OPTIONAL`].
const ARCH: &str = "ARCH";

/// The libc that production binaries are linked with where its target is installed.
const MUSL: &str = "musl";

/// A missing optional tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lack {
    /// Tag without `@`, or name.
    pub what: String,
    /// Evidence.
    pub evidence: String,
    /// Instructions to install it: a line for each way.
    pub get: Vec<String>,
    /// Number of selected scenarios that did not run because of it.
    pub scenarios: usize,
}

impl Lack {
    fn of(what: &str, evidence: &str, scenarios: usize) -> Self {
        let known = OPTIONAL.iter().find(|(name, _)| *name == what);
        let get = known.into_iter().flat_map(|(_, get)| *get);
        let get = get.map(|line| line.replace(ARCH, std::env::consts::ARCH)).collect();
        Self { what: what.to_owned(), evidence: evidence.to_owned(), get, scenarios }
    }
}

/// True if the tag names an optional tool.
#[must_use]
pub fn is_optional(need: &str) -> bool {
    OPTIONAL.iter().any(|(name, _)| *name == need)
}

/// True for an optional tool that is not there. One that is there and fails is the machine's fault.
#[must_use]
pub fn is_excusable(probe: &Probe) -> bool {
    is_optional(&probe.need) && !probe.met && probe.absent
}

/// Unmet need of scenarios with these tags. Mandatory ones come before optional ones.
#[must_use]
pub fn unmet<'a>(tags: &[String], probes: &'a [Probe]) -> Option<&'a Probe> {
    catalogue::needs(tags)
        .filter_map(|need| probes.iter().find(|probe| probe.need == need && !probe.met))
        .min_by_key(|probe| is_excusable(probe))
}

/// True if a scenario did not run only because of an optional tool.
#[must_use]
pub fn is_excused(record: &Record, probes: &[Probe]) -> bool {
    record.verdict == Verdict::Inapplicable && unmet(&record.tags, probes).is_some_and(is_excusable)
}

/// Number of scenarios that did not run only because of an optional tool.
pub fn excused<'a>(records: impl Iterator<Item = &'a Record>, probes: &[Probe]) -> usize {
    records.filter(|record| is_excused(record, probes)).count()
}

/// Missing optional tools of the machine.
#[must_use]
pub fn of_machine(probes: &[Probe], without_musl: Option<&str>) -> Vec<Lack> {
    let unmet = probes.iter().filter(|probe| is_excusable(probe));
    let unmet = unmet.map(|probe| Lack::of(&probe.need, &probe.evidence, 0));
    unmet.chain(without_musl.map(|evidence| Lack::of(MUSL, evidence, 0))).collect()
}

/// Missing optional tools that affected a run: a scenario did not run, or the binaries were built without.
#[must_use]
pub fn of_run(probes: &[Probe], records: &[Record], without_musl: Option<&str>) -> Vec<Lack> {
    let excused = || records.iter().filter(|record| is_excused(record, probes));
    let by =
        |record: &&Record, what: &str| unmet(&record.tags, probes).is_some_and(|probe| probe.need == what);
    let mut lacks = of_machine(probes, without_musl);
    for lack in &mut lacks {
        lack.scenarios = excused().filter(|record| by(record, &lack.what)).count();
    }
    lacks.retain(|lack| lack.scenarios > 0 || lack.what == MUSL);
    lacks
}

/// The list as text; empty if nothing is missing.
#[must_use]
pub fn render(lacks: &[Lack]) -> String {
    let mut text = String::new();
    for Lack { what, evidence, get, scenarios } in lacks {
        let kept = if *scenarios > 0 { format!("{scenarios} not run: ") } else { String::new() };
        let _ = write!(text, "\n  {what}: {kept}{evidence}");
        for line in get {
            let _ = write!(text, "\n    {line}");
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("lacking here, and optional (--strict makes it exit code 4):{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes() -> Vec<Probe> {
        let probe = |need: &str, met, absent| Probe {
            need: need.into(),
            met,
            evidence: format!("no {need} here"),
            absent,
        };
        vec![
            probe("real-kernel", false, false),
            probe("ipv6", true, false),
            probe("iptables-tools", false, true),
        ]
    }

    fn tags(tags: &[&str]) -> Vec<String> {
        tags.iter().map(|tag| (*tag).to_owned()).collect()
    }

    #[test]
    fn what_a_run_needs_comes_before_what_it_can_do_without() {
        let need = |words: &[&str]| unmet(&tags(words), &probes()).map(|probe| probe.need.clone());
        assert_eq!(need(&["iptables-tools", "real-kernel"]).as_deref(), Some("real-kernel"));
        assert_eq!(need(&["ipv6", "iptables-tools"]).as_deref(), Some("iptables-tools"));
        assert_eq!(need(&["ipv6", "mutant:x"]), None);
    }

    #[test]
    fn an_optional_tool_that_is_there_and_fails_excuses_nothing() {
        let record: Record = serde_json::from_value(serde_json::json!({
            "id": "g/f/x", "group": "g", "feature": "F", "name": "n", "file": "features/g/f.feature", "line": 3,
            "tags": ["iptables-tools"], "verdict": "inapplicable", "reason": "why", "seconds": 0.0,
        }))
        .unwrap();
        let mut probes = probes();
        assert!(is_excused(&record, &probes) && of_machine(&probes, None).len() == 1);
        probes[2].absent = false;
        assert!(!is_excused(&record, &probes) && of_machine(&probes, None).is_empty());
    }

    #[test]
    fn a_list_says_what_is_lacking_and_how_to_get_it() {
        let lacks = of_machine(&probes(), Some("static glibc"));
        let names: Vec<_> = lacks.iter().map(|lack| lack.what.as_str()).collect();
        assert_eq!(names, ["iptables-tools", "musl"], "a kernel is not optional");
        let text = render(&lacks);
        for part in [
            "--strict",
            "no iptables-tools here",
            "apt-get install iptables",
            "static glibc",
            "rustup target add",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(render(&[]), "");
    }

    #[test]
    fn what_can_be_done_without_says_how_to_get_it() {
        assert!(OPTIONAL.iter().all(|(_, get)| !get.is_empty()));
        assert!(OPTIONAL.iter().all(|(name, _)| *name == MUSL || crate::catalogue::NEEDS.contains(name)));
    }
}
