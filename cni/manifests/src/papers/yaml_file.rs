// SPDX-License-Identifier: Apache-2.0
//! The defaults, apart from what the operator sets: in the chart's `values.yaml` for people, and in a file that its templates read.

use std::fmt::Write as _;

use super::{Node, tree};
use crate::field::Kind;
use crate::layers::defaults;
use crate::yaml;

const HEAD: &str = "\
# The defaults. Set the values themselves, at the root (`--set chained=false`) or below `cni` (`--set cni.chained=false`): kept apart from
# them, the defaults can be told from what you set, which always wins over a profile and a platform.
# This file is written from the table in cni/manifests/src/fields.rs. docs/values.md has the same as a table. Templates read the same from
# files/defaults.yaml, which stays this chart's own where --reuse-values brings the defaults of another one.
_internal_defaults_do_not_set:
";

#[must_use]
pub fn values_file() -> String {
    let mut text = HEAD.to_owned();
    nodes(&mut text, &tree(), 1);
    text
}

/// File that the templates read.
#[must_use]
pub fn defaults_file() -> String {
    let head = "# What values.yaml shows, for the templates. It is written from the table in cni/manifests/src/fields.rs.\n";
    head.to_owned() + &yaml::write(&defaults())
}

fn nodes(text: &mut String, all: &[(&'static str, Node)], depth: usize) {
    let pad = "  ".repeat(depth);
    for (key, node) in all {
        match node {
            Node::Field(field) if field.kind == Kind::Elsewhere => {}
            Node::Field(field) => {
                let _ = writeln!(text, "{pad}# {}", field.help);
                let entry = yaml::write(&serde_json::json!({ *key: field.default_value() }));
                for line in entry.lines() {
                    let _ = writeln!(text, "{pad}{line}");
                }
            }
            Node::Group(group) => {
                let _ = writeln!(text, "{pad}{key}:");
                nodes(text, group, depth + 1);
            }
        }
    }
}
