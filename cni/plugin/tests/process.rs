// SPDX-License-Identifier: Apache-2.0
//! The built plugin as a process: what no library call shows.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs::File;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use serde_json::{Value, json};

/// The plugin, called with `conf` for a pod that is in no excluded namespace.
fn plugin(command: &str, conf: &Value, dir: &Path) -> Command {
    let stdin = dir.join("stdin");
    std::fs::write(&stdin, conf.to_string()).unwrap();
    let mut plugin = Command::new(env!("CARGO_BIN_EXE_istio-cni"));
    plugin
        .env_clear()
        .env("CNI_COMMAND", command)
        .env("CNI_CONTAINERID", "c1")
        .env("CNI_NETNS", "/nonexistent/netns")
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", "/opt/cni/bin")
        .env("CNI_ARGS", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart;K8S_POD_UID=u1")
        .stdin(File::open(stdin).unwrap());
    plugin
}

fn conf(dir: &Path) -> Value {
    json!({"cniVersion": "1.0.0", "name": "k8s", "type": "istio-cni", "cni_agent_run_dir": dir})
}

fn error(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(1));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_del_with_a_silent_agent_is_over_in_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let _silent = UnixListener::bind(dir.path().join("agent.sock")).unwrap();
    let mut quickest = Duration::MAX;
    // The machine may be busy; the plugin must not be.
    for _ in 0..5 {
        let mut del = plugin("DEL", &conf(dir.path()), dir.path());
        let start = Instant::now();
        let output = del.output().unwrap();
        quickest = quickest.min(start.elapsed());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    }
    assert!(quickest < Duration::from_millis(50), "{quickest:?}");
}

#[test]
fn an_add_without_facts_says_what_to_do_and_leaves_a_log() {
    let dir = tempfile::tempdir().unwrap();
    let output = plugin("ADD", &conf(dir.path()), dir.path()).output().unwrap();
    let error = error(&output);
    assert_eq!(error["code"], 11);
    let kubeconfig = dir.path().join("istio-cni-kubeconfig");
    assert!(error["msg"].as_str().unwrap().contains(kubeconfig.to_str().unwrap()), "{error}");
    assert!(error["details"].as_str().unwrap().contains("istio-cni-node"), "{error}");
    let log = std::fs::read_to_string(dir.path().join("istio-cni.log")).unwrap();
    let line: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!((line["level"].as_str(), line["code"].as_str()), (Some("error"), Some("11")));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), log);
}

#[test]
fn its_own_namespace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut add = plugin("ADD", &conf(dir.path()), dir.path());
    assert_eq!(error(&add.env("CNI_NETNS", "/proc/self/ns/net").output().unwrap())["code"], 8);
    // A DEL has nothing to change there.
    let mut del = plugin("DEL", &conf(dir.path()), dir.path());
    assert_eq!(del.env("CNI_NETNS", "/proc/self/ns/net").output().unwrap().status.code(), Some(0));
}

#[test]
fn a_result_that_nobody_gets_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let mut conf = conf(dir.path());
    conf["exclude_namespaces"] = json!(["shop"]);
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let status = plugin("ADD", &conf, dir.path()).stdout(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    let status = plugin("ADD", &conf, dir.path()).stdout(Stdio::null()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(0), "logs are not worth a failure");
}

/// Waits for the end of a process that may never end.
fn ends(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let process = rustix::process::Pid::from_child(child);
    let process = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap();
    let limit = rustix::event::Timespec { tv_sec: limit.as_secs().try_into().unwrap(), tv_nsec: 0 };
    let ready = rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit)).unwrap();
    if ready == 0 {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    (ready == 1).then_some(status)
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_call() {
    for (command, code) in
        [("ADD", 1), ("CHECK", 0), ("DEL", 0), ("STATUS", 0), ("GC", 0), ("VERSION", 0), ("NOPE", 1), ("", 0)]
    {
        let dir = tempfile::tempdir().unwrap();
        let mut conf = conf(dir.path());
        conf["cniVersion"] = "1.1.0".into();
        conf["plugin_log_level"] = "debug".into();
        let (_unread, stderr, _) = rig::pipe::full();
        let mut plugin = plugin(command, &conf, dir.path());
        if command.is_empty() {
            plugin.env_remove("CNI_COMMAND");
        }
        let start = Instant::now();
        let mut child = plugin.stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let status = ends(&mut child, Duration::from_secs(20));
        let status = status.unwrap_or_else(|| panic!("{command:?} hangs"));
        assert_eq!(status.code(), Some(code), "{command:?}");
        assert!(start.elapsed() < Duration::from_secs(15), "{command:?}: {:?}", start.elapsed());
        let kept = std::fs::read_to_string(dir.path().join("istio-cni.log")).unwrap_or_default();
        assert_eq!(
            kept.contains("\"msg\""),
            matches!(command, "ADD" | "CHECK" | "STATUS"),
            "{command:?}: {kept}"
        );
    }
}

#[test]
fn without_a_run_directory_no_file_is_left_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let mut conf = conf(dir.path());
    conf["cni_agent_run_dir"] = "".into();
    let empty = tempfile::tempdir().unwrap();
    let output = plugin("ADD", &conf, dir.path()).current_dir(empty.path()).output().unwrap();
    assert_eq!(error(&output)["code"], 11);
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn a_panic_is_an_error_that_the_runtime_can_read() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "panics", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    // The test harness says something first.
    let stdout = String::from_utf8(output.stdout).unwrap();
    let error: Value = serde_json::from_str(&stdout[stdout.find('{').unwrap()..]).unwrap();
    assert_eq!(error["code"], 999);
    assert_eq!(error["msg"], "istio-cni panicked: a \"bug\"");
    assert!(error["details"].as_str().unwrap().contains("process.rs"), "{error}");
}

#[test]
#[ignore = "needs a process of its own: a_panic_is_an_error_that_the_runtime_can_read starts it"]
fn panics() {
    plugin::panic::install();
    panic!("a \"bug\"");
}
