// SPDX-License-Identifier: Apache-2.0
//! The files that are written from the table of fields are those that are committed. `UPDATE=1` writes them.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;

use manifests::papers;

fn same(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(text.lines()).find(|(there, want)| there != want);
    assert!(there == text, "{}: not current ({differs:?}); UPDATE=1 cargo test -p manifests", path.display());
}

#[test]
fn the_charts_values_are_current() {
    same("cni/chart/values.yaml", &papers::values_file());
}

#[test]
fn the_defaults_that_templates_read_are_current() {
    same("cni/chart/files/defaults.yaml", &papers::defaults_file());
    same("cni/chart/files/settings.yaml", &papers::settings_file());
}

#[test]
fn the_charts_schema_is_current() {
    same("cni/chart/values.schema.json", &papers::schema());
}

#[test]
fn the_page_of_values_is_current() {
    same("docs/values.md", &papers::guide());
}

#[test]
fn the_charts_values_are_the_defaults() {
    let documents = manifests::document::read("values.yaml", &papers::values_file()).unwrap();
    assert_eq!(documents[0]["_internal_defaults_do_not_set"], manifests::layers::defaults());
    let documents = manifests::document::read("defaults.yaml", &papers::defaults_file()).unwrap();
    assert_eq!(documents, [manifests::layers::defaults()]);
}
