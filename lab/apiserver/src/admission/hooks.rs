// SPDX-License-Identifier: Apache-2.0
//! Webhooks of admission: which of them a write goes through, in which order, and which configurations are rejected. Pure.

use serde_json::Value;

use super::expressions::{self, Expressions, Facts};
use super::{Proposal, list, matching, only, text};
use crate::access::Identity;
use crate::error::ApiError;
use crate::kinds::{self, Kind, Scope};
use crate::selector::{self, Selector};
use crate::store::{Collection, Key, Store};

/// Deadline of a call, in seconds, unless a webhook has one.
const TIMEOUT: u64 = 10;
/// Port of a service, unless a webhook has one.
const PORT: u64 = 443;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Mutating,
    Validating,
}

impl Stage {
    fn kind(self) -> &'static Kind {
        match self {
            Self::Mutating => &kinds::MUTATING_WEBHOOKS,
            Self::Validating => &kinds::VALIDATING_WEBHOOKS,
        }
    }
}

/// A configured webhook.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hook(Value);

/// Listener of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Service { namespace: String, name: String, port: u16, path: String },
    Url(String),
}

/// Webhooks of a stage: configurations by name, each in its own order.
pub(crate) fn configured(stage: Stage, store: &Store) -> Vec<Hook> {
    let everywhere = Collection { kind: stage.kind(), namespace: None };
    let everything = Selector::default();
    let all = store.list(&everywhere, &everything);
    all.flat_map(|(_, configuration)| list(&configuration["webhooks"]).cloned().map(Hook)).collect()
}

/// Labels that `namespaceSelector` is about: those of the object's namespace, or its own if it is one.
pub(crate) fn namespace(key: &Key, object: &Value, store: &Store) -> Option<Value> {
    if key.kind.name == "Namespace" {
        return Some(object.clone());
    }
    if key.kind.scope == Scope::Cluster {
        return None;
    }
    let of = Key { kind: &kinds::NAMESPACE, namespace: String::new(), name: key.namespace.clone() };
    store.get(&of).ok().map(|found| (*found).clone())
}

/// Request of a review, but for its UID and the objects.
pub(crate) fn request(who: &Identity, proposal: &Proposal<'_>) -> Value {
    expressions::request(who, proposal)
}

impl Hook {
    pub(crate) fn name(&self) -> &str {
        text(&self.0, "name")
    }

    pub(crate) fn target(&self) -> Target {
        let config = &self.0["clientConfig"];
        if let Some(url) = config["url"].as_str() {
            return Target::Url(url.to_owned());
        }
        let service = &config["service"];
        let path = text(service, "path");
        Target::Service {
            namespace: text(service, "namespace").to_owned(),
            name: text(service, "name").to_owned(),
            port: u16::try_from(service["port"].as_u64().unwrap_or(PORT)).unwrap_or(u16::MAX),
            path: if path.is_empty() { "/".to_owned() } else { path.to_owned() },
        }
    }

    /// Certificates that it is trusted by, as PEM in base64.
    pub(crate) fn ca_bundle(&self) -> &str {
        text(&self.0["clientConfig"], "caBundle")
    }

    /// Deadline of a call, in seconds.
    pub(crate) fn timeout(&self) -> u64 {
        self.0["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT)
    }

    /// A write goes on if it cannot be called.
    pub(crate) fn fails_open(&self) -> bool {
        self.0["failurePolicy"] == "Ignore"
    }

    /// It is called once more if a later one changes the object.
    pub(crate) fn is_reinvoked(&self) -> bool {
        self.0["reinvocationPolicy"] == "IfNeeded"
    }

    /// True if a write goes through it. `namespace` is what [`namespace`] found.
    ///
    /// # Errors
    /// A match condition cannot be evaluated, and the webhook fails closed.
    pub(crate) fn matches(
        &self,
        who: &Identity,
        proposal: &Proposal<'_>,
        namespace: Option<&Value>,
    ) -> Result<bool, ApiError> {
        let selects = |field: &str, object: Option<&Value>| {
            let Some(object) = object else { return true };
            let written = selector::written(&self.0[field]);
            let parsed = Selector::parse(proposal.key.kind, Some(&written), None);
            parsed.is_ok_and(|selector| selector.matches(object))
        };
        let rules = list(&self.0["rules"]).any(|rule| matching::rule_matches(rule, proposal));
        if !rules || !selects("namespaceSelector", namespace) || !selects("objectSelector", proposal.object) {
            return Ok(false);
        }
        self.conditions(who, proposal)
    }

    /// One that is false decides, whatever errors others have.
    fn conditions(&self, who: &Identity, proposal: &Proposal<'_>) -> Result<bool, ApiError> {
        let mut conditions = list(&self.0["matchConditions"]).peekable();
        if conditions.peek().is_none() {
            return Ok(true);
        }
        let expressions = Expressions::new(Facts::of(who, proposal));
        let mut failed = None;
        for condition in conditions {
            match expressions.holds(text(condition, "expression")) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => failed = failed.or(Some(why)),
            }
        }
        match failed {
            None => Ok(true),
            Some(_) if self.fails_open() => Ok(false),
            Some(why) => {
                let (kind, name) = (proposal.key.kind, Some(proposal.key.name.clone()));
                Err(ApiError::Denied { kind, name, why })
            }
        }
    }
}

