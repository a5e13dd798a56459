// SPDX-License-Identifier: Apache-2.0
//! All inputs of one call, together: documents, over them files of values, over those `--set`.

use serde_json::{Map, Value};

use super::{Translated, control_plane, helm, operator, servicemesh, set};
use crate::document;
use crate::layers::{Family, get, overlay, put};
use crate::mistake::{GivenValue, Mistake, Mistakes};
use crate::note::Note;
use crate::place::KeyPrefix;
use crate::render::image;
use crate::resolve::Context;
use crate::values::{Provider, Values};

/// A text with its name for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedText {
    /// Path, or `-`.
    pub name: String,
    /// Content.
    pub text: String,
}

/// All inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// `ServiceMesh` and `IstioOperator` documents.
    pub documents: Vec<NamedText>,
    /// Values of the chart; a later file wins.
    pub values: Vec<NamedText>,
    /// `--set`; wins over the files.
    pub set: Vec<String>,
    /// The namespace that was asked for besides them; it wins over that of a document.
    pub namespace: Option<String>,
}

/// Warning for a mesh in ambient mode; the chart's notes have it as well.
const AMBIENT: &str = "ambient.enabled is true, and this node agent serves sidecars only: pods of ambient mode start without redirection, past ztunnel";

#[derive(Debug, Clone, PartialEq)]
pub struct Installation {
    /// Values; `None` if no node agent is to be installed.
    pub values: Option<Values>,
    /// Hints for the operator.
    pub notes: Vec<Note>,
}

/// Puts all inputs together.
///
/// # Errors
/// Everything that is wrong with them.
pub fn install(sources: &Sources, context: &Context) -> Result<Installation, Mistakes> {
    let mut mistakes = Mistakes::default();
    mistakes.keep(context.check());
    let documents = mistakes.keep(documents(&sources.documents)).unwrap_or_default();
    let helm = mistakes.keep(charts(sources)).unwrap_or_default();
    mistakes.none()?;

    let is_mesh = documents.iter().any(|document| document.place == servicemesh::VALUES);
    let mut all = Translated { installs: sources.documents.is_empty(), ..Translated::default() };
    documents.into_iter().for_each(|document| all.absorb(document));
    let asked = all.installs;
    let place = if helm.values == Value::Object(Map::new()) { all.place } else { KeyPrefix::default() };
    let helm_installs = helm.installs;
    all.absorb(helm);
    all.installs = helm_installs && (asked || (is_mesh && on_openshift(&all, context)));
    control_plane::agree(&all.claims)?;
    if !all.installs && !context.purge {
        let warning = Note::Warning("nothing is installed: no input asks for the node agent".to_owned());
        let notes = all.notes.into_iter().chain([warning]).chain(control_plane::without_agent(&all.claims));
        return Ok(Installation { values: None, notes: notes.collect() });
    }
    resolved(all, place, is_mesh, &sources.namespace, context)
}

fn resolved(
    mut all: Translated,
    place: KeyPrefix,
    is_mesh: bool,
    namespace: &Option<String>,
    context: &Context,
) -> Result<Installation, Mistakes> {
    if get(&all.values, "provider").is_none() && control_plane::claimed(&all.claims) == Some(Provider::Multus)
    {
        put(&mut all.values, "provider", "multus".into());
    }
    if place == operator::VALUES {
        all.notes.extend(openshift_by_directories(&mut all.values, context));
    }
    let mut context = Context { place, ..context.clone() };
    let of_document = all.namespace.as_ref().and_then(|given| given.value.as_str());
    let of_document = of_document.or(is_mesh.then_some(servicemesh::NAMESPACE));
    if let Some(namespace) = namespace.as_deref().or(of_document) {
        namespace.clone_into(&mut context.release.namespace);
    }
    let values = Values::resolve(&all.values, &context)?;
    if is_mesh {
        servicemesh::on_openshift(&values)?;
    }
    let mut notes = all.notes;
    notes.extend(values.ambient.enabled.then(|| Note::Warning(AMBIENT.to_owned())));
    notes.extend(all.mesh_hub.and_then(|hub| of_mesh(&hub, &values)));
    if !all.claims.is_empty() || place != KeyPrefix::default() {
        notes.extend(control_plane::fits(&all.claims, &values, place)?);
    }
    Ok(Installation { values: Some(values), notes })
}

/// A mesh's hub has upstream's program under the same name.
fn of_mesh(hub: &GivenValue, values: &Values) -> Option<Note> {
    let is_alone = !values.image.contains('/') && values.hub.is_empty() && values.tag.is_empty();
    (is_alone && hub.value == values.global.hub).then(|| {
        Note::Warning(format!(
            "{hub}: the control plane's, and nothing else names the node agent's image: {} may be upstream's program; name this one's with \
             --image, or with spec.components.cni.hub and tag",
            image(values)
        ))
    })
}

/// On OpenShift a mesh has the node agent unless it says otherwise.
fn on_openshift(all: &Translated, context: &Context) -> bool {
    let named = get(&all.values, "platform").and_then(Value::as_str);
    context.platform.as_deref().or(named) == Some("openshift")
}

