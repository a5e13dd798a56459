// SPDX-License-Identifier: Apache-2.0
//! `values.schema.json`, by which Helm refuses what [`crate::check`] refuses.

use serde_json::{Map, Value, json};

use super::{Node, object, tree};
use crate::inputs::{TAINT_ENABLED, former_spellings};
use crate::setting::{Kind, SELECTOR_KEYS, Setting};

/// The schema. `cni` has the same values once more, and the chart's own defaults are none of the operator's.
#[must_use]
pub fn schema() -> String {
    let mut root = group(&tree(), false);
    former_spellings().for_each(|path| accept(&mut root, path, json!({})));
    accept(&mut root, TAINT_ENABLED, json!({ "enum": [false, null] }));
    let mut prefixed = root.clone();
    prefixed["description"] = "The same values, in their former spelling".into();
    if let Some(properties) = root["properties"].as_object_mut() {
        properties.insert("cni".to_owned(), prefixed);
        // With --reuse-values they are those of the chart that was installed before, where its templates found them.
        for name in ["_internal_defaults_do_not_set", "defaults"] {
            properties.insert(
                name.to_owned(),
                json!({ "type": "object", "description": "Defaults of a chart: not to be set" }),
            );
        }
    }
    root["$schema"] = "http://json-schema.org/draft-07/schema#".into();
    root["title"] = "Values of istio-cni".into();
    format!("{root:#}\n")
}

/// Takes a former spelling with a schema of its own: the templates translate it.
fn accept(schema: &mut Value, path: &str, mut held: Value) {
    let (at, key) = match path.split_once('.') {
        Some((group, key)) => (&mut schema["properties"][group], key),
        None => (schema, path),
    };
    held["description"] = "Former spelling".into();
    at["properties"][key] = held;
}

/// `null` is permitted everywhere: it means unset.
fn group(nodes: &[(&'static str, Node)], is_open: bool) -> Value {
    let properties: Map<String, Value> = nodes
        .iter()
        .map(|(key, node)| {
            let schema = match node {
                Node::Leaf(field) => leaf(field),
                Node::Group(nodes) => group(nodes, *key == "global"),
            };
            ((*key).to_owned(), schema)
        })
        .collect();
    json!({ "type": ["object", "null"], "additionalProperties": is_open, "properties": properties })
}

fn leaf(field: &Setting) -> Value {
    let mut schema = kind(field.kind);
    schema.insert("description".to_owned(), field.help.into());
    if field.kind != Kind::Elsewhere {
        schema.insert("default".to_owned(), field.default_value());
    }
    Value::Object(schema)
}

fn kind(kind: Kind) -> Map<String, Value> {
    let typed = |word: &str| json!([word, "null"]);
    match kind {
        Kind::Text
        | Kind::Number
        | Kind::Port
        | Kind::Template
        | Kind::Levels
        | Kind::LabelSelector
        | Kind::FieldSelector => object([("type", typed("string"))]),
        Kind::Directory => object([("type", typed("string")), ("pattern", "^/".into())]),
        Kind::AutoDirectory => object([("type", typed("string")), ("pattern", "^(/.*)?$".into())]),
        Kind::FileName => object([("type", typed("string")), ("pattern", "^[^/]*$".into())]),
        Kind::Mode => object([("type", typed("string")), ("pattern", "^0[0-7]{3}$".into())]),
        Kind::Bool => object([("type", typed("boolean"))]),
        Kind::Count => object([("type", typed("integer")), ("minimum", 0.into())]),
        Kind::OneOf(words) => {
            let words = words.iter().map(|word| Value::from(*word)).chain([Value::Null]);
            object([("enum", words.collect())])
        }
        Kind::Texts => object([("type", typed("array")), ("items", json!({ "type": "string" }))]),
        Kind::TextMap => object([
            ("type", typed("object")),
            ("additionalProperties", json!({ "type": ["string", "boolean", "number", "null"] })),
        ]),
        Kind::Open => object([("type", typed("object"))]),
        Kind::OpenList => object([("type", typed("array")), ("items", json!({ "type": "object" }))]),
        Kind::PodSelectors => {
            let texts: Map<String, Value> =
                SELECTOR_KEYS.iter().map(|key| ((*key).to_owned(), json!({ "type": "string" }))).collect();
            let item = json!({ "type": "object", "required": ["selector"], "additionalProperties": false, "properties": texts });
            object([("type", typed("array")), ("items", item)])
        }
        Kind::Elsewhere => Map::new(),
    }
}
