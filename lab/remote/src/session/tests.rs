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
use crate::node::RemoteNode;
use crate::options::Whole;
use crate::view::View;

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

/// A node's hand: its directories are empty and have the mode 0755, there is no `/srv`, and it tells of what it is asked to change.
async fn hand(changed: mpsc::UnboundedSender<Work>) -> Hand {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    far.write_all(b"ready hand\n").await.unwrap();
    let (from, mut to) = tokio::io::split(far);
    tokio::spawn(async move {
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let order: Order = serde_json::from_str(&line).unwrap();
            let answer = match order.work {
                Work::List { .. } => Answer::Entries(Vec::new()),
                Work::Look { path } if path.starts_with("/srv") => Answer::Entries(Vec::new()),
                Work::Look { .. } => {
                    let entry = json!({
                        "name": "", "kind": "directory", "mode": 0o755, "owner": [0, 0], "size": 0, "inode": [0, 0],
                        "modified": [0, 0],
                    });
                    Answer::Entries(vec![serde_json::from_value(entry).unwrap()])
                }
                work => {
                    changed.send(work).unwrap();
                    Answer::Done
                }
            };
            let done = serde_json::to_string(&Done { id: order.id, result: Ok(answer) }).unwrap();
            to.write_all(format!("{done}\n").as_bytes()).await.unwrap();
        }
    });
    let (from, to) = tokio::io::split(near);
    Hand::over("n", from, to, ()).await.unwrap()
}

/// A run that has this cluster and its node "n" to itself.
async fn whole(server: &ApiServer, changed: mpsc::UnboundedSender<Work>) -> Session {
    let options = SessionOptions {
        access: Access::default(),
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
        hands: Arc::new(Mutex::new([("n".to_owned(), hand(changed).await)].into())),
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
    let (told, mut changed) = mpsc::unbounded_channel();
    let session = whole(&server, told).await;
    let list = Content::File(b"{}".to_vec(), 0o644);
    let configurations = [("10-net.conflist".to_owned(), list)].into();
    let before = from(node(json!({ "zone": "a" }))).unwrap();
    session.baseline().begin(vec![Before { configurations, plugins: Default::default(), node: before }]);
    server.upsert(node(json!({ "scenario": "x" }))).unwrap();
    let view = View { session: session.clone(), prefix: String::new() };
    let it = RemoteNode {
        name: "n".to_owned(),
        view,
        list: Some("10-net.conflist".to_owned()),
        network: Value::Null,
    };
    let hand = cluster::Node::hand(&it).await.unwrap();
    let directory = PathBuf::from("/etc/cni/net.d");
    hand.set_mode(&directory, 0).await.unwrap();
    hand.set_immutable(&directory, true).await.unwrap();
    let unnamed = hand.read(&directory.join(cluster::PRIMARY)).await.unwrap_err().to_string();
    assert!(
        unnamed.contains("find the list of its network as 10-lab.conflist: it is 10-net.conflist"),
        "{unnamed}"
    );
    hand.make_directory(Path::new("/srv/other")).await.unwrap();
    hand.make_directory(Path::new("/etc/cni")).await.unwrap();
    session.end().await.unwrap();
    let immutable = |immutable| Work::SetImmutable { path: directory.clone(), immutable };
    let mode = |mode| Work::SetMode { path: directory.clone(), mode };
    let changes: Vec<_> = std::iter::from_fn(|| changed.try_recv().ok()).collect();
    let made = |path: &str| Work::MakeDirectory { path: path.into() };
    let written =
        |work: &Work| matches!(work, Work::Write { path, .. } if *path == directory.join("10-net.conflist"));
    let wanted = [
        mode(0),
        immutable(true),
        made("/srv/other"),
        made("/etc/cni"),
        immutable(false),
        mode(0o755),
        made("/etc/cni/net.d"),
    ];
    assert_eq!(changes[..wanted.len()], wanted);
    assert!(changes.iter().any(written), "{changes:?}");
    assert_eq!(changes.last(), Some(&Work::Remove { path: "/srv/other".into() }));
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
    let object = |kind: &str, name: &str, namespace: &str, labels: &Value, node: Value| {
        let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
        let spec = json!({ "containers": [{ "name": "app", "image": "app" }], "nodeName": node });
        let object = json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec });
        server.upsert(object).unwrap();
    };
    object("Pod", "unscheduled", "theirs", &labels, Value::Null);
    object("Pod", "on-made", "theirs", &json!({}), json!("made"));
    object("Pod", "theirs", "theirs", &json!({ LABEL: "two" }), Value::Null);
    object("Pod", "hand", "cnilab-one", &json!({}), Value::Null);
    object("ConfigMap", "agents", "theirs", &labels, Value::Null);
    object("ConfigMap", "theirs", "theirs", &json!({}), Value::Null);
    object("ConfigMap", "hands", "cnilab-one", &labels, Value::Null);
    let (mut left, label) = (Leftovers::default(), format!("{LABEL}=one"));
    // Nobody ends namespaces here.
    let soon = Duration::from_millis(200);
    let removed = remove_labelled(&server.client(), &label, Some("cnilab-one"), soon, &mut left).await;
    assert_eq!(
        removed,
        [
            "cordon of node n",
            "Node made",
            "Pod theirs/unscheduled",
            "ConfigMap theirs/agents",
            "ClusterRole agent"
        ]
    );
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

#[tokio::test]
async fn a_kubeconfig_runs_no_program_that_nobody_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    let ran = directory.path().join("ran");
    let write = |current: &str, user: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {current}\n\
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\n\
             contexts: [{{name: own, context: {{cluster: c, user: own}}}}, {{name: other, context: {{cluster: c, user: other}}}}]\n\
             users: [{{name: own, user: {user}}}, {{name: other, user: {{token: t}}}}]\n"
        );
        std::fs::write(&kubeconfig, text).unwrap();
    };
    let access = |may_execute| Access { kubeconfig: kubeconfig.clone(), may_execute };
    let touch = format!("[{}]", serde_json::json!(ran));
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: touch, args: {touch}, interactiveMode: Never}}}}"
    );
    write("own", &exec);
    let soon = Duration::from_secs(5);
    let refused = clean(&access(false), None, soon).await.unwrap_err().to_string();
    assert!(refused.contains("\"touch\"") && refused.contains("--kubeconfig-exec"), "{refused}");
    assert!(!ran.exists());
    // Nobody answers there, and it prints no token; but it ran.
    assert!(clean(&access(true), None, soon).await.is_err() && ran.exists());
    let provider = "{auth-provider: {name: gcp, config: {cmd-path: /bin/touch}}}";
    write("own", provider);
    assert!(read(&access(false)).await.unwrap_err().to_string().contains("/bin/touch"));
    // Users of other contexts are nobody's business.
    write("other", &exec);
    assert!(read(&access(false)).await.is_ok());
}
