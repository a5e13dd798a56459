// SPDX-License-Identifier: Apache-2.0
//! Generated files: the chart's `values.yaml`, `values.schema.json` and `files/defaults.yaml`, and `docs/values.md`. A test compares them
//! with what is committed; `UPDATE=1 cargo test -p manifests` writes them.

mod guide;
mod schema;
mod yaml_file;

pub use guide::guide;
pub use schema::schema;
pub use yaml_file::{defaults_file, values_file};

use serde_json::{Map, Value};

use crate::field::Field;
use crate::fields;

/// Tree of fields.
#[derive(Debug)]
enum Node {
    Field(&'static Field),
    Group(Vec<(&'static str, Node)>),
}

fn tree() -> Vec<(&'static str, Node)> {
    let mut root = Vec::new();
    for field in fields::ALL {
        insert(&mut root, field.path, field);
    }
    root
}

fn insert(nodes: &mut Vec<(&'static str, Node)>, path: &'static str, field: &'static Field) {
    let Some((key, rest)) = path.split_once('.') else {
        nodes.push((path, Node::Field(field)));
        return;
    };
    if let Some((_, Node::Group(nodes))) = nodes.iter_mut().find(|(known, _)| *known == key) {
        insert(nodes, rest, field);
    } else {
        let mut group = Vec::new();
        insert(&mut group, rest, field);
        nodes.push((key, Node::Group(group)));
    }
}

fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
