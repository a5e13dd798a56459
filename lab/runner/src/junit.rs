// SPDX-License-Identifier: Apache-2.0
//! The report as JUnit XML, for dashboards that know nothing else. A verdict that JUnit has no word for becomes its
//! nearest one, with the verdict's own word in the message. Only a run that ends with 0 has neither a failure nor an error.

use std::fmt::Write as _;
use std::path::Path;

use crate::directory;
use crate::exit::Exit;
use crate::lacks::{self, Lack};
use crate::plan::Binary;
use crate::report::Report;
use crate::suite::Checkout;
use crate::verdict::{Class, Record, Verdict};

/// Writes `junit.xml`.
pub fn write(report: &Report, dir: &Path) -> anyhow::Result<()> {
    directory::write(dir, "junit.xml", render(report).as_bytes())
}

fn render(report: &Report) -> String {
    let elements: Vec<_> = report.scenarios.iter().map(|record| element(record, report)).collect();
    let count = |element: &str| elements.iter().filter(|found| **found == Some(element)).count();
    // Whoever reads JUnit knows colours alone: only what ends with 0 is green.
    let is_red = count(FAILURE) + count(ERROR) > 0;
    let whole = (report.exit != Exit::Ok.code() && !is_red).then(|| whole(report.exit));
    let more = usize::from(whole.is_some());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuites name=\"cnilab\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">\n\
         <testsuite name=\"cnilab\" timestamp=\"{began}\" hostname=\"{host}\" tests=\"{0}\" failures=\"{1}\" errors=\"{2}\" skipped=\"{3}\" time=\"{4:.3}\">",
        elements.len() + more,
        count(FAILURE),
        count(ERROR) + more,
        count(SKIPPED),
        report.seconds,
        began = escape(&report.header.began),
        host = escape(&report.header.machine.host),
    );
    let properties: Vec<_> = about(report).chain(lacks(&report.lacks)).chain(excused(report)).collect();
    render_properties(&mut xml, &properties);
    xml.extend(whole);
    for (record, element) in report.scenarios.iter().zip(elements) {
        render_case(&mut xml, record, element);
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

const FAILURE: &str = "failure";
const ERROR: &str = "error";
const SKIPPED: &str = "skipped";

/// The element of a scenario that did not pass. What an interruption left out, and what this machine could not run for want of more than an
/// optional tool, are errors.
fn element(record: &Record, report: &Report) -> Option<&'static str> {
    let is_excused = || report.as_parts("").iter().any(|part| lacks::is_excused(record, &part.header.probes));
    match record.verdict {
        Verdict::Pass => None,
        Verdict::Fail | Verdict::Flaky => Some(FAILURE),
        Verdict::Inconclusive | Verdict::Skipped => Some(ERROR),
        Verdict::Inapplicable if record.class == Some(Class::Machine) && !is_excused() => Some(ERROR),
        Verdict::Inapplicable | Verdict::Unsupported => Some(SKIPPED),
    }
}

/// A case of a run that is not green although none of its scenarios is red.
fn whole(exit: u8) -> String {
    let word = Exit::from_code(exit.into()).map_or("unknown", Exit::word);
    format!(
        "<testcase classname=\"cnilab\" name=\"the whole run\" time=\"0\"><error message=\"exit {exit}: {word}\"/></testcase>\n"
    )
}

/// What the run was, of what.
fn about(report: &Report) -> impl Iterator<Item = (String, String)> {
    let header = &report.header;
    let word = Exit::from_code(report.exit.into()).map_or("unknown", Exit::word);
    let selection = serde_json::to_string(&header.selection).unwrap_or_default();
    let own = [
        ("exit", format!("{} {word}", report.exit)),
        ("suite", header.suite.clone()),
        ("commit", header.checkout.as_ref().map_or(String::new(), Checkout::text)),
        ("product", format!("{} {}", header.product.name, header.product.version)),
        ("tier", header.tier.clone()),
        ("kernel", header.kernel.clone()),
        ("seed", header.seed.clone()),
        ("selection", selection),
    ];
    let digest = |binary: &Binary| (format!("sha256.{}", binary.name), binary.sha256.clone());
    own.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(header.binaries.iter().map(digest))
}

/// What the run was of and what it did not judge, as properties of the suite.
fn render_properties(xml: &mut String, properties: &[(String, String)]) {
    xml.push_str("<properties>\n");
    for (name, value) in properties {
        let _ = writeln!(xml, "<property name=\"{}\" value=\"{}\"/>", escape(name), escape(value));
    }
    xml.push_str("</properties>\n");
}

/// Missing tools of the machine, with how to install them.
fn lacks(lacks: &[Lack]) -> impl Iterator<Item = (String, String)> {
    let lack = |Lack { what, evidence, get, .. }: &Lack| {
        (format!("lacks.{what}"), format!("{evidence}\n{}", get.join("\n")))
    };
    lacks.iter().map(lack)
}

/// Errors in logs that the product's description excuses, with its reasons.
fn excused(report: &Report) -> impl Iterator<Item = (String, String)> {
    let reasons = &report.header.product.errors;
    let excused = |(text, why): (&String, &String)| {
        let lines = report.excused.get(text).copied().unwrap_or(0);
        (format!("excused.{text}"), format!("{lines} lines: {why}"))
    };
    reasons.iter().map(excused)
}

