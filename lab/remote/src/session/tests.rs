// SPDX-License-Identifier: Apache-2.0
//! Nodes that a run uses, and what is left of one.

use std::path::PathBuf;

use apiserver::{ApiServer, ServerOptions};
use cluster::hand::{Answer, Done, Order, Work};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;

use super::*;
use crate::before::{Before, Content};
use crate::options::Whole;

fn node(name: &str, ready: &str, system: &str, spec: &Value) -> Node {
    let info = json!({
        "operatingSystem": system, "architecture": "", "bootID": "", "containerRuntimeVersion": "",
        "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "osImage": "",
        "systemUUID": "",
    });
    let conditions = json!([{ "type": "Ready", "status": ready }]);
    let status = json!({ "conditions": conditions, "nodeInfo": info });
    from(json!({ "metadata": { "name": name }, "spec": spec, "status": status })).unwrap()
}

#[test]
fn a_runtime_is_known_by_its_name_and_version() {
    assert!(is_runtime("cri-o://1.36.0", "cri-o"));
    assert!(is_runtime("containerd://2.1.4", "containerd-2"));
    assert!(is_runtime("containerd://1.6.20~ds1", "containerd-1.6"));
    for (version, name) in [
        ("containerd://2.1.4", "containerd-1.6"),
        ("containerd://21.0", "containerd-2"),
        ("cri-o://1.36.0", "cri-dockerd"),
        ("", "cri-o"),
    ] {
        assert!(!is_runtime(version, name), "{version} {name}");
    }
}

#[test]
fn nodes_are_those_that_pods_can_run_on_in_order() {
    let taint = |effect: &str| json!({ "taints": [{ "key": "role", "effect": effect }] });
    let all = vec![
        node("a-control-plane", "True", "linux", &taint("NoSchedule")),
        node("c", "True", "linux", &taint("PreferNoSchedule")),
        node("b", "True", "linux", &json!({})),
        node("down", "Unknown", "linux", &json!({})),
        node("cordoned", "True", "linux", &json!({ "unschedulable": true })),
        node("other", "True", "windows", &json!({})),
    ];
    let names: Vec<_> = usable(all).iter().map(Node::name_any).collect();
    assert_eq!(names, ["b", "c", "a-control-plane"]);
}

/// A node's hand: its directories are empty, and it tells of what it is asked to write.
async fn hand(written: mpsc::UnboundedSender<PathBuf>) -> Hand {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    far.write_all(b"ready hand\n").await.unwrap();
    let (from, mut to) = tokio::io::split(far);
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let order: Order = serde_json::from_str(&line).unwrap();
            let answer = match order.work {
                Work::List { .. } => Answer::Entries(Vec::new()),
                Work::Write { path, .. } => {
                    written.send(path).unwrap();
                    Answer::Done
                }
                _ => Answer::Done,
            };
            let done = serde_json::to_string(&Done { id: order.id, result: Ok(answer) }).unwrap();
            to.write_all(format!("{done}\n").as_bytes()).await.unwrap();
        }
    });
    let (from, to) = tokio::io::split(near);
    Hand::over("n", from, to, ()).await.unwrap()
}

/// A run that has this cluster and its node "n" to itself.
async fn whole(server: &ApiServer, written: mpsc::UnboundedSender<PathBuf>) -> Session {
    let options = SessionOptions {
        kubeconfig: PathBuf::new(),
        whole: Some(Whole { proxy: "proxyv2".to_owned() }),
        image: "workload".to_owned(),
        run: "one".to_owned(),
        tell: |_| {},
        deadline: Duration::from_secs(10),
        exchange: Duration::from_secs(1),
    };
    Session {
        client: server.client(),
        config: Config::new("http://127.0.0.1".parse().unwrap()),
        once: server.client(),
        options,
        nodes: vec!["n".to_owned()],
        hands: Arc::new(Mutex::new([("n".to_owned(), hand(written).await)].into())),
        evidence: String::new(),
        runtime: String::new(),
        scenarios: Arc::default(),
        owned: None,
        feed: None,
        baseline: Arc::default(),
    }
}

