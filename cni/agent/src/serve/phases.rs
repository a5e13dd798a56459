// SPDX-License-Identifier: Apache-2.0
//! Durations and result of an ADD, from its last log line. Lines that say nothing of it are upstream's, or others of ours.

use std::time::Duration;

use protocol::log::{ADD_MICROS, APPLY_MICROS, AddEnd, FACTS_MICROS, RESULT};
use serde_json::{Map, Value};

use crate::metrics::{AddPhase, AddResult};

/// Plausibility limit of a duration.
const LONGEST: Duration = Duration::from_secs(3600);

/// Field of the pod.
const POD: &str = "pod";

/// Fields and their phases.
const PHASES: [(&str, AddPhase); 3] =
    [(FACTS_MICROS, AddPhase::Facts), (APPLY_MICROS, AddPhase::Apply), (ADD_MICROS, AddPhase::Whole)];

/// Result of an ADD, and its phases.
pub(super) type Timed = (AddResult, Vec<(AddPhase, Duration)>);

/// Namespace and name of the pod of an ADD's last line.
pub(super) fn pod_of_line(json: &str) -> Option<(String, String)> {
    let fields: Map<String, Value> = serde_json::from_str(json).ok()?;
    let (namespace, name) = fields.get(POD)?.as_str()?.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty()).then(|| (namespace.to_owned(), name.to_owned()))
}

/// Parses an ADD's last line.
pub(super) fn of_line(json: &str) -> Option<Timed> {
    // Most lines are none: no need to read them for that.
    if !json.contains(ADD_MICROS) {
        return None;
    }
    let fields: Map<String, Value> = serde_json::from_str(json).ok()?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let took =
        |name: &str| text(name)?.parse().ok().map(Duration::from_micros).filter(|took| *took <= LONGEST);
    took(ADD_MICROS)?;
    let name = text(RESULT)?;
    let result = AddEnd::ALL.into_iter().find(|end| end.name() == name).map(AddResult::from)?;
    let phases = PHASES.into_iter().filter(|(_, phase)| phase.results().contains(&result));
    Some((result, phases.filter_map(|(field, phase)| Some((phase, took(field)?))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(count: u64) -> Duration {
        Duration::from_micros(count)
    }

    #[test]
    fn an_add_s_last_line_tells_its_phases() {
        let line = r#"{"msg":"traffic is redirected","facts_us":"310","apply_us":"2200","result":"redirected","add_us":"2900"}"#;
        let phases = vec![
            (AddPhase::Facts, micros(310)),
            (AddPhase::Apply, micros(2200)),
            (AddPhase::Whole, micros(2900)),
        ];
        assert_eq!(of_line(line), Some((AddResult::Redirected, phases)));
        let line = r#"{"msg":"pod left alone","result":"skipped","add_us":"90"}"#;
        assert_eq!(of_line(line), Some((AddResult::Skipped, vec![(AddPhase::Whole, micros(90))])));
    }

    #[test]
    fn an_add_s_last_line_names_its_pod() {
        let pod = |line| pod_of_line(line);
        let cart = Some(("shop".to_owned(), "cart".to_owned()));
        assert_eq!(pod(r#"{"pod":"shop/cart","result":"redirected","add_us":"1"}"#), cart);
        for line in [r#"{"pod":"cart"}"#, r#"{"pod":"/"}"#, r#"{"pod":7}"#, r#"{}"#, "add_us"] {
            assert_eq!(pod(line), None, "{line}");
        }
    }

    #[test]
    fn whatever_else_a_line_is_nothing_is_counted() {
        for line in [
            r#"{"level":"info","msg":"istio-cni ambient cmdAdd podName: cart"}"#,
            r#"{"msg":"a warning on the way","facts_us":"310"}"#,
            r#"{"msg":"add_us","result":"failed"}"#,
            r#"{"result":"redirected","add_us":2900}"#,
            r#"{"result":"redirected","add_us":"-1"}"#,
            r#"{"result":"redirected","add_us":"3600000001"}"#,
            r#"{"result":"redirected","add_us":"99999999999999999999999"}"#,
            r#"{"result":"splendid","add_us":"1"}"#,
            r#"{"add_us":"1"}"#,
            r#"["add_us"]"#,
            "add_us",
        ] {
            assert_eq!(of_line(line), None, "{line}");
        }
    }
}
