// SPDX-License-Identifier: Apache-2.0
//! The command line: what is refused, what is listed, and with which exit code. Nothing here needs a privilege.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::{Command, Output};

fn cnilab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cnilab")).args(args).output().unwrap()
}

fn code(args: &[&str]) -> Option<i32> {
    cnilab(args).status.code()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_wrong_command_line_is_usage() {
    for args in [
        &["walk"][..],
        &["run", "--seed", "xyz"],
        &["run", "--jobs", "0"],
        &["run", "--tags", "@a and"],
        &["run", "--only", "redirection/outbound"],
        &["run", "--feature", "nowhere"],
        &["run", "--tags", "@nobody-has-this"],
        &["run", "--sut", "/nonexistent"],
        &["run", "--mutant", "nobody-plants-this"],
        &["run", "--mutant", "all", "--feature", "redirection", "--tags", "@protocol"],
        &["run", "--mutant", "all", "--sut", "/opt/cni/bin"],
    ] {
        assert_eq!(code(args), Some(2), "{args:?}");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = cnilab(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    // The width of a line is the terminal's.
    let text = text(&help).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("cnilab run --only") && text.contains("4 partial"), "{text}");
}

#[test]
fn the_list_names_scenarios_needs_and_defects() {
    let list = cnilab(&["list", "--feature", "redirection"]);
    assert_eq!(list.status.code(), Some(0));
    let text = text(&list);
    let parts = [
        "features/redirection/outbound.feature",
        "@real-kernel",
        "catches ",
        "scenarios, ",
        "mutant no-ipv6: ",
        "planted in cni/redirect/src/generate.rs:",
    ];
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// Rules that the library writes in the process that judges them: a defect would spoil both sides alike. The same feature judges what
/// production binaries wrote, and that part catches defects. That the table as such can fail is a test of its own (package `truth`).
const WRITTEN_AND_JUDGED: &str = "  truth/at-scale:";

#[test]
fn every_scenario_names_a_defect_that_it_must_catch() {
    let list = text(&cnilab(&["list"]));
    let scenarios: Vec<&str> =
        list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).collect();
    let (catching, without): (Vec<&str>, Vec<&str>) =
        scenarios.into_iter().partition(|line| line.contains("  catches "));
    let forgotten: Vec<_> = without.iter().filter(|line| !line.starts_with(WRITTEN_AND_JUDGED)).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
    assert!(catching.iter().any(|line| line.starts_with(WRITTEN_AND_JUDGED)), "the production part");
}

#[test]
fn orders_come_from_the_outer_process_only() {
    assert_eq!(code(&["inside"]), Some(3));
}
