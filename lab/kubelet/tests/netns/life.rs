// SPDX-License-Identifier: Apache-2.0
//! The life of a pod: its containers, its status, its end.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cluster::{Cluster as _, PodName, PodStart};
use kubelet::pids::Pids;
use kubelet::process::{Exit, Process, Program};
use kubelet::rootfs::NodeRoot;
use kubelet::view::{Shown, View};
use serde_json::json;

use crate::isolation::workload;
use crate::lab::{Lab, SOON, container, one};

/// Names of the links in the node's namespace.
async fn links(lab: &Lab) -> Vec<String> {
    let netns = lab.directory.join("node-1/node.netns");
    let text = kubelet::netns::inside(&netns, || fs::read_to_string("/proc/thread-self/net/dev")).await;
    let text = text.unwrap().unwrap();
    text.lines().skip(2).map(|line| line.split(':').next().unwrap().trim().to_owned()).collect()
}

fn entries(path: std::path::PathBuf) -> usize {
    fs::read_dir(path).unwrap().count()
}

/// Running processes that have `word` among their arguments, with their real uid and gid.
fn processes(word: &str) -> Vec<(u32, u32)> {
    let of = |entry: fs::DirEntry| {
        let arguments = fs::read(entry.path().join("cmdline")).ok()?;
        let found = arguments.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes());
        let status = fs::read_to_string(entry.path().join("status")).ok().filter(|_| found)?;
        let id = |field: &str| {
            status.lines().find(|l| l.starts_with(field))?.split_whitespace().nth(1)?.parse().ok()
        };
        Some((id("Uid:")?, id("Gid:")?))
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(of).collect()
}

