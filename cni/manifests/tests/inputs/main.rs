// SPDX-License-Identifier: Apache-2.0
//! Documents that are in use, as their manuals show them, and what comes of them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod mesh;
mod operator;
mod values;

use manifests::Mistakes;
use manifests::inputs::install::{Installation, NamedText, Sources, install};
use manifests::resolve::Context;
use manifests::values::Values;

/// With an image from the command line.
fn named_image() -> Context {
    Context { image: Some("example.com/mesh/install-cni:1".to_owned()), ..Context::default() }
}

fn from(documents: &[&str], platform: Option<&str>) -> Result<Installation, Mistakes> {
    let source = |text: &&str| NamedText { name: "mesh.yaml".to_owned(), text: (*text).to_owned() };
    let sources = Sources { documents: documents.iter().map(source).collect(), ..Sources::default() };
    install(&sources, &Context { platform: platform.map(str::to_owned), ..named_image() })
}

/// Errors of documents, a line each.
fn refusal(documents: &[&str], platform: Option<&str>) -> Vec<String> {
    from(documents, platform).unwrap_err().to_string().lines().map(str::to_owned).collect()
}

fn values(text: &str) -> Result<Installation, Mistakes> {
    let source = NamedText { name: "values.yaml".to_owned(), text: text.to_owned() };
    install(&Sources { values: vec![source], ..Sources::default() }, &named_image())
}

fn notes(installation: &Installation) -> Vec<String> {
    installation.notes.iter().map(ToString::to_string).collect()
}

fn rendered(installation: Installation) -> Values {
    let Some(values) = installation.values else { panic!("nothing is installed: {:?}", installation.notes) };
    values
}

/// A document's values are the chart's, and so is what null says in them.
#[test]
fn a_list_that_is_left_blank_is_empty_in_every_input() {
    let of_mesh = format!("{}        values:\n          excludeNamespaces:\n", mesh::COMPONENT);
    let of_operator = format!("{}  values:\n    cni:\n      excludeNamespaces:\n", operator::OPERATOR);
    let installations =
        [from(&[&of_mesh], None), from(&[&of_operator], None), values("excludeNamespaces:\n")];
    for installation in installations {
        assert_eq!(rendered(installation.unwrap()).all["excludeNamespaces"], serde_json::json!([]));
    }
}

/// Null of an input is over what the inputs before it say.
#[test]
fn a_later_null_takes_out_what_an_earlier_input_has() {
    let source = |text: &str| NamedText { name: "x".to_owned(), text: text.to_owned() };
    let document = format!(
        "{}  values:\n    cni:\n      excludeNamespaces: [a]\n      resources: {{limits: {{cpu: 1}}}}\n",
        operator::OPERATOR
    );
    let sources = Sources {
        documents: vec![source(&document)],
        values: vec![source("excludeNamespaces: null\nresources: {limits: null}\n")],
        ..Sources::default()
    };
    let values = rendered(install(&sources, &named_image()).unwrap());
    assert_eq!(values.all["excludeNamespaces"], serde_json::json!([]));
    assert!(values.resources.contains_key("requests") && !values.resources.contains_key("limits"));
}

#[test]
fn later_inputs_win_and_the_namespace_that_is_asked_for_does() {
    let source = |text: &str| NamedText { name: "x".to_owned(), text: text.to_owned() };
    let sources = Sources {
        documents: vec![source(&[mesh::COMPONENT, mesh::ADVANCED].concat())],
        values: vec![
            source("excludeNamespaces: [a]\nrepair: {enabled: false}\n"),
            source("excludeNamespaces: [b]\n"),
        ],
        set: vec!["repair.enabled=true".to_owned()],
        namespace: Some("asked".to_owned()),
    };
    let values = rendered(install(&sources, &named_image()).unwrap());
    assert_eq!((&values.all["excludeNamespaces"], values.repair.enabled), (&serde_json::json!(["b"]), true));
    assert_eq!(values.release.namespace, "asked");
}
