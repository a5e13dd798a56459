// SPDX-License-Identifier: Apache-2.0
//! Products that try to be green without being right, and runs that never ended: all of them fail to.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use runner::sandbox::ids;
use serde_json::Value;
use tempfile::TempDir;

mod built;

use built::binaries;

/// Scenarios with two pods and real traffic.
const SCENARIO: &str = "redirection/proxy-exempt";

/// A directory with the right plugin under this name.
fn product(name: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(binaries().join("istio-cni"), directory.path().join(name)).unwrap();
    directory
}

/// The right plugin behind one that does this first.
fn hostile(does: &str) -> TempDir {
    let product = product("istio-iptables");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stubs/hostile.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile.args(["--edition", "2024", "-C", "target-feature=+crt-static", "-C", "opt-level=0", "-o"]);
    compile.arg(product.path().join("istio-cni")).arg(source);
    compile.env("DOES", does).env("SOURCES", env!("CARGO_MANIFEST_DIR"));
    assert!(compile.status().unwrap().success());
    product
}

struct Run {
    report: TempDir,
}

impl Run {
    fn new() -> Self {
        Self { report: tempfile::tempdir().unwrap() }
    }

    fn command(&self, sut: &Path) -> Command {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_cnilab"));
        lab.args(["run", "--jobs", "1", "--only", SCENARIO, "--sut"])
            .arg(sut)
            .arg("--report-dir")
            .arg(self.report.path());
        lab.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        lab
    }

    fn report(&self) -> Value {
        let text = fs::read_to_string(self.report.path().join("report.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

/// Verdicts of a report that are not `inapplicable`, and reasons.
fn verdicts(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["scenarios"].as_array().unwrap().iter();
    all.map(|one| (text(&one["verdict"]), text(&one["reason"])))
        .filter(|(verdict, _)| verdict != "inapplicable")
        .collect()
}

/// A run that has printed its header: its process, its output and that line.
fn begun(mut command: Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("cnilab ") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended before its first line");
    }
    (child, said, line)
}

#[test]
fn an_interrupted_run_is_red_for_dashboards() {
    let (run, product) = (Run::new(), product("istio-cni"));
    let (mut child, mut said, mut rest) = begun(run.command(product.path()));
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    said.read_to_string(&mut rest).unwrap();
    let code = child.wait().unwrap().code().unwrap();
    let junit = fs::read_to_string(run.report.path().join("junit.xml")).unwrap();
    let is_green = junit.contains(r#" failures="0" errors="0" "#);
    assert_eq!((is_green, run.report()["exit"].as_i64()), (code == 0, Some(code.into())), "{junit}");
    assert!(junit.contains(&format!(r#"<property name="exit" value="{code} "#)), "{junit}");
}

#[test]
fn a_product_that_is_replaced_once_the_run_has_begun_is_not_what_runs() {
    let (run, product) = (Run::new(), product("istio-cni"));
    let plugin = product.path().join("istio-cni");
    let (mut child, mut said, mut line) = begun(run.command(product.path()));
    fs::remove_file(&plugin).unwrap();
    fs::copy("/bin/true", &plugin).unwrap();
    said.read_to_string(&mut line).unwrap();
    child.wait().unwrap();
    let report = run.report();
    let first = &report["header"]["binaries"][0];
    assert_eq!(first["path"], "/run/cnilab-product/istio-cni");
    assert!(line.contains(&first["sha256"].as_str().unwrap()[..8]));
    assert!(verdicts(&report).iter().all(|(verdict, _)| verdict == "pass"), "{report}");
}

/// Verdicts of a product that does this, and the exit code of its run.
fn inconclusive_by(does: &str, named: &str) {
    let (run, product) = (Run::new(), hostile(does));
    let output = run.command(product.path()).output().unwrap();
    let all = verdicts(&run.report());
    let is_named = |why: &str| why.contains(named);
    assert!(all.iter().all(|(verdict, why)| verdict == "inconclusive" && is_named(why)), "{all:?}");
    if !all.is_empty() {
        assert_eq!(output.status.code(), Some(3));
    }
}

#[test]
fn a_product_that_touches_the_labs_program_makes_the_run_inconclusive() {
    inconclusive_by("touch", "/run/cnilab-own/workload was written to or replaced");
}

#[test]
fn a_product_that_replaces_itself_makes_the_run_inconclusive() {
    inconclusive_by("replace", "/run/cnilab-product/istio-cni was written to or replaced");
}

#[test]
fn a_product_that_traces_a_process_of_the_lab_makes_the_run_inconclusive() {
    inconclusive_by("trace", "/run/cnilab-own/workload was traced by");
}

#[test]
fn a_product_that_writes_to_the_code_of_a_process_of_the_lab_makes_the_run_inconclusive() {
    inconclusive_by("patch", "/run/cnilab-own/workload was written to in memory");
}

#[test]
fn a_product_finds_no_features_no_other_node_and_no_process_of_the_lab() {
    let (run, product) = (Run::new(), hostile("look"));
    run.command(product.path()).output().unwrap();
    let all = verdicts(&run.report());
    assert!(all.iter().all(|(verdict, _)| verdict == "pass"), "{all:?}");
}

#[test]
fn a_product_is_root_on_nothing_but_the_sandbox() {
    let (run, product) = (Run::new(), hostile("disk"));
    run.command(product.path()).output().unwrap();
    let (report, all) = (run.report(), verdicts(&run.report()));
    let privilege = &report["header"]["privilege"];
    // Not in a container.
    let is_expected = !geteuid().is_root() || ids::can_give_all();
    assert_eq!(privilege["user_namespace"].is_object(), is_expected, "{privilege}");
    if is_expected {
        assert!(all.iter().all(|(verdict, _)| verdict == "pass"), "{all:?}");
    }
}

/// One that is root before the sandbox is there would leave a file.
#[test]
fn no_program_of_a_product_runs_outside_of_the_sandbox() {
    let (run, product) = (Run::new(), product("istio-cni"));
    let trace = product.path().join("ran");
    let source = product.path().join("agent.rs");
    let text = format!("fn main() {{ let _ = std::fs::write({:?}, \"x\"); }}", trace.display().to_string());
    fs::write(&source, text).unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let agent: PathBuf = product.path().join("install-cni");
    let compiled = Command::new(rustc)
        .args(["-C", "target-feature=+crt-static", "-o"])
        .arg(&agent)
        .arg(&source)
        .status();
    assert!(compiled.unwrap().success());
    run.command(product.path()).output().unwrap();
    let report = run.report();
    let names: Vec<_> =
        report["header"]["binaries"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&Value::from("install-cni")), "{names:?}");
    assert!(!trace.exists(), "the product ran where it can write to the machine");
}
