// SPDX-License-Identifier: Apache-2.0
//! Values that charts up to 1.25 had: what they are called now, and those that nothing reads any more.

use std::fmt::Write as _;

use serde_json::Value;

use crate::layers::{get, put};
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::note::Note;
use crate::place::KeyPrefix;

/// Former spellings: the old path, the new one, and since when.
const RENAMED: [(&str, &str, &str); 2] = [
    ("logLevel", "logging.pluginLevel", "1.24"),
    ("rollingMaxUnavailable", "updateStrategy.rollingUpdate.maxUnavailable", "1.26"),
];

/// Values that are no longer read, and why.
const UNREAD: [(&str, &str); 4] = [
    ("privileged", "the agent has the capabilities that its mode needs, and no more"),
    ("psp_cluster_role", "Kubernetes has no PodSecurityPolicy since 1.25"),
    ("ambient.redirectMode", "this agent serves sidecars only"),
    ("resourceQuotas.priorityClasses", "the agent has the class system-node-critical"),
];

/// Of the charts 1.8 to 1.17. Off asks for nothing.
pub const TAINT_ENABLED: &str = "taint.enabled";

/// Its present spelling, where it is on.
const TAINT: (&str, &str) = (TAINT_ENABLED, "taint.mode");

/// Translates former spellings in values without the prefix `cni.`; `place` goes in front of names that are told.
///
/// # Errors
/// An old and a new spelling that differ.
pub(super) fn translate(values: &mut Value, place: KeyPrefix, notes: &mut Vec<Note>) -> Result<(), Mistakes> {
    let mut mistakes = Mistakes::default();
    for (old, new, _) in RENAMED {
        if let Some(value) = take(values, old) {
            mistakes.keep(rename(values, place, (old, new), value, notes));
        }
    }
    match take(values, TAINT.0) {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => {
            mistakes.keep(rename(values, place, TAINT, "readiness".into(), notes));
        }
        Some(other) => mistakes.0.extend(super::wrong(&place.name(TAINT.0), &other, "true or false").0),
    }
    for (old, why) in UNREAD {
        if let Some(value) = take(values, old) {
            notes.push(Note::Unread { given: GivenValue::new(place.name(old), value), why });
        }
    }
    mistakes.none()
}

fn rename(
    values: &mut Value,
    place: KeyPrefix,
    (old, new): (&str, &str),
    value: Value,
    notes: &mut Vec<Note>,
) -> Result<(), Mistakes> {
    match get(values, new) {
        Some(there) if *there != value => {
            let one = GivenValue::new(place.name(new), there.clone());
            return Err(Mistake::Both { one, other: GivenValue::new(place.name(old), value) }.into());
        }
        _ => put(values, new, value),
    }
    notes.push(Note::Former { old: place.name(old), new: new.to_owned() });
    Ok(())
}

/// Removes a value, if it is set.
fn take(values: &mut Value, path: &str) -> Option<Value> {
    let (group, key) = path.rsplit_once('.').map_or((None, path), |(group, key)| (Some(group), key));
    let group = match group {
        Some(group) => values.get_mut(group)?,
        None => values,
    };
    group.as_object_mut()?.remove(key).filter(|value| !value.is_null())
}

/// Those that the chart accepts, too. [`TAINT_ENABLED`] is not among them: on, at the root, it is istiod's.
pub fn spellings() -> impl Iterator<Item = &'static str> {
    RENAMED.iter().map(|(old, ..)| *old).chain(UNREAD.iter().map(|(old, _)| *old))
}

/// Section of the page of values about them.
#[must_use]
pub fn guide() -> String {
    let mut text = "\n## Former spellings\n\n`install-cni manifests` translates them and says so; the chart translates them, too, but for `taint.enabled: true`, which it refuses. `--show-values` \
                    prints the values in the present spelling.\n\n| former | now |\n|---|---|\n"
        .to_owned();
    for (old, new, since) in RENAMED {
        let _ = writeln!(text, "| `{old}` | `{new}`, since {since} |");
    }
    let _ = writeln!(text, "| `{}: true` | `{}: readiness` |", TAINT.0, TAINT.1);
    let _ = writeln!(text, "| `{TAINT_ENABLED}: false` | no effect: no taint is the default |");
    for (old, why) in UNREAD {
        let _ = writeln!(text, "| `{old}` | no effect: {why} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn former_spellings_become_the_present_ones_and_are_told() {
        let mut values = json!({
            "logLevel": "debug", "rollingMaxUnavailable": "10%", "taint": {"enabled": true}, "privileged": true, "psp_cluster_role": null,
        });
        let mut notes = Vec::new();
        translate(&mut values, KeyPrefix("cni."), &mut notes).unwrap();
        let want = json!({
            "logging": {"pluginLevel": "debug"}, "updateStrategy": {"rollingUpdate": {"maxUnavailable": "10%"}}, "taint": {"mode": "readiness"},
        });
        assert_eq!(values, want);
        let texts: Vec<_> = notes.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "note: cni.logLevel is logging.pluginLevel now",
                "note: cni.rollingMaxUnavailable is updateStrategy.rollingUpdate.maxUnavailable now",
                "note: cni.taint.enabled is taint.mode now",
                "note: cni.privileged: true has no effect: the agent has the capabilities that its mode needs, and no more",
            ]
        );
    }

    #[test]
    fn a_taint_that_is_off_asks_for_nothing() {
        for (mut values, want) in [
            (json!({"taint": {"enabled": false}}), json!({"taint": {}})),
            (json!({"taint": {"enabled": false, "mode": "node"}}), json!({"taint": {"mode": "node"}})),
        ] {
            let mut notes = Vec::new();
            translate(&mut values, KeyPrefix::default(), &mut notes).unwrap();
            assert_eq!((values, notes), (want, Vec::new()));
        }
    }

    #[test]
    fn an_old_and_a_new_spelling_that_differ_are_named_both() {
        let mut values =
            json!({"logLevel": "debug", "logging": {"pluginLevel": "info"}, "taint": {"enabled": "yes"}});
        let error = translate(&mut values, KeyPrefix::default(), &mut Vec::new()).unwrap_err().to_string();
        let want = "logging.pluginLevel: \"info\" and logLevel: \"debug\" are one value: give it once\n\
                    taint.enabled: \"yes\": must be true or false";
        assert_eq!(error, want);
        let mut values = json!({"logLevel": "info", "logging": {"pluginLevel": "info"}});
        translate(&mut values, KeyPrefix::default(), &mut Vec::new()).unwrap();
    }
}
