// SPDX-License-Identifier: Apache-2.0
//! `docs/api.md`: what is compared, and what stays different.

use std::fs;

use crate::case;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
const HEAD: &str = "# The embedded API beside a real one

Written by `UPDATE=1 cargo test -p apiserver --test contract page`. Each case of `scenarios/contract` is some requests; what a real API server of Kubernetes 1.34 with etcd and
its controllers answers is recorded beside them (`ci/verify-real` compares again), and the embedded server must answer the same: code, reason, message, details, warnings and the
fields that the case looks at. UIDs, times, resource versions and tokens are replaced. A difference that is not listed here fails `cargo test`, and so does a listed one that has gone.
";

fn page() -> String {
    let (areas, differences) = (case::areas(), case::differences());
    let mut text = format!("{HEAD}\n| area | cases | requests | differ |\n|---|---|---|---|\n");
    for area in &areas {
        let steps: usize = area.cases.iter().map(|case| case.steps.len()).sum();
        let differ = area.cases.iter().filter(|case| differences.contains_key(&case.id)).count();
        text += &format!("| {} | {} | {steps} | {differ} |\n", area.name, area.cases.len());
    }
    text += "\n| the embedded server differs | why that stays |\n|---|---|\n";
    for (id, reason) in &differences {
        text += &format!("| {id} | {reason} |\n");
    }
    text += "\n## Cases\n";
    for area in &areas {
        let names = area
            .cases
            .iter()
            .map(|case| format!("* {}\n", case.id.split_once('/').map_or("", |(_, name)| name)));
        text += &format!("\n### {}\n\n{}", area.name, names.collect::<String>());
    }
    text
}

/// The page is what the files say; with `UPDATE` set it is written.
pub(crate) fn check() {
    if std::env::var_os("UPDATE").is_some() {
        return fs::write(PAGE, page()).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    assert!(written == page(), "docs/api.md is stale: UPDATE=1 cargo test -p apiserver --test contract page");
}
