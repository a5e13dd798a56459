// SPDX-License-Identifier: Apache-2.0
//! `docs/values.md`: the values, the files that set several of them, and former spellings.

use std::fmt::Write as _;

use serde_json::Value;

use crate::layers::Family;
use crate::setting::{Kind, Setting};
use crate::table;

const HEAD: &str = "\
# Values

This page is written from the table in `cni/manifests/src/table.rs`. The values are those of the chart in `cni/chart` and of
`install-cni manifests`: both render the same objects from them.

Each value is set at the root or, in its former spelling, below `cni`: `chained` and `cni.chained` are one value, and both may be given
only if they are equal. What you set wins over the platform, that over `compatibilityVersion`, that over the profile, that over the
defaults. Maps are merged, lists are replaced. `null` empties a list, takes an entry out of `resources` and `updateStrategy`
(`resources.requests.cpu: null`), and is as good as nothing given anywhere else; that goes for a key that is left blank, too, and for the values in documents.
A key that is not here is refused; `global` may hold values of other charts.

| value | kind | default | what it is for |
|---|---|---|---|
";

#[must_use]
pub fn guide() -> String {
    let mut text = HEAD.to_owned();
    for field in table::values() {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            field.path,
            kind(field),
            default(field),
            escaped(field.help)
        );
    }
    for (title, family) in [
        ("Platforms", Family::Platform),
        ("Profiles", Family::Profile),
        ("Compatibility versions", Family::Compat),
    ] {
        let _ = write!(text, "\n## {title}\n\n| `{}` | sets |\n|---|---|\n", family.field());
        for name in family.names() {
            let layer = family.layer(name).unwrap_or_default();
            let _ = writeln!(text, "| {name} | {} |", sets(&layer));
        }
    }
    text + &crate::inputs::former_guide()
}

fn kind(field: &Setting) -> String {
    match field.kind {
        Kind::OneOf(words) => {
            words.iter().map(|word| format!("`{}`", quoted(word))).collect::<Vec<_>>().join(", ")
        }
        Kind::Text
        | Kind::Number
        | Kind::Port
        | Kind::Template
        | Kind::Levels
        | Kind::LabelSelector
        | Kind::FieldSelector => "text".to_owned(),
        Kind::Directory | Kind::AutoDirectory => "directory".to_owned(),
        Kind::FileName => "file name".to_owned(),
        Kind::Mode => "file mode".to_owned(),
        Kind::Bool => "true, false".to_owned(),
        Kind::Count => "number".to_owned(),
        Kind::Texts => "list of texts".to_owned(),
        Kind::TextMap => "map of texts".to_owned(),
        Kind::Open => "map".to_owned(),
        Kind::Elsewhere => "any".to_owned(),
        Kind::OpenList => "list of maps".to_owned(),
        Kind::PodSelectors => "list of {name, namespace, selector}".to_owned(),
    }
}

fn quoted(word: &str) -> &str {
    if word.is_empty() { "\"\"" } else { word }
}

fn default(field: &Setting) -> String {
    match field.default_value() {
        Value::Null => String::new(),
        Value::String(text) => format!("`{}`", quoted(&text)),
        other => format!("`{other}`"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

fn sets(layer: &Value) -> String {
    let mut all = Vec::new();
    leaves(layer, "", &mut all);
    if all.is_empty() { "nothing of the node agent".to_owned() } else { all.join(", ") }
}

fn leaves(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                leaves(value, &path, all);
            }
        }
        Value::String(text) => all.push(format!("`{at}: {}`", quoted(text))),
        other => all.push(format!("`{at}: {other}`")),
    }
}
