// SPDX-License-Identifier: Apache-2.0
//! Claims about the control plane: its injector relies on the node agent, and how pods request the plugin. They are not rendered but
//! checked against the rendering.

use serde_json::Value;

use super::Translated;
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::note::Note;
use crate::place::KeyPrefix;
use crate::values::{Provider, Values};

/// Pods' annotation for networks of Multus.
const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";

/// Subject of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Pods get `istio-validation` instead of `istio-init`.
    Enabled(bool),
    /// Runner of the plugin.
    Provider(Provider),
}

/// A claim about the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlaneClaim {
    /// Subject.
    pub what: What,
    /// Its source.
    pub given: GivenValue,
}

/// Reads `enabled`, `provider` and the old `chained` of a section.
///
/// # Errors
/// Values of the wrong kind.
pub(super) fn section(
    value: Option<&Value>,
    place: &str,
    claims: &mut Vec<ControlPlaneClaim>,
) -> Result<(), Mistakes> {
    let map = super::map(value, place)?;
    let mut mistakes = Mistakes::default();
    let mut add = |what, key: &str| {
        let given = GivenValue::new(format!("{place}.{key}"), map.get(key).cloned().unwrap_or_default());
        claims.push(ControlPlaneClaim { what, given });
    };
    if let Some(is_on) =
        mistakes.keep(super::truth(map.get("enabled"), &format!("{place}.enabled"))).flatten()
    {
        add(What::Enabled(is_on), "enabled");
    }
    if let Some(is_on) =
        mistakes.keep(super::truth(map.get("chained"), &format!("{place}.chained"))).flatten()
    {
        add(What::Provider(if is_on { Provider::Default } else { Provider::Multus }), "chained");
    }
    match map.get("provider") {
        None | Some(Value::Null) => {}
        Some(value) => match provider(value) {
            Some(provider) => add(What::Provider(provider), "provider"),
            None => mistakes.0.extend(
                super::wrong(&format!("{place}.provider"), value, "one of \"default\", \"multus\"").0,
            ),
        },
    }
    mistakes.none()
}

fn provider(value: &Value) -> Option<Provider> {
    serde_json::from_value(value.clone()).ok()
}

/// Reads `injectedAnnotations`: pods that name the plugin's network are Multus' business.
pub(super) fn annotations(value: Option<&Value>, place: &str, all: &mut Translated) {
    let Some(value) = value.and_then(|annotations| annotations.get(NETWORKS)) else { return };
    let given = GivenValue::new(format!("{place}.{NETWORKS}"), value.clone());
    let names: Vec<_> = value.as_str().unwrap_or_default().split(',').map(str::trim).collect();
    if names.contains(&"istio-cni") {
        all.notes.push(Note::Warning(format!(
            "{given}: looked for in the namespace of each pod; the one that is rendered is default/istio-cni: write that here, or leave \
             it to the control plane (pilot.cni.provider=multus), or apply the NetworkAttachmentDefinition in each namespace with pods of the mesh"
        )));
    }
    if names.iter().any(|name| name.rsplit('/').next() == Some("istio-cni")) {
        all.claims.push(ControlPlaneClaim { what: What::Provider(Provider::Multus), given });
    }
}

/// Claimed provider, if any.
#[must_use]
pub fn claimed(claims: &[ControlPlaneClaim]) -> Option<Provider> {
    claims.iter().find_map(|claim| match claim.what {
        What::Provider(provider) => Some(provider),
        What::Enabled(_) => None,
    })
}

/// Claims among themselves: two that differ cannot both hold.
///
/// # Errors
/// Those that differ.
pub fn agree(claims: &[ControlPlaneClaim]) -> Result<(), Mistakes> {
    let mut mistakes = Mistakes::default();
    for (i, one) in claims.iter().enumerate() {
        let same = |other: &&ControlPlaneClaim| {
            std::mem::discriminant(&one.what) == std::mem::discriminant(&other.what)
        };
        if let Some(other) = claims[i + 1..].iter().filter(same).find(|other| other.what != one.what) {
            mistakes.0.push(Mistake::Contradiction {
                one: one.given.clone(),
                other: other.given.clone(),
                why: "both are said of the control plane".to_owned(),
            });
        }
    }
    mistakes.none()
}

/// Checks claims against the node agent; returns settings for the control plane.
///
/// # Errors
/// A provider that is not the node agent's; `place` goes in front of that one's name.
pub fn fits(claims: &[ControlPlaneClaim], values: &Values, place: KeyPrefix) -> Result<Vec<Note>, Mistakes> {
    let mut notes = Vec::new();
    for claim in claims {
        match claim.what {
            What::Provider(provider) if provider != values.provider => {
                let word = if values.provider == Provider::Multus { "multus" } else { "default" };
                return Err(Mistake::Contradiction {
                    one: claim.given.clone(),
                    other: GivenValue::new(place.name("provider"), word),
                    why: "injector and node agent must have the same provider, or pods come up without redirection".to_owned(),
                }
                .into());
            }
            What::Enabled(false) => notes.push(Note::Warning(format!(
                "{}: pods get istio-init, and the plugin leaves those alone; the node agent has nothing to do until it is true",
                claim.given
            ))),
            _ => {}
        }
    }
    let mut settings = vec!["pilot.cni.enabled=true".to_owned()];
    if values.provider == Provider::Multus {
        settings.push("pilot.cni.provider=multus".to_owned());
    }
    notes.push(Note::ControlPlane(settings));
    Ok(notes)
}

/// Hints where no node agent is installed.
#[must_use]
pub fn without_agent(claims: &[ControlPlaneClaim]) -> Vec<Note> {
    let counts_on_it = claims.iter().find(|claim| claim.what == What::Enabled(true));
    let warning = counts_on_it.map(|claim| {
        Note::Warning(format!(
            "{}: pods wait in istio-validation until a node agent is installed",
            claim.given
        ))
    });
    let settings = claims.iter().map(|claim| match claim.what {
        What::Enabled(is_on) => format!("pilot.cni.enabled={is_on}"),
        What::Provider(Provider::Default) => "pilot.cni.provider=default".to_owned(),
        What::Provider(Provider::Multus) => "pilot.cni.provider=multus".to_owned(),
    });
    let settings: Vec<_> = settings.collect();
    let note = (!settings.is_empty()).then_some(Note::ControlPlane(settings));
    warning.into_iter().chain(note).collect()
}
