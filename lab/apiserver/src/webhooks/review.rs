// SPDX-License-Identifier: Apache-2.0
//! `AdmissionReview`: what a webhook is asked, and what its answer means. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::hooks::Stage;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Meaning of an answer.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) verdict: Verdict,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// With a JSON patch, perhaps.
    Allowed(Option<Value>),
    /// Its patch is no JSON.
    Undecodable(String),
    Denied {
        why: String,
        code: StatusCode,
        has_reason: bool,
    },
}

pub(super) fn request(uid: &str, mut request: Value, object: &Value) -> Value {
    request["uid"] = json!(uid);
    request["object"] = object.clone();
    request["oldObject"] = Value::Null;
    request["options"] = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(fields) = request.as_object_mut() {
        fields.retain(|_, value| *value != "");
    }
    json!({"kind": KIND, "apiVersion": API_VERSION, "request": request})
}

/// # Errors
/// The answer is none, in the real server's words.
pub(super) fn read(uid: &str, stage: Stage, answer: &Value) -> Result<Read, String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    let given = response["uid"].as_str().unwrap_or_default();
    if given != uid {
        return Err(format!("expected response.uid=\"{uid}\", got \"{given}\""));
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if version != API_VERSION || kind != KIND {
        return Err(format!(
            "expected webhook response of {API_VERSION}, Kind={KIND}, got {version}, Kind={kind}"
        ));
    }
    let patch = patch(stage, response)?;
    let warnings = response["warnings"].as_array().into_iter().flatten().map(text).collect();
    let verdict = match (response["allowed"] == true, patch) {
        (false, _) => denied(&response["status"]),
        (true, None) => Verdict::Allowed(None),
        (true, Some(encoded)) => decoded(&encoded).map_or_else(Verdict::Undecodable, |patch| {
            Verdict::Allowed(Some(patch).filter(|patch| *patch != json!([])))
        }),
    };
    Ok(Read { verdict, warnings })
}

/// Patch as it was sent.
fn patch(stage: Stage, response: &Value) -> Result<Option<String>, String> {
    let text = |field: &str| response[field].as_str().filter(|text| !text.is_empty());
    match (stage, text("patch"), text("patchType")) {
        (_, None, None) => Ok(None),
        (Stage::Validating, ..) => Err("validating webhook may not return response.patch".to_owned()),
        (_, Some(_), None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (_, None, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (_, Some(patch), Some("JSONPatch")) => Ok(Some(patch.to_owned())),
        (_, Some(_), Some(other)) => {
            Err(format!("webhook returned invalid response.patchType of \"{other}\""))
        }
    }
}

fn decoded(patch: &str) -> Result<Value, String> {
    let bytes = STANDARD.decode(patch).map_err(|error| error.to_string())?;
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

fn denied(status: &Value) -> Verdict {
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let code = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::BAD_REQUEST);
    let said = |field: &str| status[field].as_str().filter(|text| !text.is_empty());
    let why = said("message").or_else(|| said("reason"));
    let why = why.map_or_else(|| " without explanation".to_owned(), |why| format!(": {why}"));
    Verdict::Denied { why, code, has_reason: said("reason").is_some() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: &Value) -> Value {
        let mut response = response.clone();
        response["uid"] = json!("u");
        json!({"kind": KIND, "apiVersion": API_VERSION, "response": response})
    }

    fn verdict(response: &Value) -> Verdict {
        read("u", Stage::Mutating, &answer(response)).unwrap().verdict
    }

    #[test]
    fn an_answer_that_is_none_says_why() {
        let base = answer(&json!({"allowed": true}));
        let changed = |path: &str, value: Value| {
            let mut answer = base.clone();
            *answer.pointer_mut(path).unwrap() = value;
            answer
        };
        let patch = |response: Value| answer(&response);
        for (answer, stage, why) in [
            (json!({}), Stage::Mutating, "webhook response was absent"),
            (changed("/response/uid", json!("v")), Stage::Mutating, "expected response.uid=\"u\", got \"v\""),
            (
                changed("/apiVersion", json!("admission.k8s.io/v1beta1")),
                Stage::Mutating,
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got admission.k8s.io/v1beta1, Kind=AdmissionReview",
            ),
            (
                patch(json!({"patch": "W10="})),
                Stage::Mutating,
                "webhook returned response.patch but not response.patchType",
            ),
            (
                patch(json!({"patchType": "JSONPatch"})),
                Stage::Mutating,
                "webhook returned response.patchType but not response.patch",
            ),
            (
                patch(json!({"patch": "W10=", "patchType": "Merge"})),
                Stage::Mutating,
                "webhook returned invalid response.patchType of \"Merge\"",
            ),
            (
                patch(json!({"patch": "W10=", "patchType": "JSONPatch"})),
                Stage::Validating,
                "validating webhook may not return response.patch",
            ),
        ] {
            assert_eq!(read("u", stage, &answer), Err(why.to_owned()), "{answer}");
        }
    }

    #[test]
    fn a_patch_is_json_in_base64_and_an_empty_one_is_none() {
        let with =
            |patch: &str| json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch)});
        assert_eq!(verdict(&with("[]")), Verdict::Allowed(None));
        assert_eq!(verdict(&with("[1]")), Verdict::Allowed(Some(json!([1]))));
        assert!(matches!(verdict(&with("[")), Verdict::Undecodable(_)));
        let warned = answer(&json!({"allowed": true, "warnings": ["old"]}));
        assert_eq!(read("u", Stage::Validating, &warned).unwrap().warnings, ["old"]);
    }

    #[test]
    fn a_denial_has_the_webhooks_own_words_and_code() {
        let denied = |status: Value| verdict(&json!({"allowed": false, "status": status}));
        let of = |why: &str, code: u16, has_reason| Verdict::Denied {
            why: why.to_owned(),
            code: StatusCode::from_u16(code).unwrap(),
            has_reason,
        };
        assert_eq!(denied(Value::Null), of(" without explanation", 400, false));
        assert_eq!(
            denied(json!({"message": "no", "code": 403, "reason": "Forbidden"})),
            of(": no", 403, true)
        );
        assert_eq!(denied(json!({"reason": "Forbidden"})), of(": Forbidden", 400, true));
    }
}
