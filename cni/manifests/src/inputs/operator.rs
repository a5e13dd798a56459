// SPDX-License-Identifier: Apache-2.0
//! `IstioOperator` (install.istio.io/v1alpha1): the whole mesh, of which the component `cni` and its values are ours. What else it says
//! is left to whoever installs the control plane.

use serde_json::{Map, Value, json};

use super::{Translated, helm, keys, map, text, truth};
use crate::layers::{Family, get, put};
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::note::Note;
use crate::place::{KeyPrefix, OPERATOR, OUTSIDE};
use crate::skew::{self, Minor, Skew};

/// Group and version.
pub const API_VERSION: &str = "install.istio.io/v1alpha1";
pub const KIND: &str = "IstioOperator";

/// Prefix of values in messages.
pub const VALUES: KeyPrefix = OPERATOR;
const COMPONENT: &str = "spec.components.cni";

/// Known fields of the document; most are the control plane's.
const SPEC: [&str; 15] = [
    "addonComponents",
    "compatibilityVersion",
    "components",
    "hub",
    "installPackagePath",
    "meshConfig",
    "namespace",
    "profile",
    "resourceSuffix",
    "revision",
    "rootNamespace",
    "tag",
    "unvalidatedValues",
    "values",
    "customComponents",
];

/// Kubernetes settings of the component, with our values for them.
const SETTINGS: [(&str, &str); 6] = [
    ("affinity", "affinity"),
    ("imagePullPolicy", "pullPolicy"),
    ("podAnnotations", "podAnnotations"),
    ("resources", "resources"),
    ("strategy", "updateStrategy"),
    ("tolerations", "tolerations"),
];

/// Reads a document.
///
/// # Errors
/// Everything that is wrong with it.
pub fn translate(document: &Value) -> Result<Translated, Mistakes> {
    let mut mistakes = Mistakes::default();
    let spec = map(document.get("spec"), "spec")?;
    mistakes.keep(keys(document.get("spec"), "spec", &SPEC));
    let Some(values) = mistakes.keep(values(document, &spec)) else { return Err(mistakes) };
    let Some(mut all) = mistakes.keep(helm::translate(&values, VALUES)) else { return Err(mistakes) };
    mistakes.keep(whole(&spec, &mut all));
    let hub = if spec.contains_key("hub") { "spec.hub".to_owned() } else { VALUES.name("global.hub") };
    all.mesh_hub = get(&all.values, "global.hub").map(|given| GivenValue::new(hub, given.clone()));
    let components = mistakes.keep(map(spec.get("components"), "spec.components")).unwrap_or_default();
    mistakes.keep(component(&spec, components.get("cni"), &mut all));
    mistakes.none().map(|()| all)
}

/// The values that concern us. They stand in `spec`; beside it they are accepted, too, as people write them there.
fn values(document: &Value, spec: &Map<String, Value>) -> Result<Value, Mistakes> {
    let mut mistakes = Mistakes::default();
    let mut all = Value::Object(Map::new());
    for (place, values) in [
        ("spec.unvalidatedValues", spec.get("unvalidatedValues")),
        ("spec.values", spec.get("values")),
        ("values", document.get("values")),
    ] {
        let mut values = mistakes.keep(map(values, place)).unwrap_or_default();
        // The others are the control plane's.
        values.retain(|key, _| key == "cni" || OUTSIDE.contains(&key.as_str()));
        crate::layers::overlay(&mut all, &Value::Object(values));
    }
    mistakes.none().map(|()| all)
}

/// Mesh-wide fields.
fn whole(spec: &Map<String, Value>, all: &mut Translated) -> Result<(), Mistakes> {
    let mut mistakes = Mistakes::default();
    for (key, path) in [
        ("hub", "global.hub"),
        ("tag", "global.tag"),
        ("revision", "revision"),
        ("compatibilityVersion", "compatibilityVersion"),
    ] {
        if let Some(given) = mistakes.keep(text(spec.get(key), &format!("spec.{key}"))).flatten() {
            mistakes.keep(add(all, path, given));
        }
    }
    if let Some(given) = mistakes.keep(text(spec.get("profile"), "spec.profile")).flatten() {
        let name = given.value.as_str().unwrap_or_default().to_owned();
        let (profile, platform) = match name.as_str() {
            "openshift" => ("default", Some("openshift")),
            "openshift-ambient" => ("ambient", Some("openshift")),
            other => (other, None),
        };
        if Family::Profile.layer(profile).is_none() {
            let known = Family::Profile.names().chain(["openshift", "openshift-ambient"]).collect();
            return Err(Mistake::Name { given, known }.into());
        }
        mistakes.keep(add(all, "profile", GivenValue::new("spec.profile", profile)));
        if let Some(platform) = platform {
            mistakes.keep(add(all, "platform", GivenValue::new("spec.profile", platform)));
        }
    }
    mistakes.none()
}

