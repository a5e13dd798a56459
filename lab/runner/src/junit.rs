// SPDX-License-Identifier: Apache-2.0
//! The report as JUnit XML, for dashboards that know nothing else. A verdict that JUnit has no word for becomes its
//! nearest one, with the verdict's own word in the message.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::lacks::Lack;
use crate::report::Report;
use crate::verdict::{Record, Verdict};

/// Writes `junit.xml`.
pub fn write(report: &Report, dir: &Path) -> anyhow::Result<()> {
    let path = dir.join("junit.xml");
    std::fs::write(&path, render(report)).with_context(|| format!("cannot write {}", path.display()))
}

fn render(report: &Report) -> String {
    let totals = &report.totals;
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuites name=\"cnilab\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">\n\
         <testsuite name=\"cnilab\" tests=\"{0}\" failures=\"{1}\" errors=\"{2}\" skipped=\"{3}\" time=\"{4:.3}\">",
        totals.selected,
        totals.fail + totals.flaky,
        totals.inconclusive,
        totals.inapplicable + totals.unsupported + totals.skipped,
        report.seconds,
    );
    let properties: Vec<_> = lacks(&report.lacks).chain(excused(report)).collect();
    render_properties(&mut xml, &properties);
    for record in &report.scenarios {
        render_case(&mut xml, record);
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
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

fn render_case(xml: &mut String, record: &Record) {
    let Record { id, name, file, line, seconds, .. } = record;
    let _ = write!(
        xml,
        "<testcase classname=\"{}\" name=\"{}\" file=\"{}\" line=\"{line}\" time=\"{seconds:.3}\"",
        escape(id),
        escape(name),
        escape(file),
    );
    let element = match record.verdict {
        Verdict::Pass => {
            xml.push_str("/>\n");
            return;
        }
        Verdict::Fail | Verdict::Flaky => "failure",
        Verdict::Inconclusive => "error",
        Verdict::Inapplicable | Verdict::Unsupported | Verdict::Skipped => "skipped",
    };
    let reason = escape(record.reason.as_deref().unwrap_or_default());
    let word = record.verdict.word();
    let _ = writeln!(xml, "><{element} message=\"{word}: {reason}\"/></testcase>");
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
    use super::*;

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
