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

#[test]
fn every_scenario_names_a_defect_that_it_must_catch() {
    let list = text(&cnilab(&["list"]));
    let mut scenarios =
        list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")).peekable();
    assert!(scenarios.peek().is_some(), "{list}");
    let forgotten: Vec<_> = scenarios.filter(|line| !line.contains("  catches ")).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}

#[test]
fn orders_come_from_the_outer_process_only() {
    assert_eq!(code(&["inside"]), Some(3));
}
