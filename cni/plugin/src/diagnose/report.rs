// SPDX-License-Identifier: Apache-2.0
//! Report of a diagnosis: text and JSON.

use std::fmt::Write as _;

use protocol::text::one_line;
use redirect::found::compare::Form;
use serde_json::{Value, json};

use super::arguments::Output;

/// Findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The namespace.
    pub netns: String,
    /// Expected rules, as a sentence.
    pub expected: String,
    /// In which forms rules of ours were found.
    pub forms: Vec<Form>,
    /// Number of rules, foreign ones included.
    pub rules: usize,
    /// Differences, a sentence each.
    pub differences: Vec<String>,
    /// Traffic that right rules leave alone as well, a sentence each.
    pub notes: Vec<String>,
}

/// The name of a form, and whose back ends write it.
fn name(form: Form) -> &'static str {
    match form {
        Form::Iptables => "iptables rules in nf_tables (nft-compat, iptables-nft)",
        Form::Legacy => "legacy iptables",
        Form::Native => "native nftables (inet istio-proxy-*)",
    }
}

/// The name of a form for programs.
fn key(form: Form) -> &'static str {
    match form {
        Form::Iptables => "iptables",
        Form::Legacy => "legacy",
        Form::Native => "native",
    }
}

impl Report {
    /// The whole answer.
    #[must_use]
    pub fn text(&self, output: Output) -> String {
        match output {
            Output::Human => self.human(),
            Output::Json => format!("{:#}\n", self.json()),
        }
    }

    fn human(&self) -> String {
        let found = match self.forms.as_slice() {
            [] => "none of ours".to_owned(),
            forms => forms.iter().map(|form| name(*form)).collect::<Vec<_>>().join(" and "),
        };
        let mut text = format!(
            "namespace  {}\nshould be  {}\nrules      {found}; {} in all\n",
            self.netns, self.expected, self.rules
        );
        // Writing to a String does not fail.
        let _ = match self.differences.len() {
            0 => writeln!(text, "\nAs it should be."),
            1 => writeln!(text, "\n1 difference:"),
            many => writeln!(text, "\n{many} differences:"),
        };
        for difference in &self.differences {
            let _ = writeln!(text, "  * {}", one_line(difference));
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {}", one_line(note));
        }
        text
    }

    fn json(&self) -> Value {
        json!({
            "netns": self.netns,
            "expected": self.expected,
            "forms": self.forms.iter().map(|form| key(*form)).collect::<Vec<_>>(),
            "rules": self.rules,
            "differences": self.differences,
            "notes": self.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_named_is_no_order_to_a_terminal() {
        let text = |text: &str| vec![text.to_owned()];
        let report = Report {
            netns: "/n".into(),
            expected: "redirected".into(),
            forms: Vec::new(),
            rules: 1,
            differences: text("chain ISTIO_\u{1b}[31m is not expected"),
            notes: text("container \u{1b}]0;owned\u{7}"),
        };
        let human = report.text(Output::Human);
        assert!(!human.contains(['\u{1b}', '\u{7}']), "{human:?}");
        assert!(human.contains(r"chain ISTIO_\u{1b}[31m is not expected"), "{human}");
    }

    #[test]
    fn both_outputs_say_the_same() {
        let report = Report {
            netns: "/n".into(),
            expected: "redirected".into(),
            forms: vec![Form::Iptables, Form::Native],
            rules: 12,
            differences: vec!["chain x is missing".into()],
            notes: vec!["container app runs as the proxy".into()],
        };
        assert_eq!(
            report.text(Output::Human),
            "namespace  /n\nshould be  redirected\nrules      iptables rules in nf_tables (nft-compat, iptables-nft) and native \
             nftables (inet istio-proxy-*); 12 in all\n\n1 difference:\n  * chain x is missing\nnote: container app runs as the proxy\n"
        );
        let json: Value = serde_json::from_str(&report.text(Output::Json)).unwrap();
        assert_eq!(json["forms"], json!(["iptables", "native"]));
        assert_eq!(json["differences"], json!(["chain x is missing"]));
        assert_eq!(json["notes"], json!(["container app runs as the proxy"]));
    }
}