/// Environment of the process that has `word` among its arguments.
fn environment(word: &str) -> Vec<String> {
    let has_it = |path: &Path| {
        let arguments = fs::read(path.join("cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    };
    let found = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).find(|path| has_it(path));
    let text = fs::read_to_string(found.unwrap().join("environ")).unwrap();
    text.split('\0').map(str::to_owned).collect()
}

pub(crate) async fn a_pod_on_the_hosts_network_has_the_nodes_addresses() {
    let lab = Lab::with_nodes(&["node-1", "node-2"]).await;
    let fields = ["podIP", "podIPs", "hostIP", "hostIPs"];
    let of = |field: &str| json!({ "name": field, "valueFrom": { "fieldRef": { "fieldPath": format!("status.{field}") } } });
    let mut spec = one("app --listen tcp:7010");
    spec["containers"][0]["env"] = fields.into_iter().map(of).collect();
    (spec["hostNetwork"], spec["nodeName"]) = (json!(true), json!("node-1"));
    let pod = lab.running("p", spec).await;
    let addresses: Vec<_> = pod.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.250.0.1", "fd00:250::1"], "they are what probes go to");
    let env = environment("tcp:7010");
    for field in fields {
        let wanted = if field.ends_with('s') { "10.250.0.1,fd00:250::1" } else { "10.250.0.1" };
        assert!(env.contains(&format!("{field}={wanted}")), "{env:?}");
    }
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_deleted_pod_leaves_nothing() {
    let lab = Lab::start().await;
    let paths = lab.node().paths().unwrap();
    lab.running("gone", one("app --listen tcp:7007")).await;
    assert_eq!(processes("tcp:7007").len(), 1);
    assert_eq!((links(&lab).await.len(), entries(paths.netns_dir.clone())), (2, 1), "lo and one veth");
    lab.cluster.delete_pod(&PodName::new("default", "gone")).await.unwrap();
    assert_eq!(processes("tcp:7007"), []);
    assert_eq!(links(&lab).await, ["lo"]);
    assert_eq!(entries(paths.netns_dir), 0);
    assert_eq!(entries(paths.cache_dir.join("results")), 0);
    assert!(lab.cluster.api().unwrap().pod("default", "gone").is_none());
    let held = fs::read_to_string(lab.directory.join("node-1/ipam/addresses.json")).unwrap();
    assert!(held.contains(r#""held":{}"#), "{held}");
    let directory = lab.directory.clone();
    lab.cluster.stop().await.unwrap();
    assert!(!directory.exists());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&*directory.to_string_lossy()), "{mounts}");
}

pub(crate) async fn init_containers_run_in_order_before_the_rest() {
    let lab = Lab::start().await;
    let mut sidecar = container("sidecar", "app --listen tcp:8081");
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        // A hand whose standard input is closed ends well at once.
        "initContainers": [container("first", "exit 0"), sidecar, container("last", "hand")],
        "containers": [container("main", "app --listen tcp:8080")],
    });
    lab.running("p", spec).await;
    let status = lab.status("p");
    let state = |list: &str, at: usize| status[list][at]["state"].clone();
    assert_eq!(state("initContainerStatuses", 0)["terminated"]["exitCode"], 0);
    assert!(state("initContainerStatuses", 1)["running"].is_object(), "{status}");
    assert_eq!(state("initContainerStatuses", 2)["terminated"]["exitCode"], 0);
    assert!(state("containerStatuses", 0)["running"].is_object());
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["podIPs"].as_array().unwrap().len(), 2);
    // `nsenter -t PID -n` with what the status says leads to the pod's network.
    let id = status["containerStatuses"][0]["containerID"].as_str().unwrap();
    let addresses = fs::read_to_string(format!("/proc/{}/net/fib_trie", id.strip_prefix("lab://").unwrap()));
    assert!(addresses.unwrap().contains(status["podIPs"][0]["ip"].as_str().unwrap()), "{status}");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_failing_init_container_fails_the_pod() {
    let lab = Lab::start().await;
    let spec = json!({
        "initContainers": [container("istio-validation", "exit 126")],
        "containers": [container("main", "app --listen tcp:8080")],
    });
    let start = lab.pod("p", spec).await;
    let PodStart::ContainerFailed { container, exit, .. } = start else { panic!("{start:?}") };
    assert_eq!((container.as_str(), exit), ("istio-validation", Some(126)));
    let status = lab.status("p");
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 126);
    assert!(status["containerStatuses"][0]["state"]["waiting"].is_object(), "{status}");
    assert_eq!(status["phase"], "Pending");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn a_container_that_ends_is_reported() {
    let lab = Lab::start().await;
    let spec = json!({ "containers": [container("stays", "pause"), container("ends", "exit 3")] });
    let start = lab.pod("p", spec).await;
    assert!(matches!(&start, PodStart::ContainerFailed { exit: Some(3), .. }), "{start:?}");
    lab.running("q", one("app --listen tcp:7008")).await;
    let pid = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .find(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.ends_with(b"tcp:7008\0")));
    let pid = pid.unwrap().file_name().to_str().unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    let failed = lab.cluster.api().unwrap().until(|api| {
        let status = api.pod("default", "q")?["status"].clone();
        (status["phase"] == "Failed").then_some(status)
    });
    let status = tokio::time::timeout(SOON, failed).await.unwrap();
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn processes_run_as_their_containers_user() {
    let lab = Lab::start().await;
    let mut proxy = container("istio-proxy", "proxy sidecar --domain x");
    proxy["securityContext"] = json!({ "runAsUser": 1337, "runAsGroup": 1338 });
    let spec = json!({
        "securityContext": { "runAsUser": 1000 },
        "containers": [proxy, container("main", "app --listen tcp:80")],
    });
    lab.running("p", spec).await;
    assert_eq!(processes("sidecar"), [(1337, 1338)]);
    assert_eq!(processes("tcp:80"), [(1000, 0)], "any user may listen on a low port");
    lab.cluster.stop().await.unwrap();
}

pub(crate) async fn pods_are_spread_over_nodes_as_their_selector_allows() {
    let lab = Lab::with_nodes(&["node-1", "node-2"]).await;
    let on =
        |name: &str| lab.cluster.api().unwrap().pod("default", name).unwrap()["spec"]["nodeName"].clone();
    for (name, wanted) in [("a", "node-2"), ("b", "node-2"), ("c", "node-1")] {
        let mut spec = one("pause");
        spec["nodeSelector"] = json!({ "kubernetes.io/hostname": wanted });
        let metadata = json!({ "name": name, "namespace": "default" });
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        lab.cluster.apply(pod).await.unwrap();
        let node = lab.cluster.nodes().into_iter().find(|node| node.name() == wanted).unwrap();
        let start = node.pod_started(&PodName::new("default", name), SOON).await.unwrap();
        assert!(matches!(start, PodStart::Running { .. }), "{start:?}");
        assert_eq!(on(name), wanted);
    }
    let one = lab.cluster.workload(&PodName::new("default", "a")).await.unwrap().addresses();
    let other = lab.cluster.workload(&PodName::new("default", "c")).await.unwrap().addresses();
    assert_ne!(one, other, "each node has ranges of its own");
    lab.cluster.stop().await.unwrap();
}

/// In a runtime with one thread, which hears of ends and must not wait for one.
pub(crate) async fn a_node_s_processes_end_with_it_and_nobody_waits() {
    let work = async {
        let netns = Path::new("/proc/self/ns/net");
        let root = NodeRoot("/run/lab-of-one".into());
        let pids = Pids::start(&workload(), netns, root).await.unwrap();
        let shown = Shown {
            base: "/run/view-of-one".into(),
            directory: "/run/lab-of-one".into(),
            programs: vec![workload()],
            mounts: Vec::new(),
        };
        let view = Arc::new(View::of(shown, netns, pids).await.unwrap());
        let program = Program { view: Some(view), ..Program::new(&workload(), ["pause"]) };
        let process = Process::start(&program, netns).await.unwrap();
        assert_eq!(process.ready(SOON).await.unwrap(), None);
        drop(program);
        process.ended(SOON).await.unwrap()
    };
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tell.send(alone.block_on(work)).unwrap();
    });
    assert_eq!(told.await.unwrap(), Exit::Signal(9));
}

pub(crate) async fn a_container_with_a_root_of_its_own_sees_the_processes_of_its_node_alone() {
    let lab = Lab::with_nodes(&["node-1", "node-2"]).await;
    let mut main = container("main", "pause");
    main["volumeMounts"] = json!([{ "name": "proc", "mountPath": "/host/proc", "readOnly": true }]);
    let volume = json!({ "name": "proc", "hostPath": { "path": "/proc" } });
    let spec = json!({ "containers": [main], "volumes": [volume], "nodeName": "node-1" });
    let pod = lab.running("p", spec).await;
    let elsewhere = json!({ "metadata": { "name": "q", "namespace": "default" }, "apiVersion": "v1", "kind": "Pod",
        "spec": { "nodeName": "node-2", "containers": [container("main", "pause")] } });
    lab.cluster.apply(elsewhere).await.unwrap();
    lab.cluster.nodes()[1].pod_started(&PodName::new("default", "q"), SOON).await.unwrap();
    let (pid, hand) = (pod.process("main").await.unwrap().unwrap(), pod.hand().await.unwrap());
    for proc in ["proc", "host/proc"] {
        let seen = hand.list(Path::new(&format!("/proc/{pid}/root/{proc}"))).await.unwrap();
        let numbers = seen.iter().filter_map(|entry| entry.name.parse::<u32>().ok());
        assert_eq!(numbers.count(), 3, "{proc}: the first process of the node, this one, and the hand");
    }
    lab.cluster.stop().await.unwrap();
}
