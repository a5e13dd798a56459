// SPDX-License-Identifier: Apache-2.0
//! Admission: Pod Security, the policies and bindings among the objects, and which webhooks a write goes through. Pure, over the store.
//!
//! Of policies, unsupported fields are rejected on write: parameters, selectors, audit annotations, actions but `Deny`.

mod expressions;
pub(crate) mod hooks;
mod matching;
mod pod_security;

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use self::expressions::{Expressions, Facts};
use self::hooks::Stage;
pub(crate) use self::pod_security::warning;
use crate::access::Identity;
use crate::causes::Causes;
use crate::error::ApiError;
use crate::kinds;
use crate::selector::Selector;
use crate::store::{Collection, Key, Store};

/// Operation on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A pending write.
#[derive(Debug)]
pub(crate) struct Proposal<'a> {
    pub(crate) operation: Operation,
    pub(crate) key: &'a Key,
    pub(crate) subresource: Option<&'a str>,
    /// New object, unless it is a deletion.
    pub(crate) object: Option<&'a Value>,
    /// Old object, unless it is a creation.
    pub(crate) old: Option<&'a Value>,
    pub(crate) dry_run: bool,
}

struct Bound {
    policy: Arc<Value>,
    name: String,
    binding: String,
}

/// Denies a proposal by Pod Security or by policy.
pub(crate) fn admit(who: &Identity, proposal: &Proposal<'_>, store: &Store) -> Result<(), ApiError> {
    pod_security::admit(proposal, store)?;
    for bound in bound(store) {
        if matching::matches(&bound.policy["spec"]["matchConstraints"], proposal) {
            judge(&bound, who, proposal)?;
        }
    }
    Ok(())
}

/// Policies with a binding.
fn bound(store: &Store) -> Vec<Bound> {
    let everywhere = Collection { kind: &kinds::ADMISSION_POLICY_BINDING, namespace: None };
    let everything = Selector::default();
    let found = store.list(&everywhere, &everything).filter_map(|(key, binding)| {
        let name = binding["spec"]["policyName"].as_str().unwrap_or_default().to_owned();
        let policy = Key { kind: &kinds::ADMISSION_POLICY, namespace: String::new(), name: name.clone() };
        Some(Bound { policy: store.get(&policy).ok()?, name, binding: key.name.clone() })
    });
    found.collect()
}

/// Verdict of one policy on a matching proposal.
fn judge(bound: &Bound, who: &Identity, proposal: &Proposal<'_>) -> Result<(), ApiError> {
    let spec = &bound.policy["spec"];
    let deny = |why: String, code: StatusCode| ApiError::Policy {
        kind: proposal.key.kind,
        name: proposal.key.name.clone(),
        why: format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {why}",
            bound.name, bound.binding
        ),
        code,
    };
    let fails = spec["failurePolicy"] != "Ignore";
    let failed = |why: String| if fails { Err(deny(why, StatusCode::UNPROCESSABLE_ENTITY)) } else { Ok(()) };
    let mut expressions = Expressions::new(Facts::of(who, proposal));
    for condition in list(&spec["matchConditions"]) {
        match expressions.holds(text(condition, "expression")) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => return failed(why),
        }
    }
    for variable in list(&spec["variables"]) {
        expressions.define(text(variable, "name"), text(variable, "expression"));
    }
    for validation in list(&spec["validations"]) {
        let expression = text(validation, "expression");
        match expressions.holds(expression) {
            Ok(true) => {}
            Ok(false) => {
                let said = validation["messageExpression"].as_str();
                let said = said.and_then(|expression| expressions.says(expression));
                let fixed = validation["message"].as_str().map(str::to_owned);
                let why = said.or(fixed).unwrap_or_else(|| format!("failed expression: {expression}"));
                return Err(deny(why, code_of(validation["reason"].as_str())));
            }
            Err(why) => failed(why)?,
        }
    }
    Ok(())
}

fn code_of(reason: Option<&str>) -> StatusCode {
    match reason {
        Some("Forbidden") => StatusCode::FORBIDDEN,
        Some("RequestEntityTooLarge") => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// Rejects an unsupported policy or binding; other objects pass.
pub(crate) fn check(key: &Key, object: &Value) -> Result<(), ApiError> {
    let spec = &object["spec"];
    let checked = match key.kind.name {
        "ValidatingAdmissionPolicy" if list(&spec["validations"]).next().is_none() => {
            let why = "Required value: validations or auditAnnotations must contain at least one item";
            let wrong = ["validations", "auditAnnotations"].map(|field| format!("spec.{field}: {why}"));
            return Err(ApiError::Invalid {
                kind: key.kind,
                name: key.name.clone(),
                why: Causes(wrong.into()),
            });
        }
        "ValidatingAdmissionPolicy" => check_policy(spec),
        "ValidatingAdmissionPolicyBinding" => check_binding(spec),
        "MutatingWebhookConfiguration" => hooks::check(object, Stage::Mutating),
        "ValidatingWebhookConfiguration" => hooks::check(object, Stage::Validating),
        _ => return Ok(()),
    };
    checked.map_err(|why| ApiError::Invalid { kind: key.kind, name: key.name.clone(), why: why.into() })
}

fn check_policy(spec: &Value) -> Result<(), String> {
    const FIELDS: [&str; 5] =
        ["failurePolicy", "matchConstraints", "matchConditions", "validations", "variables"];
    only(spec, "spec", &FIELDS)?;
    matching::check(&spec["matchConstraints"])?;
    for (field, known) in [
        ("matchConditions", &["name", "expression"][..]),
        ("variables", &["name", "expression"]),
        ("validations", &["expression", "message", "messageExpression", "reason"]),
    ] {
        for (number, one) in list(&spec[field]).enumerate() {
            let path = format!("spec.{field}[{number}]");
            only(one, &path, known)?;
            let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
            if let Some(reason) = one["reason"].as_str().filter(|reason| !reasons.contains(reason)) {
                let supported = reasons.map(|one| format!("\"{one}\"")).join(", ");
                return Err(format!(
                    "{path}.reason: Unsupported value: \"{reason}\": supported values: {supported}"
                ));
            }
            for expression in ["expression", "messageExpression"] {
                let required = expression == "expression";
                match one[expression].as_str() {
                    Some(source) => expressions::compile(source).map(drop).map_err(|why| {
                        format!("{path}.{expression}: Invalid value: {source:?}: compilation failed: {why}")
                    })?,
                    None if required => return Err(format!("{path}.{expression}: Required value")),
                    None => {}
                }
            }
        }
    }
    Ok(())
}

fn check_binding(spec: &Value) -> Result<(), String> {
    only(spec, "spec", &["policyName", "validationActions"])?;
    if spec["policyName"].as_str().is_none_or(str::is_empty) {
        return Err("spec.policyName: Required value".to_owned());
    }
    if list(&spec["validationActions"]).next().is_none() {
        return Err(
            "spec.validationActions: Required value: at least one validation action is required".to_owned()
        );
    }
    if spec["validationActions"] != json!(["Deny"]) {
        return Err(format!(
            "spec.validationActions: only [\"Deny\"] is served here, not {}",
            spec["validationActions"]
        ));
    }
    Ok(())
}

/// Rejects unsupported fields.
fn only(object: &Value, path: &str, known: &[&str]) -> Result<(), String> {
    let fields = object.as_object().ok_or_else(|| format!("{path}: Required value"))?;
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => Err(format!("{path}.{field}: not served here")),
        None => Ok(()),
    }
}
