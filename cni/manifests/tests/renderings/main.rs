// SPDX-License-Identifier: Apache-2.0
//! Our renderings and Helm's: the same objects, each of them valid for the Kubernetes API, and the same values rejected.
//!
//! Without a `helm` in PATH the cases that need it are ignored with the reason; with `CI` set that is a failure.
//!
//! `cargo test -p manifests --test renderings [PART OF A NAME]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on stops, and its report is its output"
)]

mod cases;
mod differ;
mod equal;
mod helm;
mod refused;
mod reuse;
mod server;
mod set;
mod synced;
mod types;
mod valid;

use std::process::ExitCode;

/// Prerequisite of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Helm,
}

/// A case: sentence, prerequisite and function.
struct Case(&'static str, Needs, fn() -> Result<String, String>);

const CASES: &[Case] = &[
    Case("every_object_is_what_its_kubernetes_type_takes", Needs::Nothing, types::check),
    Case("names_labels_and_references_are_valid", Needs::Nothing, valid::check),
    Case("what_is_applied_is_what_the_api_server_then_has", Needs::Nothing, synced::check),
    Case("helm_renders_the_same_objects_for_every_platform_and_mode", Needs::Helm, equal::product),
    Case("helm_renders_the_same_objects_for_every_value", Needs::Helm, equal::single),
    Case("helm_refuses_the_same_values", Needs::Helm, refused::check),
    Case("helm_reads_the_same_words_of_set", Needs::Helm, set::check),
    Case("values_of_upstreams_charts_are_taken_over", Needs::Helm, reuse::former_values),
    Case("the_chart_is_a_dependency_with_a_condition", Needs::Helm, reuse::dependency),
    Case("two_renderings_are_the_same_bytes", Needs::Helm, reuse::stable),
    Case("helm_lint_has_nothing_to_say_on_any_platform", Needs::Helm, helm::lint),
];

fn main() -> ExitCode {
    let parts: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| parts.is_empty() || parts.iter().any(|part| name.contains(part.as_str()));
    let (has_helm, in_ci) = (helm::is_there(), std::env::var_os("CI").is_some());
    let mut failed = 0;
    for Case(name, needs, work) in CASES.iter().filter(|case| wanted(case.0)) {
        let told = match (needs, has_helm) {
            (Needs::Helm, false) if in_ci => Err("cannot run: needs helm (ci/install)".to_owned()),
            (Needs::Helm, false) => {
                println!("test {name} ... ignored, needs helm (ci/install)");
                continue;
            }
            _ => work(),
        };
        match told {
            Ok(told) => println!("test {name} ... ok\n{told}"),
            Err(why) => {
                failed += 1;
                println!("test {name} ... FAILED\n{why}");
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
