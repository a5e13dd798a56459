// SPDX-License-Identifier: Apache-2.0
//! Our renderings and Helm's: the same objects, each of them valid for the Kubernetes API, and the same values rejected.
//!
//! Without a `helm` in PATH the cases that need it are ignored with the reason; with `CI` set that is a failure.
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
use std::sync::atomic::Ordering;

/// Prerequisite of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Helm,
}

/// A case: sentence, prerequisite and function.
struct Case(&'static str, Needs, fn() -> Result<(), String>);

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
    let helm = (!helm::is_there()).then(|| "needs helm (ci/install)".to_owned());
    let code = rig::run(CASES.iter().map(|&Case(name, needs, work)| {
        let unmet = helm.clone().filter(|_| needs == Needs::Helm);
        rig::test(name, unmet, move || work().unwrap_or_else(|why| panic!("{why}")))
    }));
    match equal::COMPARED.load(Ordering::Relaxed) {
        0 => {}
        count => println!("manifests: {count} renderings compared with helm"),
    }
    code
}