/// Sets a value from a field outside of `values`.
fn add(all: &mut Translated, path: &str, given: GivenValue) -> Result<(), Mistakes> {
    match get(&all.values, path) {
        Some(there) if *there != given.value => {
            let one = GivenValue::new(VALUES.name(path), there.clone());
            Err(Mistake::Both { one, other: given }.into())
        }
        _ => {
            put(&mut all.values, path, given.value);
            Ok(())
        }
    }
}

fn component(spec: &Map<String, Value>, cni: Option<&Value>, all: &mut Translated) -> Result<(), Mistakes> {
    let mut mistakes = Mistakes::default();
    let cni = keys(cni, COMPONENT, &["enabled", "namespace", "hub", "tag", "k8s", "spec"])?;
    let by_profile = matches!(
        spec.get("profile").and_then(Value::as_str),
        Some("ambient" | "openshift" | "openshift-ambient")
    );
    let is_on = mistakes.keep(truth(cni.get("enabled"), &format!("{COMPONENT}.enabled"))).flatten();
    all.installs = is_on.unwrap_or(by_profile);
    for key in ["hub", "tag"] {
        if let Some(given) = mistakes.keep(text(cni.get(key), &format!("{COMPONENT}.{key}"))).flatten() {
            mistakes.keep(add(all, key, given));
        }
    }
    mistakes.keep(kubernetes(cni.get("k8s"), all));
    let own = mistakes.keep(namespace(cni.get("namespace"), &format!("{COMPONENT}.namespace"))).flatten();
    let of_mesh = mistakes.keep(namespace(spec.get("namespace"), "spec.namespace")).flatten();
    all.namespace = own.or(of_mesh).or_else(|| {
        let mesh = get(spec.get("values")?, "global.istioNamespace")?;
        Some(GivenValue::new("spec.values.global.istioNamespace", mesh.clone())).filter(|_| mesh.is_string())
    });
    if all.installs {
        all.notes.extend(skew(all));
        all.notes.extend(singleton(spec));
    }
    mistakes.none()
}

/// A namespace; an empty text names none.
fn namespace(value: Option<&Value>, place: &str) -> Result<Option<GivenValue>, Mistakes> {
    Ok(text(value, place)?.filter(|given| given.value != ""))
}

/// `k8s` of the component.
fn kubernetes(k8s: Option<&Value>, all: &mut Translated) -> Result<(), Mistakes> {
    let place = format!("{COMPONENT}.k8s");
    let mut mistakes = Mistakes::default();
    for (key, value) in map(k8s, &place)? {
        let given = GivenValue::new(format!("{place}.{key}"), value.clone());
        if let Some((_, path)) = SETTINGS.iter().find(|(known, _)| *known == key) {
            mistakes.keep(checked(all, path, given));
        } else if key == "env" {
            mistakes.keep(env(all, given));
        } else {
            let wanted = "left out: it has no value of ours; change the rendered object instead".to_owned();
            mistakes.0.push(Mistake::Wrong { given, wanted });
        }
    }
    mistakes.none()
}

fn checked(all: &mut Translated, path: &str, given: GivenValue) -> Result<(), Mistakes> {
    let kind = crate::table::find(path).map(|field| field.kind);
    match kind {
        Some(kind) if !kind.holds(&given.value) => {
            Err(Mistake::Wrong { given, wanted: kind.wanted() }.into())
        }
        _ => add(all, path, given),
    }
}

fn env(all: &mut Translated, given: GivenValue) -> Result<(), Mistakes> {
    let pairs: Option<Map<String, Value>> = given.value.as_array().and_then(|list| {
        let pair = |entry: &Value| {
            let value = entry.get("value").filter(|value| value.is_string())?;
            Some((entry.get("name")?.as_str()?.to_owned(), value.clone()))
        };
        list.iter().map(pair).collect()
    });
    match pairs {
        Some(pairs) => add(all, "env", GivenValue { field: given.field, value: pairs.into() }),
        None => {
            Err(Mistake::Wrong { given, wanted: "a list of {name, value}, both texts".to_owned() }.into())
        }
    }
}

/// Tags whose version skew is unsupported.
fn skew(all: &Translated) -> Option<Note> {
    let tag = |path: &str| get(&all.values, path).and_then(Value::as_str);
    let (agent, plane) = (tag("tag")?, tag("global.tag")?);
    let judged = skew::judge(Minor::of(agent)?, Minor::of(plane)?);
    (judged == Skew::Beyond).then(|| {
        Note::Warning(format!(
            "node agent {agent} with control plane {plane}: they go together up to one minor version apart; upgrade step by step"
        ))
    })
}

/// A revisioned control plane and a node agent in one document.
fn singleton(spec: &Map<String, Value>) -> Option<Note> {
    let revision = spec.get("revision")?.as_str().filter(|revision| !revision.is_empty())?;
    Some(Note::Plain(format!(
        "spec.revision: {}: the node agent is one per cluster, for all revisions; a document of its own with profile: empty keeps its upgrades apart",
        json!(revision)
    )))
}
