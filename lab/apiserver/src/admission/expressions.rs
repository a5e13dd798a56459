// SPDX-License-Identifier: Apache-2.0
//! The expressions of a policy, and what they can speak of: `object`, `oldObject`, `request` and `variables`. The language is
//! CEL; the functions that Kubernetes adds to it are not there, and an expression that calls one is an error.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel::{Context, Env, Program};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Proposal;
use crate::access::Identity;

/// Variables of expressions, without their policy's own.
pub(super) struct Facts {
    object: Value,
    old: Value,
    request: Value,
}

impl Facts {
    pub(super) fn of(who: &Identity, proposal: &Proposal<'_>) -> Self {
        let key = proposal.key;
        let resource =
            json!({"group": key.kind.group, "version": key.kind.version, "resource": key.kind.plural});
        let kind = json!({"group": key.kind.group, "version": key.kind.version, "kind": key.kind.name});
        let extra: BTreeMap<_, _> = match who {
            Identity::Admin | Identity::Anonymous | Identity::User { .. } => BTreeMap::new(),
            Identity::Account { extra, .. } => extra.iter().map(|(key, value)| (*key, [value])).collect(),
        };
        let user = json!({"username": who.user(), "groups": who.groups(), "extra": extra});
        let request = json!({
            "operation": proposal.operation.name(), "userInfo": user, "dryRun": proposal.dry_run,
            "name": key.name, "namespace": key.namespace, "subResource": proposal.subresource.unwrap_or(""),
            "resource": resource, "requestResource": resource, "kind": kind, "requestKind": kind,
        });
        let some = |object: Option<&Value>| object.cloned().unwrap_or(Value::Null);
        Self { object: some(proposal.object), old: some(proposal.old), request }
    }
}

/// Request of a webhook's review, but for its UID and the objects.
pub(super) fn request(who: &Identity, proposal: &Proposal<'_>) -> Value {
    Facts::of(who, proposal).request
}

/// Variables of Kubernetes that this server lacks.
const ABSENT: [&str; 3] = ["params", "authorizer", "namespaceObject"];

/// Compiles an expression.
pub(super) fn compile(source: &str) -> Result<Program, String> {
    // The real server's compiler indents the source that it shows.
    let program = Env::stdlib().compile(source).map_err(|error| error.to_string().replace("\n|", "\n |"))?;
    let references = program.references();
    match ABSENT.into_iter().find(|name| references.has_variable(name)) {
        Some(absent) => Err(format!("'{absent}' is not served here")),
        None => Ok(program),
    }
}

/// Program of an expression, kept for the whole process: compiling one takes longer than the request it is asked about. A real server keeps them for
/// each version of a policy.
fn compiled(source: &str) -> Result<Arc<Program>, String> {
    static PROGRAMS: Mutex<BTreeMap<String, Arc<Program>>> = Mutex::new(BTreeMap::new());
    if let Some(program) = PROGRAMS.lock().get(source) {
        return Ok(Arc::clone(program));
    }
    let program = Arc::new(compile(source)?);
    PROGRAMS.lock().insert(source.to_owned(), Arc::clone(&program));
    Ok(program)
}

/// Expressions of one policy on one proposal.
pub(super) struct Expressions {
    context: Context<'static, 'static>,
    variables: HashMap<String, cel::Value>,
}

impl Expressions {
    pub(super) fn new(facts: Facts) -> Self {
        let mut context = Context::with_env(Arc::new(Env::stdlib()));
        let Facts { object, old, request } = facts;
        for (name, value) in [("object", object), ("oldObject", old), ("request", request)] {
            context.add_variable_from_value(name, converted(value));
        }
        let mut own = Self { context, variables: HashMap::new() };
        own.publish();
        own
    }

    /// Evaluates a boolean expression.
    pub(super) fn holds(&self, source: &str) -> Result<bool, String> {
        match self.value(source)? {
            cel::Value::Bool(holds) => Ok(holds),
            other => Err(format!("expression '{source}' resulted in {other:?}, which is no bool")),
        }
    }

    /// Evaluates a message expression; `None` if it is no string.
    pub(super) fn says(&self, source: &str) -> Option<String> {
        match self.value(source) {
            Ok(cel::Value::String(text)) if !text.trim().is_empty() => Some((*text).clone()),
            _ => None,
        }
    }

    /// Defines a variable. One that cannot be computed is not there for those who ask for it.
    pub(super) fn define(&mut self, name: &str, source: &str) {
        if let Ok(value) = self.value(source) {
            self.variables.insert(name.to_owned(), value);
            self.publish();
        }
    }

    fn publish(&mut self) {
        let variables = cel::Value::from(self.variables.clone());
        self.context.add_variable_from_value("variables", variables);
    }

    fn value(&self, source: &str) -> Result<cel::Value, String> {
        let failed = |why: String| format!("expression '{source}' resulted in error: {why}");
        let value = compiled(source).map_err(failed)?.execute(&self.context);
        value.map_err(|error| failed(error.to_string().replace("No such key", "no such key")))
    }
}

/// JSON as a CEL value: integers are signed.
fn converted(value: Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(value),
        Value::Number(number) => number
            .as_i64()
            .map_or_else(|| cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)), cel::Value::Int),
        Value::String(text) => text.into(),
        Value::Array(list) => list.into_iter().map(converted).collect::<Vec<_>>().into(),
        Value::Object(map) => {
            map.into_iter().map(|(key, value)| (key, converted(value))).collect::<HashMap<_, _>>().into()
        }
    }
}