/// Documents for OpenShift name its directories and, as upstream's did, not the platform: that the agent needs a security context constraint
/// and an `SELinux` type there follows from it.
fn openshift_by_directories(values: &mut Value, context: &Context) -> Option<Note> {
    const PLATFORM: &str = "openshift";
    let field = Family::Platform.field();
    if context.platform.is_some() || get(values, field).is_some() || get(values, "global.platform").is_some()
    {
        return None;
    }
    let openshift = Family::Platform.layer(PLATFORM)?;
    let same = |path: &str| get(values, path).is_some_and(|value| get(&openshift, path) == Some(value));
    let given = GivenValue::new(operator::VALUES.name("cniConfDir"), get(values, "cniConfDir")?.clone());
    if !["cniBinDir", "cniConfDir"].into_iter().all(same) {
        return None;
    }
    put(values, field, PLATFORM.into());
    Some(Note::Plain(format!("{given}: that is OpenShift, so it is installed for platform: \"{PLATFORM}\"")))
}

fn documents(sources: &[NamedText]) -> Result<Vec<Translated>, Mistakes> {
    let mut mistakes = Mistakes::default();
    let mut all = Vec::new();
    for source in sources {
        let documents = mistakes.keep(document::read(&source.name, &source.text)).unwrap_or_default();
        for document in &documents {
            // As kubectl prints several objects.
            let items =
                document.get("items").and_then(Value::as_array).filter(|_| document["kind"] == "List");
            let items = items.map_or(std::slice::from_ref(document), Vec::as_slice);
            all.extend(items.iter().filter_map(|item| mistakes.keep(one(&source.name, item))));
        }
    }
    mistakes.none().map(|()| all)
}

fn one(name: &str, document: &Value) -> Result<Translated, Mistakes> {
    let word = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
    match (word("apiVersion"), word("kind")) {
        (servicemesh::API_VERSION, servicemesh::KIND) => servicemesh::translate(document),
        (operator::API_VERSION, operator::KIND) => operator::translate(document),
        (version, kind) => Err(Mistake::Document {
            what: name.to_owned(),
            why: format!(
                "apiVersion \"{version}\", kind \"{kind}\": neither {} {} nor {} {}; values of the chart go to --values",
                servicemesh::API_VERSION,
                servicemesh::KIND,
                operator::API_VERSION,
                operator::KIND
            ),
        }
        .into()),
    }
}

/// Files of values and `--set`, merged as Helm merges them before the chart sees them.
fn charts(sources: &Sources) -> Result<Translated, Mistakes> {
    let mut mistakes = Mistakes::default();
    let mut all = Value::Object(Map::new());
    for source in &sources.values {
        for document in mistakes.keep(document::read(&source.name, &source.text)).unwrap_or_default() {
            if document.is_object() {
                overlay(&mut all, &document);
            } else {
                let why = format!("{document}: values are a map");
                mistakes.0.push(Mistake::Document { what: source.name.clone(), why });
            }
        }
    }
    for word in &sources.set {
        mistakes.keep(set::apply(&mut all, word));
    }
    let translated = mistakes.keep(helm::translate(&all, KeyPrefix::default()));
    mistakes.none().map(|()| translated.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Server's version and settings, and whether they are refused there.
    #[test]
    fn rights_in_the_whole_cluster_are_refused_for_a_server_without_policies() {
        for (version, set, is_refused) in [
            ("v1.29.9", "repair.fallback=delete", true),
            ("v1.29.9+k3s1", "taint.mode=readiness", true),
            ("v1.29.9", "taint.mode=node,global.resourceScope=cluster", true),
            ("v1.29.9", "taint.mode=node,global.resourceScope=namespace", false),
            ("v1.29.9", "taint.mode=node,admissionPolicy.enabled=false", false),
            ("v1.29.9", "repair.repairPods=true", false),
            ("v1.30.0-gke.1", "repair.fallback=delete", false),
        ] {
            let sources = Sources { set: vec![set.to_owned()], ..Sources::default() };
            let kube_version = Some(version.to_owned());
            let image = Some("example.com/a:1".to_owned());
            let context = Context { image, kube_version, ..Context::default() };
            let refused = install(&sources, &context).err().map(|mistakes| mistakes.to_string());
            assert_eq!(refused.is_some(), is_refused, "{version} {set}: {refused:?}");
            assert!(
                refused.is_none_or(|why| why.contains("no ValidatingAdmissionPolicy")),
                "{version} {set}"
            );
        }
    }

    #[test]
    fn ambient_is_warned_about_here_and_in_the_charts_notes() {
        let warned = |set: &str| {
            let set = vec![set.to_owned(), "ambient.acceptUnredirected=true".to_owned()];
            let sources = Sources { set, ..Sources::default() };
            let context = Context { image: Some("example.com/a:1".to_owned()), ..Context::default() };
            install(&sources, &context).unwrap().notes.contains(&Note::Warning(AMBIENT.to_owned()))
        };
        assert!(warned("ambient.enabled=true") && warned("profile=ambient"));
        assert!(!warned("ambient.dnsCapture=true"));
        let notes = include_str!("../../../chart/templates/NOTES.txt");
        assert!(
            notes.contains(&format!("{{{{- if $v.ambient.enabled }}}}\n\nWARNING: {AMBIENT}.\n")),
            "{notes}"
        );
    }
}
