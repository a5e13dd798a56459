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
    render_lacks(&mut xml, &report.lacks);
    for record in &report.scenarios {
        render_case(&mut xml, record);
    }
    xml.push_str("</testsuite>\n</testsuites>\n");
    xml
}

/// Missing tools of the machine, with how to install them, as properties of the suite.
fn render_lacks(xml: &mut String, lacks: &[Lack]) {
    if lacks.is_empty() {
        return;
    }
    xml.push_str("<properties>\n");
    for Lack { what, evidence, get, .. } in lacks {
        let value = escape(&format!("{evidence}\n{}", get.join("\n")));
        let _ = writeln!(xml, "<property name=\"lacks.{}\" value=\"{value}\"/>", escape(what));
    }
    xml.push_str("</properties>\n");
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
        let mut xml = String::new();
        render_lacks(&mut xml, &[]);
        assert_eq!(xml, "");
        let lack =
            Lack { what: "musl".into(), evidence: "<none>".into(), get: vec!["get it".into()], scenarios: 0 };
        render_lacks(&mut xml, &[lack]);
        let property = "<property name=\"lacks.musl\" value=\"&lt;none&gt;&#10;get it\"/>";
        assert_eq!(xml, format!("<properties>\n{property}\n</properties>\n"));
    }

    #[test]
    fn markup_and_control_characters_cannot_break_the_file() {
        assert_eq!(escape("a<b>&\"c\"\n\u{1b}"), "a&lt;b&gt;&amp;&quot;c&quot;&#10;\u{fffd}");
    }
}
