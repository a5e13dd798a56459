// SPDX-License-Identifier: Apache-2.0
//! An explanation for programs. Fields are added, never renamed or removed; what breaks that raises `version`.

use redirect::packet::Outcome;
use redirect::ruleset::{Dialect, Origin};
use redirect::text;
use redirect::verdict::FoundVerdict;
use serde_json::{Value, json};

use super::setting::{Setting, find};
use super::{Decision, Explanation, Plan, Query, chains, human};

/// Version of the format.
const VERSION: u32 = 1;

#[must_use]
pub(super) fn write(explanation: &Explanation) -> Value {
    let mut all = json!({ "version": VERSION, "subject": explanation.subject });
    let more = match &explanation.decision {
        Decision::Skipped(reason) => {
            json!({ "decision": "skipped", "reason": { "code": reason.code(), "text": reason.to_string() } })
        }
        Decision::Refused(error) => json!({ "decision": "refused", "reason": { "text": error.to_string() } }),
        Decision::Redirected(plan) => redirected(plan),
    };
    if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
        all.extend(more);
    }
    all
}

fn redirected(plan: &Plan) -> Value {
    json!({
        "decision": "redirected",
        "network": {
            "addresses": plan.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "source": plan.network.name(),
            "ipv6": plan.ruleset.ipv6,
        },
        "notes": plan.notes,
        "settings": plan.settings.iter().map(setting).collect::<Vec<_>>(),
        "dialect": match plan.ruleset.dialect { Dialect::Iptables => "iptables", Dialect::Nft => "nft" },
        "chains": rules(plan),
        "captured": plan.captured.as_ref().map(|captured| json!({
            "differences": captured.differences.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })),
        "packets": plan.packets.iter().map(|asked| packet(plan, asked)).collect::<Vec<_>>(),
    })
}

fn setting(Setting { name, value, source, .. }: &Setting) -> Value {
    json!({ "name": name, "value": value, "source": { "kind": source.kind(), "name": source.name() } })
}

fn reason(plan: &Plan, origin: Origin) -> Value {
    find(&plan.settings, origin).map_or(Value::Null, |setting| setting.name.as_str().into())
}

fn rules(plan: &Plan) -> Vec<Value> {
    let mut all = Vec::new();
    for (family, held) in chains(&plan.ruleset) {
        for chain in held {
            let rules: Vec<Value> = chain
                .rules
                .iter()
                .enumerate()
                .map(|(at, rule)| {
                    json!({
                        "position": at + 1,
                        "rule": text::rule(plan.ruleset.dialect, rule),
                        "setting": reason(plan, rule.origin),
                    })
                })
                .collect();
            all.push(json!({
                "family": family.name(),
                "table": chain.table.name_in(plan.ruleset.dialect),
                "chain": chain.chain.name_in(plan.ruleset.dialect),
                "rules": rules,
            }));
        }
    }
    all
}

fn packet(plan: &Plan, asked: &Query) -> Value {
    let Query { text, packet, verdict, captured } = asked;
    let (outcome, port) = outcome(verdict.outcome);
    let steps: Vec<Value> = verdict
        .steps
        .iter()
        .map(|step| {
            json!({
                "table": step.table.name_in(plan.ruleset.dialect),
                "chain": step.chain,
                "position": step.position,
                "rule": &*step.rule,
                "setting": reason(plan, step.origin),
            })
        })
        .collect();
    json!({
        "packet": text,
        "text": human::sentence(plan, packet, verdict),
        "outcome": outcome,
        "port": port,
        "mark": verdict.mark,
        "connmark": verdict.connmark,
        "zone": verdict.zone,
        "steps": steps,
        "captured": captured.as_ref().map(|verdict| as_captured(asked, verdict)),
    })
}

fn as_captured(asked: &Query, verdict: &FoundVerdict) -> Value {
    let (outcome, port) = verdict.outcome.as_ref().map_or(("undecided", None), |found| outcome(*found));
    let steps: Vec<Value> = verdict
        .steps
        .iter()
        .map(|step| {
            json!({
                "family": step.family.to_string(),
                "table": step.table,
                "chain": step.chain,
                "position": step.position,
                "rule": step.rule,
            })
        })
        .collect();
    json!({ "text": human::captured_sentence(asked, verdict), "outcome": outcome, "port": port, "steps": steps })
}

fn outcome(outcome: Outcome) -> (&'static str, Option<u16>) {
    match outcome {
        Outcome::Untouched => ("untouched", None),
        Outcome::Redirected { port } => ("redirected", Some(port)),
        Outcome::Intercepted { port } => ("intercepted", Some(port)),
        Outcome::Dropped => ("dropped", None),
    }
}