fn render_case(xml: &mut String, record: &Record, element: Option<&str>) {
    let Record { id, name, file, line, seconds, .. } = record;
    let _ = write!(
        xml,
        "<testcase classname=\"{}\" name=\"{}\" file=\"{}\" line=\"{line}\" time=\"{seconds:.3}\">",
        escape(id),
        escape(name),
        escape(file),
    );
    if let Some(element) = element {
        let class = record.class.map_or(String::new(), |class| format!(" ({})", class.word()));
        let reason = escape(record.reason.as_deref().unwrap_or_default());
        let _ = write!(xml, "<{element} message=\"{}{class}: {reason}\"/>", record.verdict.word());
    }
    if !record.notes.is_empty() {
        let _ = write!(xml, "<system-out>{}</system-out>", escape(&record.notes.join("\n")));
    }
    xml.push_str("</testcase>\n");
}

/// XML has no way at all to write most control characters, so they become a replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            control if control.is_control() => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::verdict::Totals;

    fn report(exit: Exit, scenarios: &[(&str, Option<&str>)]) -> Report {
        let record = |(verdict, class): &(&str, Option<&str>)| {
            json!({
                "id": format!("g/f/{verdict}"), "group": "g", "feature": "F", "name": "n", "file": "features/g/f.feature", "line": 3,
                "tags": ["iptables-tools"], "verdict": verdict, "reason": "why", "class": class, "seconds": 0.5,
            })
        };
        let mut header = serde_json::to_value(crate::report::tests::header()).unwrap();
        header["product"]["errors"] = json!({"retrying (retry": "it goes on"});
        header["binaries"] = json!([
            {"name": "istio-cni", "path": "/a", "version": "1", "sha256": "aa", "bytes": 1, "is_static": true},
        ]);
        header["probes"] =
            json!([{"need": "iptables-tools", "met": false, "evidence": "none", "absent": true}]);
        header["selection"]["tags"] = json!("@g");
        header["checkout"] = json!({"commit": "c0ffee", "is_dirty": true});
        header["began"] = json!("2026-11-30T08:00:00.000Z");
        header["machine"]["host"] = json!("build-7");
        let scenarios: Vec<_> = scenarios.iter().map(record).collect();
        serde_json::from_value(json!({
            "schema": 0, "header": header, "totals": Totals::default(), "back_ends": {}, "exit": exit.code(), "strict": false,
            "lacks": [], "excused": {"retrying (retry": 3}, "seconds": 2.5, "scenarios": scenarios, "integrity": "",
        }))
        .unwrap()
    }

    /// Numbers of tests, failures, errors and skipped ones.
    fn counts(report: &Report) -> [usize; 4] {
        let xml = render(report);
        let of = |name: &str| {
            let (_, rest) = xml.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        ["tests", "failures", "errors", "skipped"].map(of)
    }

    #[test]
    fn only_a_run_that_ends_with_0_is_green() {
        let tier = Some("tier");
        assert_eq!(
            counts(&report(Exit::Ok, &[("pass", None), ("inapplicable", Some("cluster"))])),
            [2, 0, 0, 1]
        );
        for (exit, scenarios) in [
            (Exit::Interrupted, vec![("pass", None), ("skipped", None)]),
            (Exit::Interrupted, vec![("pass", None)]),
            (Exit::Partial, vec![("pass", None), ("inapplicable", tier)]),
            (Exit::Partial, vec![("pass", None), ("unsupported", Some("product"))]),
            (Exit::Inconclusive, vec![("pass", None)]),
            (Exit::Flaky, vec![("pass", None), ("flaky", Some("product"))]),
        ] {
            let report = report(exit, &scenarios);
            let [tests, failures, errors, _] = counts(&report);
            assert!(failures + errors > 0, "{exit:?} {scenarios:?}");
            assert_eq!(tests, render(&report).matches("<testcase ").count());
        }
    }

    #[test]
    fn an_optional_tool_that_is_not_there_is_skipped_and_a_broken_machine_is_an_error() {
        let mut report = report(Exit::Partial, &[("inapplicable", Some("machine"))]);
        assert_eq!(counts(&report), [2, 0, 1, 1], "the whole run is the error");
        report.header.probes[0].absent = false;
        assert_eq!(counts(&report), [1, 0, 1, 0]);
        assert!(render(&report).contains("<error message=\"inapplicable (machine): why\"/>"));
    }

    #[test]
    fn the_suite_says_what_it_is_of_and_what_nobody_judged() {
        let xml = render(&report(Exit::Partial, &[("pass", None)]));
        for (name, value) in [
            ("exit", "4 partial"),
            ("product", "example 1"),
            ("sha256.istio-cni", "aa"),
            ("tier", "netns"),
            ("commit", "c0ffee with changes"),
            ("excused.retrying (retry", "3 lines: it goes on"),
        ] {
            let property = format!("<property name=\"{name}\" value=\"{value}\"/>");
            assert!(xml.contains(&property), "{property} is not in {xml}");
        }
        assert!(xml.contains("timestamp=\"2026-11-30T08:00:00.000Z\" hostname=\"build-7\""), "{xml}");
        assert!(xml.contains("&quot;tags&quot;:&quot;@g&quot;"), "{xml}");
    }

    #[test]
    fn what_is_lacking_is_a_property_of_the_suite() {
        let lack =
            Lack { what: "musl".into(), evidence: "<none>".into(), get: vec!["get it".into()], scenarios: 0 };
        let mut xml = String::new();
        render_properties(&mut xml, &lacks(&[lack]).collect::<Vec<_>>());
        let property = "<property name=\"lacks.musl\" value=\"&lt;none&gt;&#10;get it\"/>";
        assert_eq!(xml, format!("<properties>\n{property}\n</properties>\n"));
    }

    #[test]
    fn markup_and_control_characters_cannot_break_the_file() {
        assert_eq!(escape("a<b>&\"c\"\n\u{1b}"), "a&lt;b&gt;&amp;&quot;c&quot;&#10;\u{fffd}");
    }
}
