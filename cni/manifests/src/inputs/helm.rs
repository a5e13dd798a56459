// SPDX-License-Identifier: Apache-2.0
//! Values of charts, old and new: ours, below `cni` or not, and what of istiod's concerns us.

use serde_json::Value;

use super::control_plane::{annotations, section};
use super::{Translated, former, truth};
use crate::check;
use crate::layers::{get, settle_null};
use crate::mistake::Mistakes;
use crate::note::Note;
use crate::place::KeyPrefix;
use crate::spelling;

/// Translates values as they are written for a chart; `place` goes in front of names that are told.
///
/// # Errors
/// Everything that is wrong with them.
pub fn translate(values: &Value, place: KeyPrefix) -> Result<Translated, Mistakes> {
    let mut values = values.clone();
    settle_null(&mut values);
    let mut all = Translated { place, installs: true, ..Translated::default() };
    let mut mistakes = Mistakes::default();
    for (section_of, name) in
        [(get(&values, "pilot.cni"), "pilot.cni"), (values.get("istio_cni"), "istio_cni")]
    {
        mistakes.keep(section(section_of, &place.name(name), &mut all.claims));
    }
    let injected =
        values.get("sidecarInjectorWebhook").and_then(|webhook| webhook.get("injectedAnnotations"));
    annotations(injected, &place.name("sidecarInjectorWebhook.injectedAnnotations"), &mut all);

    of_istiod(&mut values, place, &mut all);
    let Some(mut values) = mistakes.keep(spelling::one(&values)) else { return Err(mistakes) };
    let enabled = values.as_object_mut().and_then(|map| map.remove("enabled"));
    if let Some(is_on) = mistakes.keep(truth(enabled.as_ref(), &place.name("enabled"))).flatten() {
        all.installs = is_on;
    }
    mistakes.keep(former::translate(&mut values, place, &mut all.notes));
    mistakes.keep(check::check(&mut values, place));
    all.values = values;
    mistakes.none().map(|()| all)
}

/// `taint.enabled` at the root is istiod's: its own controller. The chart's former one stands below `cni`.
fn of_istiod(values: &mut Value, place: KeyPrefix, all: &mut Translated) {
    let Some(taint) = values.get_mut("taint").and_then(Value::as_object_mut) else { return };
    let is_on = taint.remove("enabled") == Some(Value::Bool(true));
    let namespace = taint.remove("namespace");
    if is_on || namespace.is_some() {
        all.notes.push(Note::Plain(format!(
            "{} and {} are the control plane's; taint.mode: untaint renders a controller of ours",
            place.name("taint.enabled"),
            place.name("taint.namespace")
        )));
    }
}