#[tokio::test]
async fn a_hand_whose_image_cannot_be_had_is_not_waited_for() {
    let server = ApiServer::new(ServerOptions::default()).unwrap();
    let session = whole(&server, mpsc::unbounded_channel().0).await;
    server.create_namespace("cnilab-one", &Default::default()).unwrap();
    let waiting = json!({ "reason": "ErrImagePull", "message": "not found" });
    let status = json!({ "name": "hand", "image": "lab:1", "state": { "waiting": waiting } });
    let containers = json!([{ "name": "hand", "image": "lab:1" }]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "hand-1", "namespace": "cnilab-one" },
        "spec": { "nodeName": "n", "containers": containers }, "status": { "containerStatuses": [status] },
    });
    server.upsert(pod).unwrap();
    let nodes = ["n".to_owned()];
    let placed = hands::place(&session.client, "cnilab-one", &nodes, &session.options, false).await;
    let why = placed.err().unwrap().to_string();
    assert_eq!(why, "hand on node n: its image cannot be had: lab:1: ErrImagePull: not found");
}

#[tokio::test]
async fn nodes_of_an_interrupted_scenario_are_what_they_were() {
    let server = ApiServer::new(ServerOptions::default()).unwrap();
    let node = |labels: Value| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": labels }, "status": { "nodeInfo": { "kubeletVersion": "v1" } } });
    let (told, mut written) = mpsc::unbounded_channel();
    let session = whole(&server, told).await;
    let list = Content::File(b"{}".to_vec(), 0o644);
    let configurations = [("10-net.conflist".to_owned(), list)].into();
    let before = from(node(json!({ "zone": "a" }))).unwrap();
    session.baseline().begin(vec![Before { configurations, plugins: Default::default(), node: before }]);
    server.upsert(node(json!({ "scenario": "x" }))).unwrap();
    session.end().await.unwrap();
    assert_eq!(written.try_recv().ok(), Some("/etc/cni/net.d/10-net.conflist".into()));
    let now = Api::<Node>::all(server.client()).get("n").await.unwrap();
    assert_eq!(now.metadata.labels, Some([("zone".to_owned(), "a".to_owned())].into()));
}

#[tokio::test]
async fn everything_of_a_run_goes_but_its_hands_whatever_stays() {
    let server = ApiServer::new(ServerOptions::default()).unwrap();
    let namespace = |name: &str, run: &str| {
        server.create_namespace(name, &[(LABEL.to_owned(), run.to_owned())].into()).unwrap();
    };
    namespace("cnilab-one", "one");
    namespace("istio-system", "one");
    namespace("shop", "one");
    namespace("theirs", "two");
    let labels = json!({ LABEL: "one" });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "agent", "labels": labels },
    });
    server.upsert(role).unwrap();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": labels },
        "spec": { "unschedulable": true }, "status": { "nodeInfo": { "kubeletVersion": "v1" } },
    });
    server.upsert(node).unwrap();
    let made = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "made", "labels": labels },
        "spec": { "unschedulable": true }, "status": { "nodeInfo": { "bootID": "b" } },
    });
    server.upsert(made).unwrap();
    let pod = |name: &str, namespace: &str, labels: &Value, spec: Value| {
        let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
        server
            .upsert(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
            .unwrap();
    };
    let containers = json!([{ "name": "app", "image": "app" }]);
    pod("unscheduled", "theirs", &labels, json!({ "containers": containers }));
    pod("on-made", "theirs", &json!({}), json!({ "containers": containers, "nodeName": "made" }));
    pod("theirs", "theirs", &json!({ LABEL: "two" }), json!({ "containers": containers }));
    pod("hand", "cnilab-one", &json!({}), json!({ "containers": containers }));
    let (mut left, label) = (Leftovers::default(), format!("{LABEL}=one"));
    // Nobody ends namespaces here.
    let soon = Duration::from_millis(200);
    let removed = remove_labelled(&server.client(), &label, Some("cnilab-one"), soon, &mut left).await;
    assert_eq!(removed, ["cordon of node n", "Node made", "Pod theirs/unscheduled", "ClusterRole agent"]);
    let pods = Api::<Pod>::all(server.client()).list(&ListParams::default()).await.unwrap();
    assert_eq!(pods.iter().map(Pod::name_any).collect::<Vec<_>>(), ["hand", "theirs"]);
    let [first, second] = left.faults.as_slice() else { panic!("{left:?}") };
    assert!(first.contains("the end of namespace istio-system did not happen"), "{first}");
    assert!(second.contains("the end of namespace shop did not happen"), "{second}");
    let all = Api::<Namespace>::all(server.client()).list(&ListParams::default().labels(LABEL)).await;
    let mut all = all.unwrap().items;
    all.retain(|namespace| namespace.metadata.deletion_timestamp.is_some());
    assert_eq!(all.iter().map(Namespace::name_any).collect::<Vec<_>>(), ["istio-system", "shop"]);
}