/// Rejects a malformed or unsupported configuration.
pub(super) fn check(configuration: &Value, stage: Stage) -> Result<(), String> {
    list(&configuration["webhooks"])
        .enumerate()
        .try_for_each(|(number, hook)| check_one(hook, stage, &format!("webhooks[{number}]")))
}

fn check_one(hook: &Value, stage: Stage, path: &str) -> Result<(), String> {
    const FIELDS: [&str; 12] = [
        "admissionReviewVersions",
        "clientConfig",
        "failurePolicy",
        "matchConditions",
        "matchPolicy",
        "name",
        "namespaceSelector",
        "objectSelector",
        "rules",
        "sideEffects",
        "timeoutSeconds",
        "reinvocationPolicy",
    ];
    let known = if stage == Stage::Mutating { &FIELDS[..] } else { &FIELDS[..11] };
    only(hook, path, known)?;
    if text(hook, "name").split('.').count() < 3 {
        let name = &hook["name"];
        return Err(format!(
            "{path}.name: Invalid value: {name}: should be a domain with at least three segments separated by dots"
        ));
    }
    one_of(hook, path, "sideEffects", true, &["None", "NoneOnDryRun"])?;
    one_of(hook, path, "failurePolicy", false, &["Fail", "Ignore"])?;
    one_of(hook, path, "matchPolicy", false, &["Equivalent", "Exact"])?;
    one_of(hook, path, "reinvocationPolicy", false, &["IfNeeded", "Never"])?;
    if !list(&hook["admissionReviewVersions"]).any(|version| version == "v1") {
        return Err(format!("{path}.admissionReviewVersions: only v1 is served here"));
    }
    let timeout = hook["timeoutSeconds"].as_u64();
    if timeout.is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        return Err(format!("{path}.timeoutSeconds: the timeout value must be between 1 and 30 seconds"));
    }
    let config = &hook["clientConfig"];
    if config["url"].is_string() == config["service"].is_object() {
        return Err(format!(
            "{path}.clientConfig: Required value: exactly one of url or service is required"
        ));
    }
    check_matching(hook, path)
}

/// Calls are made for creations alone.
fn check_matching(hook: &Value, path: &str) -> Result<(), String> {
    matching::check_rules(&hook["rules"], &format!("{path}.rules"))?;
    let mut operations = list(&hook["rules"]).flat_map(|rule| list(&rule["operations"]));
    if let Some(other) = operations.find(|one| *one != "CREATE") {
        return Err(format!("{path}.rules: operation {other} is not served here"));
    }
    for (number, condition) in list(&hook["matchConditions"]).enumerate() {
        let source = text(condition, "expression");
        expressions::compile(source).map(drop).map_err(|why| {
            format!("{path}.matchConditions[{number}].expression: Invalid value: {source:?}: compilation failed: {why}")
        })?;
    }
    Ok(())
}

fn one_of(hook: &Value, path: &str, field: &str, is_required: bool, known: &[&str]) -> Result<(), String> {
    match hook[field].as_str() {
        None if is_required => {
            Err(format!("{path}.{field}: Required value: must specify one of {}", known.join(", ")))
        }
        Some(other) if !known.contains(&other) => {
            let supported: Vec<_> = known.iter().map(|one| format!("{one:?}")).collect();
            Err(format!(
                "{path}.{field}: Unsupported value: {other:?}: supported values: {}",
                supported.join(", ")
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
