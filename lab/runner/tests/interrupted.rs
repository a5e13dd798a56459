// SPDX-License-Identifier: Apache-2.0
//! A run in somebody's cluster that is interrupted before its first scenario. Needs no privilege: the cluster is an API with its controllers, and nobody
//! starts a pod on its node.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use apiserver::ApiServer;
use cluster::Chaos;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::ListParams;
use kubelet::ControlPlane;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use remote::LABEL;
use serde_json::json;
use tokio::process::Command;
use tokio::time::{interval, timeout};

/// Shorter than the deadline of the hands.
const SOON: Duration = Duration::from_secs(30);

/// Interval of attempts.
const LOOK: Duration = Duration::from_millis(50);

/// Interrupts a run that waits for its hands. Returns its exit code, and what it has printed.
async fn interrupted(api: &ApiServer, kubeconfig: &Path, signal: Signal) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cnilab"));
    command.args(["run", "--image", "lab:1", "--only", "redirection/outbound", "--kubeconfig"]);
    command.arg(kubeconfig).arg("--report-dir").arg(kubeconfig.with_file_name("report"));
    let run = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let pid = Pid::from_raw(run.id().unwrap().try_into().unwrap());
    let sets = Api::<DaemonSet>::all(api.client());
    let made = async {
        let mut due = interval(LOOK);
        while sets.list(&ListParams::default()).await.unwrap().items.is_empty() {
            due.tick().await;
        }
    };
    timeout(SOON, made).await.unwrap();
    kill(pid, signal).unwrap();
    let ended = timeout(SOON, run.wait_with_output()).await.unwrap().unwrap();
    (ended.status.code(), String::from_utf8(ended.stdout).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_while_hands_are_placed_removes_what_the_run_made() {
    let mut plane = ControlPlane::new(&["127.0.0.1"]).unwrap();
    plane.follow(Duration::from_secs(10), &Chaos::default());
    let api = plane.api().clone();
    let info = json!({ "kubeletVersion": "v1", "operatingSystem": "linux" });
    let status = json!({ "nodeInfo": info, "conditions": [{ "type": "Ready", "status": "True" }] });
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker" }, "status": status });
    api.upsert(node).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("https://{}", listener.local_addr().unwrap());
    let served = api.serve_tls(listener).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    fs::write(&kubeconfig, api.admin_kubeconfig(&server)).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGHUP] {
        let (code, printed) = interrupted(&api, &kubeconfig, signal).await;
        assert_eq!(code, Some(130), "{signal}: {printed}");
        for part in ["DaemonSet", "lab:1", "worker", LABEL] {
            assert!(printed.contains(part), "{part} is not in {printed}");
        }
        let namespaces = Api::<Namespace>::all(api.client());
        let left = namespaces.list(&ListParams::default().labels(LABEL)).await.unwrap();
        assert_eq!(left.items.len(), 0, "{signal}: {left:?}");
    }
    served.stop().await;
    plane.stop().await;
}
