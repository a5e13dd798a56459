// SPDX-License-Identifier: Apache-2.0
//! An explanation for a person.

use std::fmt::Write as _;

use redirect::packet::{Outcome, Packet, Verdict};
use redirect::ruleset::Origin;
use redirect::text;
use redirect::verdict::{FoundStep, FoundVerdict};

use super::setting::{Setting, find};
use super::{Decision, Explanation, Plan, Query, chains};

/// Rules are at least this wide, so that what follows them stands in one column.
const RULE_WIDTH: usize = 38;

/// The whole explanation; if packets were asked about, only what becomes of them.
#[must_use]
pub(super) fn write(explanation: &Explanation) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = match &explanation.decision {
        Decision::Skipped(reason) => writeln!(text, "{} is not redirected: {reason}", explanation.subject),
        Decision::Refused(error) => writeln!(text, "{} cannot be redirected: {error}", explanation.subject),
        Decision::Redirected(plan) if plan.packets.is_empty() => {
            let _ = writeln!(text, "{} is redirected", explanation.subject);
            whole(&mut text, plan);
            differences(&mut text, plan);
            Ok(())
        }
        Decision::Redirected(plan) => {
            for asked in &plan.packets {
                if plan.packets.len() > 1 {
                    let _ = writeln!(text, "{}", asked.text);
                }
                verdict(&mut text, plan, asked);
                as_captured(&mut text, asked);
            }
            Ok(())
        }
    };
    text
}

fn whole(text: &mut String, plan: &Plan) {
    let addresses: Vec<String> = plan.addresses.iter().map(ToString::to_string).collect();
    let families = if plan.ruleset.ipv6 { "IPv4 and IPv6" } else { "IPv4 only" };
    let _ =
        writeln!(text, "\nnetwork: {} ({}); rules of {families}", addresses.join(", "), plan.network.name());
    for note in &plan.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let _ = writeln!(text, "\nsettings");
    let width = plan.settings.iter().map(|setting| setting.name.len()).max().unwrap_or_default();
    let values = plan.settings.iter().map(|setting| setting.value.len() + 2).max().unwrap_or_default();
    for Setting { name, value, source, .. } in &plan.settings {
        let value = format!("\"{value}\"");
        let from = source.name().map(|name| format!(" {name}")).unwrap_or_default();
        let _ = writeln!(text, "  {name:<width$}  {value:<values$}  {}{from}", source.kind());
    }
    for (family, held) in chains(&plan.ruleset) {
        let _ = writeln!(text, "\nrules, {}", family.name());
        for chain in held {
            let _ = writeln!(
                text,
                "  {} {}",
                chain.table.name_in(plan.ruleset.dialect),
                chain.chain.name_in(plan.ruleset.dialect)
            );
            let bodies = chain.rules.iter().map(|rule| text::rule(plan.ruleset.dialect, rule));
            let bodies: Vec<String> = bodies.collect();
            let width = bodies.iter().map(String::len).max().unwrap_or_default().max(RULE_WIDTH);
            for (at, (rule, body)) in chain.rules.iter().zip(&bodies).enumerate() {
                line(text, &format!("{:>5}", at + 1), (body, width), &reason(plan, rule.origin));
            }
        }
    }
}

fn reason(plan: &Plan, origin: Origin) -> String {
    find(&plan.settings, origin).map(ToString::to_string).unwrap_or_default()
}

fn line(text: &mut String, start: &str, (rule, width): (&str, usize), reason: &str) {
    let line = format!("{start}  {rule:<width$}  {reason}");
    let _ = writeln!(text, "{}", line.trim_end());
}

fn verdict(text: &mut String, plan: &Plan, Query { packet, verdict, .. }: &Query) {
    let _ = writeln!(text, "{}", sentence(plan, packet, verdict));
    let chains = verdict.steps.iter().map(|step| step.chain.len()).max().unwrap_or_default();
    let rules =
        verdict.steps.iter().map(|step| step.rule.chars().count()).max().unwrap_or_default().max(RULE_WIDTH);
    let tables = verdict.steps.iter().map(|step| step.table.name_in(plan.ruleset.dialect).len()).max();
    let tables = tables.unwrap_or_default();
    for step in &verdict.steps {
        let table = step.table.name_in(plan.ruleset.dialect);
        let start = format!("  {table:<tables$} {:<chains$} {:>4}", step.chain, step.position);
        line(text, &start, (&step.rule, rules), &reason(plan, step.origin));
    }
}

/// Differences of captured rules.
fn differences(text: &mut String, plan: &Plan) {
    let Some(captured) = &plan.captured else { return };
    let _ = match captured.differences.as_slice() {
        [] => writeln!(text, "\ncaptured rules: as they should be"),
        _ => writeln!(text, "\ncaptured rules differ"),
    };
    for difference in &captured.differences {
        let _ = writeln!(text, "  * {difference}");
    }
}

/// Verdict of captured rules.
fn as_captured(text: &mut String, asked: &Query) {
    let Some(verdict) = &asked.captured else { return };
    let _ = writeln!(text, "as captured: {}", captured_sentence(asked, verdict));
    let chains = verdict.steps.iter().map(|step| step.chain.len()).max().unwrap_or_default();
    for FoundStep { family, table, chain, position, rule } in &verdict.steps {
        let _ = writeln!(text, "  {family} {table} {chain:<chains$} {position:>4}  {rule}");
    }
}

/// Verdict of captured rules, as a sentence.
#[must_use]
pub(super) fn captured_sentence(asked: &Query, verdict: &FoundVerdict) -> String {
    match &verdict.outcome {
        Ok(Outcome::Redirected { port }) => format!("redirected to port {port}"),
        Ok(Outcome::Intercepted { port }) => {
            format!("handed to port {port} with its addresses kept (TPROXY)")
        }
        Ok(Outcome::Dropped) => "dropped".to_owned(),
        Ok(Outcome::Untouched) => format!("not redirected: it goes on to {}", asked.packet.destination),
        Err(undecided) => format!("nobody can tell: {undecided}"),
    }
}

/// Verdict as a sentence.
#[must_use]
pub(super) fn sentence(plan: &Plan, packet: &Packet, verdict: &Verdict) -> String {
    let what = |port: u16| {
        let names = [
            (plan.config.proxy_port, "outbound capture"),
            (plan.config.inbound_capture_port, "inbound capture"),
            (redirect::config::DNS_PORT, "DNS capture"),
        ];
        names.iter().find(|(known, _)| *known == port).map_or("a proxy port", |(_, name)| name)
    };
    let mut sentence = match verdict.outcome {
        Outcome::Redirected { port } => format!("redirected to port {port} ({})", what(port)),
        Outcome::Intercepted { port } => {
            format!("handed to port {port} with its addresses kept ({}, TPROXY)", what(port))
        }
        Outcome::Dropped => "dropped".to_owned(),
        Outcome::Untouched => format!("not redirected: it goes on to {}", packet.destination),
    };
    // Writing to a String does not fail.
    if verdict.mark != packet.mark {
        let _ = write!(sentence, ", with mark {}", verdict.mark);
    }
    if verdict.zone != 0 {
        let _ = write!(sentence, ", in conntrack zone {}", verdict.zone);
    }
    sentence
}
