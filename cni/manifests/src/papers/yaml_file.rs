// SPDX-License-Identifier: Apache-2.0
//! The defaults, apart from what the operator sets: in the chart's `values.yaml` for people, and in a file that its templates read.

use std::fmt::Write as _;

use super::{Node, tree};
use crate::layers::defaults;
use crate::setting::{Kind, Rendered};
use crate::table;
use crate::yaml;

const HEAD: &str = "\
# The defaults. Set the values themselves, at the root (`--set chained=false`) or below `cni` (`--set cni.chained=false`): kept apart from
# them, the defaults can be told from what you set, which always wins over a profile and a platform.
# This file is written from the table in cni/manifests/src/table.rs. docs/values.md has the same as a table. Templates read the same from
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
    let head = "# What values.yaml shows, for the templates. It is written from the table in cni/manifests/src/table.rs.\n";
    head.to_owned() + &yaml::write(&defaults())
}

/// The keys of the `ConfigMap` that its template writes, and the value of each.
#[must_use]
pub fn settings_file() -> String {
    let rows = table::values().filter(|setting| setting.rendered != Rendered::No);
    let all: serde_json::Map<String, serde_json::Value> = rows
        .map(|setting| {
            let form = match (setting.rendered, setting.kind) {
                (Rendered::WhenSet, _) => "when-set",
                (_, Kind::OpenList) => "json",
                _ => "text",
            };
            (setting.variable(), serde_json::json!({ "value": setting.path, "form": form }))
        })
        .collect();
    let head = "# Keys of the ConfigMap, and the values that they are written from. It is written from the table in cni/manifests/src/table.rs.\n";
    head.to_owned() + &yaml::write(&all.into())
}

fn nodes(text: &mut String, all: &[(&'static str, Node)], depth: usize) {
    let pad = "  ".repeat(depth);
    for (key, node) in all {
        match node {
            Node::Leaf(field) if field.kind == Kind::Elsewhere => {}
            Node::Leaf(field) => {
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
