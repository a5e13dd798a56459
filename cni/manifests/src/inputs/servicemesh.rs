// SPDX-License-Identifier: Apache-2.0
//! `ServiceMesh` (asm.alauda.io/v1alpha1): the component `istioCni` is the node agent, `istioConfig.cni` is the injector.

use serde_json::{Map, Value};

use super::{Translated, control_plane, helm, keys, map, text};
use crate::layers::Family;
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::note::Note;
use crate::place::KeyPrefix;
use crate::values::{Provider, Values};

/// Group and version.
pub const API_VERSION: &str = "asm.alauda.io/v1alpha1";
pub const KIND: &str = "ServiceMesh";

const ENTRY: &str = "spec.componentConfig[istioCni]";
/// Prefix of values in messages.
pub const VALUES: KeyPrefix = KeyPrefix("spec.componentConfig[istioCni].cni.values.");
/// Default namespace of the node agent.
pub const NAMESPACE: &str = "kube-system";

/// Reads a document.
///
/// # Errors
/// Everything that is wrong with it.
pub fn translate(document: &Value) -> Result<Translated, Mistakes> {
    let mut mistakes = Mistakes::default();
    let spec = map(document.get("spec"), "spec")?;
    let mut all = Translated { place: VALUES, ..Translated::default() };
    if let Some(entry) = mistakes.keep(component(spec.get("componentConfig"))).flatten()
        && let Some(agent) = mistakes.keep(agent(&entry))
    {
        all = agent;
    }
    let injector = map(spec.get("istioConfig"), "spec.istioConfig")?;
    let place = "spec.istioConfig.cni";
    mistakes.keep(keys(injector.get("cni"), place, &["enabled", "provider"]));
    mistakes.keep(control_plane::section(injector.get("cni"), place, &mut all.claims));
    mistakes.none().map(|()| all)
}

/// Component of the node agent, if present.
fn component(list: Option<&Value>) -> Result<Option<Map<String, Value>>, Mistakes> {
    let list = match list {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(super::wrong("spec.componentConfig", other, "a list")),
    };
    let mut found = list.iter().filter(|entry| entry.get("name").is_some_and(|name| name == "istioCni"));
    let Some(entry) = found.next() else { return Ok(None) };
    if found.next().is_some() {
        return Err(super::wrong(
            "spec.componentConfig",
            &"istioCni twice".into(),
            "a list with one istioCni",
        ));
    }
    let entry = keys(Some(entry), ENTRY, &["name", "group", "cni"])?;
    match entry.get("group") {
        Some(group) if group == "istio" => Ok(Some(entry)),
        group => Err(super::wrong(&format!("{ENTRY}.group"), group.unwrap_or(&Value::Null), "\"istio\"")),
    }
}

fn agent(entry: &Map<String, Value>) -> Result<Translated, Mistakes> {
    let mut mistakes = Mistakes::default();
    let place = format!("{ENTRY}.cni");
    let cni = keys(entry.get("cni"), &place, &["namespace", "values"])?;
    let namespace = mistakes.keep(text(cni.get("namespace"), &format!("{place}.namespace"))).flatten();
    let mut values = map(cni.get("values"), &format!("{place}.values"))?;
    // In this document an empty text is no choice.
    values.retain(|_, value| value.as_str() != Some(""));
    let mut all = mistakes.keep(helm::translate(&Value::Object(values), VALUES)).unwrap_or_default();
    // It is this document's own spelling.
    all.notes.retain(|note| !matches!(note, Note::Former { new, .. } if new == "logging.pluginLevel"));
    all.namespace = namespace;
    (all.installs, all.place) = (true, VALUES);
    mistakes.none().map(|()| all)
}

/// OpenShift has Multus: nothing else works there.
///
/// # Errors
/// Values that say otherwise.
pub fn on_openshift(values: &Values) -> Result<(), Mistakes> {
    if values.platform != "openshift" {
        return Ok(());
    }
    let platform = GivenValue::new(Family::Platform.field(), values.platform.clone());
    let rule = |field: &str, value: Value, want: &str| Mistake::Contradiction {
        one: GivenValue::new(VALUES.name(field), value),
        other: platform.clone(),
        why: format!("OpenShift runs the plugin by Multus; set {want}, or leave it out"),
    };
    let mut mistakes = Mistakes::default();
    if values.chained {
        mistakes.0.push(rule("chained", true.into(), "chained: false"));
    }
    if values.provider == Provider::Default {
        mistakes.0.push(rule("provider", "default".into(), "provider: multus"));
    }
    mistakes.none()
}
