// SPDX-License-Identifier: Apache-2.0
//! Files generated from the table: the chart's `values.yaml`, `values.schema.json`, `files/defaults.yaml` and `files/settings.yaml`, and `docs/values.md`. A test
//! compares them with what is committed; `UPDATE=1 cargo test -p manifests` writes them.

mod guide;
mod schema;
mod yaml_file;

pub use guide::guide;
pub use schema::schema;
pub use yaml_file::{defaults_file, settings_file, values_file};

use serde_json::{Map, Value};

use crate::setting::Setting;
use crate::table;

/// The chart's values as a tree: by key, a value or a group.
#[derive(Debug)]
enum Node {
    Leaf(&'static Setting),
    Group(Vec<(&'static str, Node)>),
}

fn tree() -> Vec<(&'static str, Node)> {
    let mut root = Vec::new();
    for field in table::values() {
        insert(&mut root, field.path, field);
    }
    root
}

fn insert(nodes: &mut Vec<(&'static str, Node)>, path: &'static str, field: &'static Setting) {
    let Some((key, rest)) = path.split_once('.') else {
        nodes.push((path, Node::Leaf(field)));
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
