// SPDX-License-Identifier: Apache-2.0
//! Options of a write in its query, as the real server validates them: pure.

use crate::causes::Causes;
use crate::error::ApiError;
use crate::route::{Query, Verb};

/// Rejects options that contradict each other, or that nobody knows.
pub(crate) fn check(verb: Verb, query: &Query, applies: bool) -> Result<(), ApiError> {
    let kind = match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        _ => return Ok(()),
    };
    let mut wrong = Vec::new();
    if verb == Verb::Patch && applies && query.get("fieldManager").is_none() {
        wrong.push("fieldManager: Required value: is required for apply patch".to_owned());
    }
    if verb == Verb::Patch && !applies && query.get("force").is_some() {
        wrong.push("force: Forbidden: may not be specified for non-apply patch".to_owned());
    }
    if let Some(other) = query.get("dryRun").filter(|asked| *asked != "All") {
        wrong.push(format!("dryRun: Unsupported value: [\"{other}\"]: supported values: \"All\""));
    }
    let known = ["Ignore", "Strict", "Warn"];
    if let Some(other) = query.get("fieldValidation").filter(|asked| !known.contains(asked)) {
        let supported = "\"\", \"Ignore\", \"Strict\", \"Warn\"";
        wrong.push(format!("fieldValidation: Unsupported value: \"{other}\": supported values: {supported}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(ApiError::Options { kind, why: Causes(wrong) }) }
}
