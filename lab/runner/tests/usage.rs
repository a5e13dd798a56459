// SPDX-License-Identifier: Apache-2.0
//! The command line: what is refused, what is listed, and with which exit code. Nothing here needs a privilege.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::process::{Command, Output};

use clap::Parser as _;

fn cnilab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cnilab")).args(args).output().unwrap()
}

fn code(args: &[&str]) -> Option<i32> {
    cnilab(args).status.code()
}

/// What CI of others would run, as docs/kind-ci.yaml has it.
#[test]
fn the_template_for_kind_is_yaml_and_its_commands_are_ours() {
    let template = include_str!("../../../docs/kind-ci.yaml");
    let workflow: serde_json::Value = serde_saphyr::from_str(template).unwrap();
    let steps = workflow["jobs"]["kind"]["steps"].as_array().unwrap();
    let lines = steps.iter().filter_map(|step| step["run"].as_str()).flat_map(str::lines);
    let commands: Vec<_> = lines.filter_map(|line| line.trim().strip_prefix("./cnilab ")).collect();
    assert_eq!(commands.len(), 3);
    // No run of pods and an API alone can play everything.
    let run = commands.iter().find(|command| command.starts_with("run ")).unwrap();
    assert!(run.ends_with(" || [ $? -eq 4 ]"), "{run}");
    for command in commands {
        let (command, _) = command.split_once(" || ").unwrap_or((command, ""));
        let words: Vec<_> = command.split(' ').map(|word| word.trim_matches('"')).collect();
        // "@redirection or @enrolment" is one word.
        let words = words.join(" ").replace("@redirection or @enrolment", "@redirection");
        let parsed = runner::cli::Cli::try_parse_from(["cnilab"].into_iter().chain(words.split(' ')));
        parsed.unwrap_or_else(|error| panic!("{command}: {error}"));
    }
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
        &["run", "--only", "redirection/outboun"],
        &["run", "--feature", "nowhere"],
        &["run", "--shard", "3/2"],
        &["run", "--rerun", "/nonexistent"],
        &["merge"],
        &["merge", "/nonexistent"],
        &["run", "--tags", "@nobody-has-this"],
        &["run", "--tags", "@redirection or @serv"],
        &["run", "--retries", "0"],
        &["run", "--retries", "1", "--stress", "2"],
        &["run", "--sut", "/nonexistent"],
        &["run", "--mutant", "nobody-plants-this"],
        &["run", "--mutant", "all", "--feature", "redirection", "--tags", "@protocol"],
        &["run", "--mutant", "all", "--sut", "/opt/cni/bin"],
        &["run", "--version", "1.36"],
    ] {
        assert_eq!(code(args), Some(2), "{args:?}");
    }
}

#[test]
fn the_image_in_somebodys_cluster_has_no_default() {
    assert!(runner::cli::Cli::try_parse_from(["cnilab", "run", "--kubeconfig", "file"]).is_err());
}

#[test]
fn a_description_that_says_what_nobody_understands_is_usage() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("product.yaml");
    std::fs::write(&file, "name: example\nversion: 1\ndeployment: helm\ncapabilities: [istio-cni, speed]\n")
        .unwrap();
    let run = cnilab(&["run", "--sut", &file.display().to_string()]);
    assert_eq!(run.status.code(), Some(2));
    let told = String::from_utf8_lossy(&run.stderr).into_owned();
    for part in
        [r#"deployment: "helm": no such field"#, r#"capabilities: "speed": not one of"#, "deployed: null"]
    {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}

/// One line more in a product's description once switched the check for errors and panics off, and no report said so.
#[test]
fn a_description_that_silences_errors_is_usage() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("product.yaml");
    let described = "name: example\nversion: 1\nbinaries: {directory: bin}\ndeployed: binaries\ncapabilities: [istio-cni]\n";
    for text in ["", "e", "panicked at src/"] {
        std::fs::write(&file, format!("{described}errors: {{{text:?}: all of it is known}}\n")).unwrap();
        let run = cnilab(&["run", "--sut", &file.display().to_string()]);
        let told = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("product.yaml: errors: {text:?}: ")), "{told}");
    }
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = cnilab(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    // The width of a line is the terminal's.
    let text = text(&help).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("cnilab run --only") && text.contains("4 partial") && text.contains("5 flaky"),
        "{text}"
    );
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
fn shells_complete_its_options() {
    for shell in ["bash", "zsh", "fish"] {
        let output = cnilab(&["completion", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output).contains("report-dir"), "{shell}");
    }
}

#[test]
fn orders_come_from_the_outer_process_only() {
    assert_eq!(code(&["inside"]), Some(3));
}
